"""RabbitMQ's model as pure state machines: virtual hosts, exchanges, bindings, policies, definitions.

``broker.py`` holds what is declared (commands in, records and answers out), ``routing.py`` says where a
message goes, ``declare.py`` decides. None of it knows a clock or a disk.
"""
