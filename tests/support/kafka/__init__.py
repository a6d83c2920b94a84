"""Clients, members and fakes that speak Kafka's protocol."""
