"""The metadata quorum: one log that several nodes agree on, by Raft in Kafka's variant (KRaft).

Followers pull (``Fetch``), so the leader keeps no sending state. ``Replica`` is the whole protocol as a state
machine: requests, responses and the time go in; requests, responses and events come out. It has no clock, no
socket and no thread; its log and its vote are behind two small protocols (``storage.py``).
"""
