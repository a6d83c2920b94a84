"""Checks whether Spark can run here: one finding for each requirement, with advice."""

import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from millpond.spark.errors import NoJava
from millpond.spark.java import VERSION_MIN, Java, find_java
from millpond.spark.session import archive_path

_INSTALL = "pip install '.[spark]' in a clone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One checked requirement. ``advice`` is empty if nothing need be done."""

    what: str
    found: str
    good: bool = True
    advice: str = ""


def examine() -> Iterator[Finding]:
    """Check everything, in the order in which it must be corrected."""
    yield _python()
    yield _pyspark()
    yield _pandas()
    yield _package("pyarrow", "18")
    java = None
    try:
        java = find_java()
        yield _java(java)
    except NoJava as error:
        yield Finding(what="Java", found="none", good=False, advice=str(error))
    yield _decoder()
    yield _source()
    if java is not None and _version("pyspark") is not None:
        yield _archive(java)


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding(what="Python", found=version)  # the installation checked its version


def _pyspark() -> Finding:
    version = _version("pyspark")
    if version is None:
        return Finding(what="pyspark", found="not installed", good=False, advice=_INSTALL)
    good = version.startswith("4.3.")
    advice = "" if good else f"the source is written for 4.3: {_INSTALL}"
    return Finding(what="pyspark", found=version, good=good, advice=advice)


def _pandas() -> Finding:
    version = _version("pandas")
    if version is None:
        return Finding(what="pandas", found="not installed", good=False, advice=_INSTALL)
    good = int(version.split(".")[0]) < 3
    advice = "" if good else "Spark 4.3 does not support pandas 3: pip install 'pandas<3'"
    return Finding(what="pandas", found=version, good=good, advice=advice)


def _package(name: str, least: str) -> Finding:
    version = _version(name)
    if version is None:
        return Finding(what=name, found="not installed", good=False, advice=_INSTALL)
    good = int(version.split(".")[0]) >= int(least)
    advice = "" if good else f"Spark needs {name} {least} or newer: {_INSTALL}"
    return Finding(what=name, found=version, good=good, advice=advice)


def _java(java: Java) -> Finding:
    assert java.major >= VERSION_MIN
    return Finding(what="Java", found=f"{java.version} in {java.home} (by {java.found_by})")


def _decoder() -> Finding:
    from millpond.record.compiled import COMPILED

    if COMPILED:
        return Finding(what="record decoder", found="compiled")
    return Finding(
        what="record decoder",
        found="pure Python",
        advice="reading is several times slower; install a C compiler and Millpond again, and see that"
        " MILLPOND_PURE_PYTHON is not set",
    )


def _source() -> Finding:
    if importlib.util.find_spec("pyspark_millpond") is not None:
        return Finding(what='format "millpond"', found="registers itself")
    return Finding(
        what='format "millpond"',
        found="cannot be imported",
        good=False,
        advice="install Millpond again",
    )


def _archive(java: Java) -> Finding:
    path = archive_path(java)
    if path.exists():
        return Finding(what="class archive", found=str(path))
    if java.is_from_wheel:
        return Finding(what="class archive", found="none (the wheel's Java does not take one)")
    return Finding(
        what="class archive",
        found="none",
        advice="millpond spark warmup makes one; sessions then start in half the time",
    )


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
