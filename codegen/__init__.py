"""Writes the Kafka message codecs from the field table ``kafka_messages.txt``. Not part of the package."""
