"""Consumer groups (KIP-848): members say what they read, and the coordinator assigns the partitions."""
