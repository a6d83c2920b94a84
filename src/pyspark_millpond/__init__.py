"""Registers the data source `millpond` with Spark, which looks for modules with this prefix."""
