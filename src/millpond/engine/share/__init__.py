"""Hosts share groups: acquisition of records and the state of share partitions."""
