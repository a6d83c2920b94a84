"""Transactions as pure state machines: commands in, records and responses out.

No clock, no files, no protocol: time and new producer ids are arguments, a host appends the records.
"""
