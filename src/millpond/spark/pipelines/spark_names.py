"""Spark's names as pipelines use them, imported on first use.

``millpond pipeline run NAME --help`` shows the options of a pipeline, also where PySpark is not installed. So
no pipeline imports it at its top: types exist for the type checker only, and functions are looked up when
they are called.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
else:
    Column = DataFrame = SparkSession = Any

__all__ = ["Column", "DataFrame", "SparkSession", "sf"]


class _Functions:
    """``pyspark.sql.functions``, imported on first use."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("pyspark.sql.functions"), name)


sf: Any = _Functions()
