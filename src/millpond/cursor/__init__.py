"""The ack cursor: the delivery state of each message of a log."""
