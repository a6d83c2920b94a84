"""Transactions as pure state machines: commands in, facts and answers out.

No clock, no files, no protocol: time and fresh producer ids are arguments, facts are appended by a host.
"""
