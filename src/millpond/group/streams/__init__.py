"""Streams groups (KIP-1071): instances of a Kafka Streams application share its tasks."""
