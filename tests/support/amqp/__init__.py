"""Clients, models and nodes that speak AMQP, and RabbitMQ's HTTP API."""
