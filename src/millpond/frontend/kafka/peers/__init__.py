"""What nodes ask each other, as Kafka's inter-broker APIs: one module for each API, both directions in it.

The asking side is a ``PeerCall`` in the table (``table.py``); the answering side are the functions that the
API's handler uses. A question that goes through both comes out as it went in.
"""
