"""Protocols: one event in, one engine call, one event out. Front-ends know a wire and
``engine.api``, not each other.
"""
