"""Positions over a log: the ack cursor, which knows what became of each message."""
