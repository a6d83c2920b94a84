"""Forwards messages from one log to others: dead letters, and delayed messages that are due."""
