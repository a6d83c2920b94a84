"""The Kafka protocol's front door."""
