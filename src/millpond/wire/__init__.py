"""Protocols as bytes: sans-IO codecs and connection state, used by front-ends and clients."""
