"""Rules about the repository itself. A rule that no tool checks is not a rule."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT_SUFFIXES = {".py", ".md", ".toml", ".txt", ".cfg", ".xml", ".sh", ".java", ".json", ".svg", ""}
FILE_BYTES_MAX = 600_000

# Code that waits to be done belongs in an issue; a machine's own paths belong nowhere.
FORBIDDEN = {
    r"\bFIXME\b": "finish it or file it",
    r"\bXXX\b": "finish it or file it",
    r"(?<![\w.])/(?:work|root|home/\w+)/": "a path of one machine",
}


def tracked_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    names = [name for name in listed.stdout.decode().split("\0") if name]
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def text_files() -> list[Path]:
    return [path for path in tracked_files() if path.suffix in TEXT_SUFFIXES]


@pytest.mark.parametrize("pattern", FORBIDDEN)
def test_no_forbidden_words(pattern: str) -> None:
    this_file = Path(__file__)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in text_files()
        if path != this_file and path.name != "LICENSE"
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if re.search(pattern, line)
    ]
    assert not found, f"{FORBIDDEN[pattern]}:\n" + "\n".join(found)


def test_no_large_files() -> None:
    large = [
        f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes"
        for path in tracked_files()
        if path.stat().st_size > FILE_BYTES_MAX
    ]
    assert not large, "build output or data does not belong here:\n" + "\n".join(large)


def test_every_module_says_what_it_is() -> None:
    generated = ROOT / "src/millpond/wire/kafka/messages"
    silent = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "src").rglob("*.py")
        if generated not in path.parents
        and not path.read_text().lstrip().startswith(('"""', 'r"""'))
    ]
    assert not silent, f"modules without an opening docstring: {silent}"


def test_docs_name_only_files_that_exist() -> None:
    named = re.compile(r"`((?:src|tests|docs|bench|codegen|examples|\.ci)/[\w./-]+)`")
    gone = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), ROOT / "CONTRIBUTING.md"]
        if page.exists()
        for name in named.findall(page.read_text())
        if not (ROOT / name).exists()
    ]
    assert not gone, "prose names files that are not there:\n" + "\n".join(gone)


def test_acceptance_names_tests_that_exist() -> None:
    page = (ROOT / "docs/acceptance.md").read_text()
    named = set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page))
    assert named, "docs/acceptance.md names no test at all"
    wrong = []
    for path, test in sorted(named):
        file = ROOT / path
        if not file.exists():
            wrong.append(path)
        elif test and f"def {test}(" not in file.read_text():
            wrong.append(f"{path}::{test}")
    assert not wrong, f"docs/acceptance.md points to tests that are not there: {wrong}"


def test_every_decision_record_is_listed() -> None:
    records = sorted(path.name for path in (ROOT / "docs/adr").glob("[0-9]*.md"))
    index = (ROOT / "docs/adr/README.md").read_text()
    numbers = [name[:4] for name in records]
    assert len(numbers) == len(set(numbers)), f"two decision records share a number: {records}"
    missing = [name for name in records if name not in index]
    assert not missing, f"docs/adr/README.md does not list {missing}"


def test_every_package_has_a_page_of_its_internals() -> None:
    packages = {path.parent.name for path in (ROOT / "src/millpond").glob("*/__init__.py")}
    pages = {path.stem for path in (ROOT / "docs/internals").glob("*.md")} - {"README"}
    assert pages == packages, f"docs/internals and src/millpond differ: {pages ^ packages}"
    index = (ROOT / "docs/internals/README.md").read_text()
    for name in sorted(packages):
        page = (ROOT / f"docs/internals/{name}.md").read_text()
        assert "## Duties of" in page, f"docs/internals/{name}.md names no duties"
        assert "## Never" in page, f"docs/internals/{name}.md does not say what it never does"
        assert f"({name}.md)" in index, f"docs/internals/README.md does not list {name}"


def test_links_between_pages_lead_somewhere() -> None:
    link = re.compile(r"\]\(([\w./-]+\.(?:md|svg|py))(?:#[\w-]*)?\)")
    gone = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), ROOT / "CONTRIBUTING.md"]
        for target in link.findall(page.read_text())
        if not (page.parent / target).exists()
    ]
    assert not gone, "links to files that are not there:\n" + "\n".join(gone)
