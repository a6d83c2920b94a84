"""The page about settings says what the table says, and settings that claim an effect are read somewhere."""

import re
import tomllib
from pathlib import Path

from millpond.cli.config_docs import configuration_page
from millpond.metadata.configs import BROKER_NAMES, SUPPORTED, TOPIC_CONFIGS
from millpond.server.config import load_settings

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "configuration.md"
TABLES = {"broker_configs.py", "topic_configs.py"}


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == configuration_page(), (
        "run `python -m millpond config docs > docs/configuration.md`"
    )


def test_the_example_on_the_page_works(tmp_path: Path) -> None:
    example = re.search(r"```toml\n(.*?)```", configuration_page(), re.DOTALL)
    assert example is not None
    tomllib.loads(example[1])
    file = tmp_path / "node.toml"
    file.write_text(example[1])

    settings = load_settings(file=file)

    assert settings.values["max.connections.per.ip"] == 100
    assert settings.values["log.retention.hours"] == 48


def test_a_setting_that_claims_an_effect_is_read_somewhere() -> None:
    sources = "\n".join(
        path.read_text() for path in (ROOT / "src").rglob("*.py") if path.name not in TABLES
    )
    behind_topics = {each.name for names in BROKER_NAMES.values() for each in names}

    unread = [
        name
        for name in SUPPORTED
        if name not in behind_topics
        # Read by prefix, for all internal topics alike.
        and not name.startswith(
            ("offsets.topic.", "transaction.state.log.", "share.coordinator.state.topic.")
        )
        and f'"{name}"' not in sources
    ]

    assert unread == [], "move these to ACCEPTED, or make them work"


def test_a_topic_setting_that_claims_an_effect_is_read_by_the_log_or_the_controller() -> None:
    readers = "\n".join(
        path.read_text()
        for layer in ("log", "replication", "engine")
        for path in (ROOT / "src" / "millpond" / layer).rglob("*.py")
    )

    controller = (ROOT / "src" / "millpond" / "metadata" / "elections.py").read_text()

    unread = [
        name
        for name, row in TOPIC_CONFIGS.items()
        if row.effective
        and f".{name.replace('.', '_')}" not in readers
        and f'"{name}"' not in controller
        and f'"{name}"' not in readers
    ]

    assert unread == [], "mark these as without effect, or make them work"
