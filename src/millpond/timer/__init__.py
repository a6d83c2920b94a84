"""Durable timers as pure decisions: records that are appended to a partition when they are due."""
