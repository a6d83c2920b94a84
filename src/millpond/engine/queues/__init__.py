"""Queues as a service of the node: declared by the controller, hosted by one node, used from any."""
