"""The partitions on this node: appends, reads, flushes, retention, and the health of their disk."""
