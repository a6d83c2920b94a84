"""Real processes: brokers, clusters, Apache Kafka, RabbitMQ, JVMs, networks."""
