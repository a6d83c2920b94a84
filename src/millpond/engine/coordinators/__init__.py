"""Hosts of the group and transaction coordinators over their internal topics."""
