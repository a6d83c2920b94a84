"""Virtual hosts, exchanges, bindings and queues: what a message broker decides, as pure state machines.

``broker.py`` is the door to what is declared (commands in, facts and answers out), ``routing.py`` says
where a message goes, ``line.py`` is one queue's messages and consumers. None of it knows a protocol, a
clock or a disk.
"""
