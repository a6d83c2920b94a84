"""Share groups (KIP-932): members share partitions, and each record is acknowledged on its own."""
