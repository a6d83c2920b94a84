"""``millpond config``: what can be set, what it means, and what would be in force here."""

import json
import os
import sys
from pathlib import Path

import click

from millpond.base.errors import InvalidConfig
from millpond.cli.output import is_terminal, print_table
from millpond.metadata.configs import (
    BROKER_CONFIGS,
    BROKER_NAMES,
    SUPPORTED,
    TOPIC_CONFIGS,
    ConfigDef,
    broker_config_def,
)


@click.group()
def config() -> None:
    """List and explain settings."""


@config.command("list")
@click.argument("pattern", required=False)
@click.option("--topic", "scope", flag_value="topic", help="Settings of topics only.")
@click.option("--broker", "scope", flag_value="broker", help="Settings of the broker only.")
@click.option(
    "--all", "everything", is_flag=True, help="Also Kafka's settings that change nothing here."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs to read.")
def list_settings(
    pattern: str | None, scope: str | None, *, everything: bool, as_json: bool
) -> None:
    """List settings, all or those whose name contains PATTERN."""
    rows = [
        (kind, definition)
        for kind, table in (("topic", TOPIC_CONFIGS), ("broker", BROKER_CONFIGS))
        if scope in {None, kind}
        for definition in table.values()
        if (everything or definition.effective) and (pattern or "") in definition.name
    ]
    if as_json:
        click.echo(json.dumps([_as_dict(kind, definition) for kind, definition in rows], indent=2))
        return
    if not rows:
        raise click.ClickException(f"no setting's name contains {pattern!r}")
    _print_table(rows)


@config.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs to read.")
def explain(name: str, *, as_json: bool) -> None:
    """Explain one setting: meaning, type, default, how to set it."""
    found = [
        (kind, table[name])
        for kind, table in (("topic", TOPIC_CONFIGS), ("broker", BROKER_CONFIGS))
        if name in table
    ]
    if not found:
        try:
            found = [("broker", broker_config_def(name))]
        except InvalidConfig as error:
            raise click.ClickException(str(error)) from None
    if as_json:
        click.echo(json.dumps([_as_dict(kind, definition) for kind, definition in found], indent=2))
        return
    for kind, definition in found:
        click.echo(_explanation(kind, definition))


@config.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "-s",
    "--set",
    "assignments",
    multiple=True,
    metavar="NAME=VALUE",
    help="As for `millpond up`. May be repeated.",
)
@click.option("--all", "everything", is_flag=True, help="Also what stands at its default.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs to read.")
def show(
    file: Path | None, *, assignments: tuple[str, ...], everything: bool, as_json: bool
) -> None:
    """Show what `millpond up FILE` would run with, and why.

    Checks the FILE and the MILLPOND_* variables; starts nothing.
    """
    from millpond.server.config import given_on_command_line, load_settings

    try:
        overrides = [given_on_command_line(text, option="--set") for text in assignments]
        settings = load_settings(file=file, environment=os.environ, overrides=overrides)
    except InvalidConfig as error:
        for line in str(error).splitlines():
            click.echo(line, err=True)
        sys.exit(2)
    rows = [
        {
            "name": name,
            "value": _shown(definition, settings.values[name]),
            "source": settings.source_of(name).where,
        }
        for name, definition in BROKER_CONFIGS.items()
        if (everything and definition.effective) or name in settings.sources
    ]
    if as_json:
        remarks = {"notices": settings.notices, "warnings": settings.warnings}
        click.echo(json.dumps({"settings": rows, **remarks}, indent=2))
        return
    for row in rows:
        click.echo(f"{row['name']}={row['value'] or ''}    # {row['source']}")
    if not rows:
        click.echo("# everything stands at its default", err=True)
    for notice in settings.notices:
        click.echo(f"# {notice}", err=True)
    for warning in settings.warnings:
        click.echo(f"# warning: {warning}", err=True)


def configured_log_dirs() -> tuple[Path, ...]:
    """The log directories of `millpond up` without options: by MILLPOND_CONFIG and the other variables."""
    from millpond.server.config import load_settings

    file = os.environ.get("MILLPOND_CONFIG")
    try:
        settings = load_settings(file=Path(file) if file else None, environment=os.environ)
    except InvalidConfig as error:
        raise click.ClickException(str(error)) from None
    return settings.log_dirs


@config.command(hidden=True)
def docs() -> None:
    """Write docs/configuration.md to standard output."""
    from millpond.cli.config_docs import configuration_page

    click.echo(configuration_page(), nl=False)


def _shown(definition: ConfigDef, value: object) -> str | None:
    assert value is None or isinstance(value, (bool, int, float, str, tuple))
    return "[hidden]" if definition.sensitive and value else definition.render(value)


def _as_dict(kind: str, definition: ConfigDef) -> dict[str, object]:
    return {
        "name": definition.name,
        "scope": kind,
        "type": definition.type.name.lower(),
        "default": definition.render(definition.default),
        "valid": definition.valid_values,
        "dynamic": definition.dynamic,
        "effective": definition.effective,
        "broker_settings": _behind(kind, definition),
        "doc": definition.doc,
    }


def _behind(kind: str, definition: ConfigDef) -> list[str]:
    if kind != "topic":
        return []
    return [behind.name for behind in BROKER_NAMES.get(definition.name, ())]


def _explanation(kind: str, definition: ConfigDef) -> str:
    default = definition.render(definition.default)
    lines = [
        click.style(definition.name, bold=True) + f"  ({kind} setting)",
        f"  {definition.doc}",
        f"  type: {definition.type_words}" + (f"; {v}" if (v := definition.valid_values) else ""),
        f"  default: {'not set' if default is None else default or 'empty'}",
    ]
    if not definition.effective:
        lines.append("  accepted for Kafka's sake; changes nothing here")
    if kind == "topic":
        lines.append(f"  set it: millpond kafka topic alter TOPIC --config {definition.name}=VALUE")
        if behind := _behind(kind, definition):
            lines.append(f"  its default for all topics: {', '.join(behind)}")
    else:
        variable = "MILLPOND_" + definition.name.replace(".", "_").upper()
        if definition.name == "cluster.secret":
            lines.append(
                "  set it: write it to a file that only the node's user can read, and name that file in "
                "cluster.secret.file; on a command line every user of the machine could read it"
            )
        elif definition.sensitive:
            lines.append(
                f"  set it: in the settings file, or {variable}=VALUE; on a command line every user of the "
                "machine could read it"
            )
        else:
            lines.append(
                f"  set it: millpond up --set {definition.name}=VALUE, or {variable}=VALUE"
            )
        if definition.dynamic:
            lines.append("  can be altered while the broker runs")
    return "\n".join(lines)


def _table_row(kind: str, definition: ConfigDef) -> tuple[str, str, str, str]:
    default = definition.render(definition.default)
    effect = "" if definition.name in SUPPORTED or definition.effective else "(no effect) "
    return definition.name, kind, "-" if default is None else default, effect + definition.doc


def _print_table(rows: list[tuple[str, ConfigDef]]) -> None:
    columns = ("NAME", "SCOPE", "DEFAULT", "MEANING")
    if not is_terminal():
        print_table(columns, [_table_row(*row) for row in rows])
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in {"NAME", "SCOPE"})
    for row in rows:
        table.add_row(*map(Text, _table_row(*row)))
    Console(highlight=False).print(table)
