"""``python -m codegen``: rewrites ``src/millpond/wire/kafka/messages/``."""

from pathlib import Path

from codegen.generate import index_source, module_source
from codegen.table import load

TARGET = Path(__file__).parents[1] / "src" / "millpond" / "wire" / "kafka" / "messages"

PACKAGE_SOURCE = (
    '"""One module per Kafka API, written by ``python -m codegen``; imported one by one."""\n'
)


def sources() -> dict[str, str]:
    """Return every generated file, by name."""
    apis = load()
    files = {f"{api.module}.py": module_source(api) for api in apis}
    return files | {"__init__.py": PACKAGE_SOURCE, "index.py": index_source(apis)}


def main() -> None:
    files = sources()
    TARGET.mkdir(parents=True, exist_ok=True)
    for stale in TARGET.glob("*.py"):
        if stale.name not in files:
            stale.unlink()
    for name, text in files.items():
        (TARGET / name).write_text(text, encoding="utf-8")
    lines = sum(text.count("\n") for text in files.values())
    print(f"{len(files)} files, {lines} lines")


if __name__ == "__main__":
    main()
