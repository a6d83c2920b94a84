"""The common base of encoder and decoder: how a version decides which fields exist."""

from collections.abc import Iterator

from codegen.source import FIXED, Imports, Lines
from codegen.table import Api, Field, Structure, Versions


class Codec:
    """The common base of the encoder and the decoder of one message."""

    def __init__(self, api: Api, message: Structure, body: Lines, imports: Imports) -> None:
        self.api = api
        self.message = message
        self.body = body
        self.imports = imports
        self.blocks = 0
        self.chosen: dict[str, tuple[str, str]] = {}

    # A message may be flexible always, never, or from some version on.
    @property
    def flexible(self) -> bool | None:
        start = self.api.flexible_from
        if start is None or start > self.api.versions.last:
            return False
        return True if start <= self.api.versions.first else None

    def choose(self, verb: str, stem: str, nullable: bool) -> str:
        """Return the local name of a primitive in its classic or compact form."""
        prefix = "nullable_" if nullable else ""
        classic, compact = f"{verb}_{prefix}{stem}", f"{verb}_{prefix}compact_{stem}"
        if self.flexible is not None:
            return self.imports.use(compact if self.flexible else classic)
        local = f"{prefix}{stem}_"
        self.chosen[local] = (self.imports.use(compact), self.imports.use(classic))
        return local

    def choose_nullable(self, verb: str, stem: str, f: Field) -> str:
        """As ``choose``, for a field that may be nullable in some of its versions only."""
        if f.nullable is None:
            return self.choose(verb, stem, nullable=False)
        null = self.choose(verb, stem, nullable=True)
        condition = self.condition(f.nullable, f.versions)
        if condition is None:
            return null
        return f"({null} if {condition} else {self.choose(verb, stem, nullable=False)})"

    def condition(self, versions: Versions, within: Versions | None = None) -> str | None:
        """Return ``versions`` as a test of ``version``, or None where it always holds."""
        within = within or self.api.versions
        first, last = versions.first > within.first, versions.last < within.last
        if first and last:
            if versions.first == versions.last:
                return f"version == {versions.first}"
            return f"{versions.first} <= version <= {versions.last}"
        if first:
            return f"version >= {versions.first}"
        return f"version <= {versions.last}" if last else None

    def segments(self, fields: list[Field]) -> Iterator[tuple[Versions | None, list[Field]]]:
        """Yield adjacent fields that share one test of the version.

        Fields of the same versions come with these; fields of fixed width whose versions differ come with
        None, because they are best handled together, once per span of versions.
        """
        merged: list[tuple[Versions | None, list[Field]]] = []
        for run in self.runs(fields):
            versions = run[0].versions
            if any(f.versions != versions for f in run):
                merged.append((None, run))
            elif merged and merged[-1][0] == versions:
                merged[-1][1].extend(run)
            else:
                merged.append((versions, list(run)))
        yield from merged

    def spans(self, fields: list[Field], within: Versions) -> Iterator[tuple[str, list[Field]]]:
        """Yield, for fields of fixed width, each span of versions, newest first, and its fields."""
        starts = {within.first}
        for f in fields:
            starts |= {f.versions.first, f.versions.last + 1}
        newest_first = sorted((v for v in starts if v in within), reverse=True)
        for index, start in enumerate(newest_first):
            test = f"{'elif' if index else 'if'} version >= {start}:"
            head = "else:" if start == within.first else test
            yield head, [f for f in fields if start in f.versions]

    @staticmethod
    def runs(fields: list[Field]) -> Iterator[list[Field]]:
        """Yield adjacent fields of fixed width together, all others alone."""
        run: list[Field] = []
        for f in fields:
            if not f.is_array and f.type in FIXED:
                run.append(f)
                continue
            if run:
                yield run
                run = []
            yield [f]
        if run:
            yield run

    def preamble(self) -> list[str]:
        lines = []
        if self.flexible is None:
            lines.append(f"flexible = version >= {self.api.flexible_from}")
            lines += [
                f"{local} = {compact} if flexible else {classic}"
                for local, (compact, classic) in sorted(self.chosen.items())
            ]
        return lines

    def function(self, head: str, content: Lines, handler: list[str]) -> None:
        """Write the function: the content was made first, so that its preamble is known."""
        self.body.add()
        self.body.add()
        with self.body.block(head):
            with self.body.block("try:"):
                for line in self.preamble():
                    self.body.add(line)
                for line in content.text().splitlines():
                    self.body.add(line)
            for line in handler:
                self.body.add(line)


def overlap(versions: Versions, within: Versions) -> bool:
    return versions.first <= within.last and within.first <= versions.last
