"""One module per Kafka API, written by ``python -m codegen``; imported one by one."""
