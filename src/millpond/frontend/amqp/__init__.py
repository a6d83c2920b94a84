"""AMQP 0-9-1: one connection is one ``AmqpSession``; what it asks is asked of ``engine/queues/queues.py``."""
