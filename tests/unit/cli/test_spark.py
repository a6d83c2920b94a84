"""`millpond spark doctor`: what is there, what is not, and what to do."""

import json

import pytest
from click.testing import CliRunner

from millpond.cli import cli
from millpond.spark import doctor
from millpond.spark.errors import NoJava
from millpond.spark.java import Java


def test_what_is_missing_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"pyspark": "4.3.0", "pandas": "3.1.1", "pyarrow": "17.0.0"}
    monkeypatch.setattr(doctor, "_version", versions.get)

    def no_java() -> Java:
        raise NoJava("Spark needs Java 17 or newer")

    monkeypatch.setattr(doctor, "find_java", no_java)

    result = CliRunner().invoke(cli, ["spark", "doctor", "--json"])

    assert result.exit_code == 1
    wrong = {item["what"]: item["advice"] for item in json.loads(result.output) if not item["good"]}
    assert wrong.keys() == {"pandas", "pyarrow", "Java"}
    assert "pandas<3" in wrong["pandas"]
    assert "Java 17" in wrong["Java"]


def test_a_table_for_people_says_what_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_version", lambda package: None)

    result = CliRunner().invoke(cli, ["spark", "doctor"])

    assert result.exit_code == 1
    assert "pip install '.[spark]' in a clone" in result.output


def test_nothing_is_warmed_up_where_spark_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_version", lambda package: None)

    result = CliRunner().invoke(cli, ["spark", "warmup"])

    assert result.exit_code == 1
    assert result.stderr == "Error: pyspark: not installed. pip install '.[spark]' in a clone\n"
