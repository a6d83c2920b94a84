"""Classic groups: members agree on generations, and the leader among them assigns the partitions."""
