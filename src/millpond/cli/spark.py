"""``millpond spark``: whether Apache Spark can run here, and how to make it start sooner.

Exit codes: 0 done and fit, 1 something is missing or did not work.
"""

import json
from dataclasses import asdict

import click

from millpond.base.errors import MillpondError
from millpond.cli.output import Exit, note, print_table


@click.group()
def spark() -> None:
    """Check and prepare Apache Spark for the data pipeline."""


@spark.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs to read.")
def doctor(*, as_json: bool) -> None:
    """Check Java, PySpark, pandas and Arrow; say what to do."""
    from millpond.spark.doctor import examine

    findings = list(examine())
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        rows = [
            (
                "ok" if not finding.advice else "advice" if finding.good else "wrong",
                finding.what,
                finding.found + (f". {finding.advice}" if finding.advice else ""),
            )
            for finding in findings
        ]
        print_table(["Verdict", "Check", "Found"], rows)
    if not all(finding.good for finding in findings):
        click.get_current_context().exit(Exit.REFUSED)


@spark.command()
def warmup() -> None:
    """Make an archive of Spark's classes in the cache directory.

    Sessions on this machine then start in about half the time. Takes half a minute and some 150 MB; make it
    again after an update of Java or PySpark.
    """
    from millpond.spark.doctor import examine
    from millpond.spark.warmup import make_archive

    for finding in examine():
        if not finding.good:
            raise click.ClickException(f"{finding.what}: {finding.found}. {finding.advice}")
    note("Running Spark once to see which classes it loads …")
    try:
        archive = make_archive()
    except MillpondError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{archive} ({archive.stat().st_size // 1_000_000} MB)")
