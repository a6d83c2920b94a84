"""What a session is made with; everything can be given another value."""

import subprocess
import sys
from pathlib import Path

import pytest

from millpond.spark.java import Java
from millpond.spark.session import archive_path, local_cores, session_settings, worker_python

JAVA = Java(home=Path("/usr/lib/jvm/java-17"), version="17.0.15", found_by="the path")


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLPOND_CACHE", str(tmp_path))


def test_a_local_session_is_small_and_quiet() -> None:
    settings = session_settings("local[3]", {}, JAVA)

    assert settings["spark.sql.shuffle.partitions"] == "3"
    assert settings["spark.ui.enabled"] == "false"
    assert "FileSystemBased" in settings["spark.sql.streaming.checkpointFileManagerClass"]
    logs = settings["spark.driver.extraJavaOptions"].removeprefix(
        "-Dlog4j2.configurationFile=file://"
    )
    assert "rootLogger.level = error" in Path(logs).read_text()


def test_a_cluster_keeps_its_own_sizes() -> None:
    settings = session_settings("spark://master:7077", {}, JAVA)

    assert "spark.sql.shuffle.partitions" not in settings
    assert "spark.driver.host" not in settings
    assert "spark.sql.streaming.checkpointFileManagerClass" not in settings, "it may be on HDFS"


@pytest.mark.parametrize("master", ["local[*]", "spark://master:7077"])
def test_times_mean_the_same_on_every_machine(master: str) -> None:
    assert session_settings(master, {}, JAVA)["spark.sql.session.timeZone"] == "UTC"


def test_what_is_given_goes_before_our_defaults() -> None:
    settings = session_settings(
        "local[*]",
        {"spark.ui.enabled": "true", "spark.driver.extraJavaOptions": "-Da=b"},
        JAVA,
    )

    assert settings["spark.ui.enabled"] == "true"
    assert settings["spark.driver.extraJavaOptions"].endswith(" -Da=b")


def test_the_class_archive_is_used_once_it_is_there() -> None:
    archive = archive_path(JAVA)
    assert (
        "SharedArchiveFile"
        not in session_settings("local[1]", {}, JAVA)["spark.driver.extraJavaOptions"]
    )

    archive.write_bytes(b"")

    options = session_settings("local[1]", {}, JAVA)["spark.driver.extraJavaOptions"]
    assert f"-XX:SharedArchiveFile={archive}" in options


@pytest.mark.parametrize(("master", "cores"), [("local", 1), ("local[4]", 4), ("local[2,3]", 2)])
def test_cores_of_a_local_master(master: str, cores: int) -> None:
    assert local_cores(master) == cores


def test_workers_take_the_installed_pyspark_and_not_the_zip() -> None:
    pytest.importorskip("pyspark")
    python = worker_python()
    zips = ["/opt/spark/python/lib/pyspark.zip", "/opt/spark/python/lib/py4j-0.10.9.9-src.zip"]
    run = subprocess.run(
        [python, "-c", "import sys; print(sys.executable); print(*sys.path, sep='\\n')", "an arg"],
        env={"PYTHONPATH": ":".join([*zips, "/opt/spark.jar", "/my modules"])},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    executable, *paths = run.stdout.splitlines()
    assert executable == sys.executable
    assert not set(zips) & set(paths)
    assert {"/opt/spark.jar", "/my modules"} <= set(paths)


def test_a_cache_with_a_space_in_its_name_is_not_put_before_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLPOND_CACHE", str(tmp_path / "my files"))
    archive = archive_path(JAVA)
    archive.parent.mkdir()
    archive.touch()

    assert worker_python() == Path(sys.executable)
    flags = session_settings("local[1]", {}, JAVA)["spark.driver.extraJavaOptions"]
    assert f"-XX:SharedArchiveFile='{archive}'" in flags
