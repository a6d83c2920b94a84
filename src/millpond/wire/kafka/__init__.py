"""The Kafka protocol: message codecs, the table of APIs, and both ends of a connection."""
