"""The data pipeline on Apache Spark: source, sink and shipped pipelines. The broker never imports this."""
