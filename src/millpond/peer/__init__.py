"""The bus between the nodes of a cluster: calls, links, versions, and the proof that a peer is a node.

The engine says what a call asks and which handler answers it (``engine/peers.py``, ``PeerHandlers``); this
package knows how a call travels. Each has a file, with both directions in it, and a line in ``table.py``. A
call is one of Kafka's inter-broker APIs where Kafka has one, or a table in an Envelope (``own_calls.py``).

``links.py`` keeps connections to the other nodes and is the engine's ``Peers``; ``connection.py`` is one of
them, ``versions.py`` finds the version of an API that both ends know, ``proof.py`` is how they prove to each
other that they belong to one cluster. The listener of other nodes is the Kafka front-end's: its handlers
decode a call by the functions of the call's file and hand it to ``PeerHandlers``.
"""
