"""Words that may not come back: private metaphors and riddles in names, docstrings and comments.

The code names the client, consumer, producer, follower, leader, node or controller, with the words of Kafka
and RabbitMQ (docs/GLOSSARY.md). A package joins ``CLEAN`` when its last such word is gone.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ROOT / "src/millpond/wire/kafka/messages"  # by codegen, which is looked at

# Trees in which none of the words below may stand. It only grows.
CLEAN = (
    "bench",
    "codegen",
    "examples",
    "src/millpond/auth",
    "src/millpond/base",
    "src/millpond/cli",
    "src/millpond/client",
    "src/millpond/cursor",
    "src/millpond/engine/cluster",
    "src/millpond/engine/coordinators",
    "src/millpond/engine/forwarding",
    "src/millpond/engine/limits",
    "src/millpond/engine/node",
    "src/millpond/engine/partitions",
    "src/millpond/engine/queues",
    "src/millpond/engine/quorum",
    "src/millpond/engine/replication",
    "src/millpond/engine/runtime",
    "src/millpond/engine/share",
    "src/millpond/frontend/amqp",
    "src/millpond/frontend/kafka",
    "src/millpond/frontend/rabbitmq_http",
    "src/millpond/group",
    "src/millpond/log",
    "src/millpond/message",
    "src/millpond/metadata",
    "src/millpond/peer",
    "src/millpond/queue",
    "src/millpond/rabbit",
    "src/millpond/raft",
    "src/millpond/record",
    "src/millpond/replication",
    "src/millpond/routing",
    "src/millpond/server",
    "src/millpond/spark",
    "src/millpond/testing",
    "src/millpond/txn",
    "src/millpond/wire",
    "src/pyspark_millpond",
)

# What a word may not be, and what to write instead. Names are looked at word by word, in lower case:
# ``FarQueue`` and ``far_queue`` are both "far queue".
BANNED = {
    r"\bfurnitures?\b": "declarations, or the exchanges, queues and bindings",
    r"\b(?:some|no|any|every)body\b": "the client, consumer, follower or node that is meant",
    r"\bwho(?:m|so)?ever\b": "the client, consumer, follower or node that is meant",
    r"\b(?:some|no)one\b": "the client, consumer, follower or node that is meant",
    r"\bwish(?:es|ed)?\b": "request",
    r"\bdesks?\b": "handlers, context",
    r"\bpatience\b": "time-out",
    r"\btall(?:y|ies)\b": "stats, counts",
    r"\bguests?\b": "remote client, remote node",
    r"\b(?:un)?seat(?:s|ed)?\b": "attachment, attached",
    r"\bfar (?:queue|client|consumer|node|question|host)s?\b": "remote",
    r"(?<!dead[ -])\bletters?\b": "dead letter; type tag; character",
    r"\bbur(?:y|ies|ied)\b": "dead-letter",
    r"\bgoodbye\b": "leave, close",
    r"\bwhether (?:it|that) was (?:not|so)\b": "say what is returned: 'Return whether it was stale.'",
    r"\bin (?:its|his|her) own words\b": "say what differs",
    r"\bthe world\b": "a peer, a client, a file",
}

ANY_BANNED = re.compile("|".join(BANNED))
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def words_of(name: str) -> str:
    """Return an identifier as words: ``_FarQueue`` and ``far_queue`` become "far queue"."""
    return CAMEL.sub(" ", name).replace("_", " ").strip().lower()


def texts_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of each docstring and comment, and of each identifier where it is first used."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield from enumerate(text.lower().splitlines(), node.lineno)
            case _:
                pass
    names: dict[str, int] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lower()
        elif token.type == tokenize.NAME:
            names.setdefault(token.string, token.start[0])
    for name, line in names.items():
        yield line, words_of(name)


def banned_in(source: str) -> list[tuple[int, str, str]]:
    """Return (line, text, advice) of every banned word in docstrings, comments and identifiers."""
    return [
        (line, text.strip()[:80], advice)
        for line, text in texts_of(source)
        if ANY_BANNED.search(text)
        for pattern, advice in BANNED.items()
        if re.search(pattern, text)
    ]


@pytest.mark.parametrize("tree", CLEAN)
def test_plain_words(tree: str) -> None:
    paths = [path for path in sorted((ROOT / tree).rglob("*.py")) if GENERATED not in path.parents]
    assert paths, f"{tree} is not there; correct CLEAN"
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text!r}; write {advice}"
        for path in paths
        for line, text, advice in banned_in(path.read_text())
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "planted",
    [
        '"""Somebody of whom nothing is known."""',
        "# whoever asks first",
        "class FarQueue: ...",
        "def grant(wish): ...",
        "letter_count = 1",
        "class LetterDesk: ...",
        "patience_s = 5",
        "class Module:\n    tally = 0",
        '"""Bring the file up to date; whether it was not."""',
    ],
)
def test_a_planted_word_is_found(planted: str) -> None:
    assert banned_in(planted)


@pytest.mark.parametrize(
    "plain",
    [
        '"""Move a message to the dead-letter queue; a dead letter keeps its headers."""',
        "class DeadLetter: ...",
        "dead_letters = ()",
        "# a far larger batch than the topic allows",
        'user = "guest"',
    ],
)
def test_plain_text_passes(plain: str) -> None:
    assert not banned_in(plain)
