"""Indexes of bindings: topic patterns and headers."""
