"""Brokers and clusters without sockets, and parts of them."""
