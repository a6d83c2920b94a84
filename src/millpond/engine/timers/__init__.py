"""Durable timers on this node: the host of ``__timers``, which delivers records when they are due."""
