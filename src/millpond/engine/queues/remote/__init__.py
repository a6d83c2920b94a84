"""Queues that another node hosts, as clients of this node use them."""
