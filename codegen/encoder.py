"""Writes the encoder of one message: a list of parts, joined once at the end."""

from collections.abc import Iterator
from contextlib import contextmanager

from codegen.codec import Codec, overlap
from codegen.source import FIXED, Lines, default_of
from codegen.table import Field, Structure, Versions, snake_case


class Encoder(Codec):
    def write(self) -> None:
        name = self.message.name
        out = Lines()
        out.add(f"parts: list[{self.imports.use('BytesLike')}] = []")
        out.add("add = parts.append")
        self.structure(self.message, self.api.versions, "m", "add", out)
        out.add('return b"".join(parts)')
        self.function(
            f"def encode_{snake_case(name)}(m: {name}, version: int) -> bytes:",
            out,
            [
                f"except {self.imports.use('ENCODE_ERRORS')} as error:",
                f'    raise {self.imports.use("unencodable")}("{name}", version, error) from error',
            ],
        )

    def structure(
        self, structure: Structure, within: Versions, m: str, add: str, out: Lines
    ) -> None:
        fields = [f for f in structure.fields if overlap(f.versions, within)]
        plain = [f for f in fields if f.tag is None]
        tagged = sorted((f for f in fields if f.tag is not None), key=lambda f: f.tag or 0)
        for versions, group in self.segments(plain):
            if versions is None:
                for head, present in self.spans(group, within):
                    if present or head != "else:":
                        with out.block(head):
                            if present:
                                self.fixed(present, m, add, out)
                            else:
                                out.add("pass")
                continue
            condition = self.condition(versions, within)
            with out.block(f"if {condition}:" if condition else None):
                for run in self.runs(group):
                    if not run[0].is_array and run[0].type in FIXED:
                        self.fixed(run, m, add, out)
                    else:
                        self.variable(run[0], m, add, out)
        self.tags(tagged, within, m, add, out)

    def fixed(self, run: list[Field], m: str, add: str, out: Lines) -> None:
        struct = self.imports.struct([FIXED[f.type][0] for f in run])
        values = ", ".join(
            f"{m}.{f.name}.bytes" if f.type == "uuid" else f"{m}.{f.name}" for f in run
        )
        out.add(f"{add}(_pack_{struct}({values}))")

    def variable(self, f: Field, m: str, add: str, out: Lines) -> None:
        if f.is_array:
            self.array(f, m, add, out)
        elif f.is_structure:
            self.nested(f, m, add, out)
        elif f.type == "string":
            self.string(f, m, add, out)
        else:
            self.sized(f, m, add, out)

    def string(self, f: Field, m: str, add: str, out: Lines) -> None:
        # A value that is not null looks the same either way.
        pack = self.choose("pack", "string", nullable=f.nullable is not None)
        if f.nullable is not None:
            condition = self.condition(f.nullable, f.versions)
            if condition is not None:
                with out.block(f"if {m}.{f.name} is None and not {condition}:"):
                    out.add(f'raise TypeError("{f.name} may not be null")')
        out.add(f"{add}({pack}({m}.{f.name}))")

    def sized(self, f: Field, m: str, add: str, out: Lines) -> None:
        value = f"value_{self.next()}"
        out.add(f"{value} = {m}.{f.name}")
        with self.unless_null(f, value, add, self.choose("pack", "count", nullable=False), out):
            out.add(f"{add}({self.choose('pack', 'size', nullable=False)}({value}))")
            out.add(f"{add}({value})")

    def nested(self, f: Field, m: str, add: str, out: Lines) -> None:
        inner = f"m_{self.next()}"
        out.add(f"{inner} = {m}.{f.name}")
        structure = self.api.structures[f.type]
        if f.nullable is None:
            self.structure(structure, f.versions, inner, add, out)
            return
        with out.block(f"if {inner} is None:"):
            out.add(f'{add}(b"\\xff")')
        with out.block("else:"):
            out.add(f'{add}(b"\\x01")')
            self.structure(structure, f.versions, inner, add, out)

    def array(self, f: Field, m: str, add: str, out: Lines) -> None:
        values = f"values_{self.next()}"
        out.add(f"{values} = {m}.{f.name}")
        count = self.choose("pack", "count", nullable=False)
        with self.unless_null(f, values, add, count, out):
            out.add(f"{add}({count}(len({values})))")
            if f.type == "uuid":
                out.add(f'{add}(b"".join([value.bytes for value in {values}]))')
            elif f.type in FIXED:
                pack = self.imports.use("pack_numbers")
                out.add(f'{add}({pack}({values}, "{FIXED[f.type][0]}"))')
            elif f.is_structure:
                inner = f"m_{self.next()}"
                with out.block(f"for {inner} in {values}:"):
                    self.structure(self.api.structures[f.type], f.versions, inner, add, out)
            else:
                assert f.type == "string"
                pack = self.choose("pack", "string", nullable=False)
                with out.block(f"for text in {values}:"):
                    out.add(f"{add}({pack}(text))")

    @contextmanager
    def unless_null(self, f: Field, value: str, add: str, count: str, out: Lines) -> Iterator[None]:
        """Put the content under an else when the field may be null."""
        if f.nullable is None:
            yield
            return
        with out.block(f"if {value} is None:"):
            condition = self.condition(f.nullable, f.versions)
            if condition is not None:
                with out.block(f"if not {condition}:"):
                    out.add(f'raise TypeError("{f.name} may not be null")')
            out.add(f"{add}({count}(-1))")
        with out.block("else:"):
            yield

    def tags(self, tagged: list[Field], within: Versions, m: str, add: str, out: Lines) -> None:
        if self.flexible is False:
            return
        always = self.flexible or within.first >= (self.api.flexible_from or 0)
        with out.block(None if always else "if flexible:"):
            if not tagged:
                out.add(f'{add}(b"\\x00")')
                return
            number = self.next()
            tags = f"tags_{number}"
            out.add(f"{tags}: list[tuple[int, bytes]] = []")
            for f in tagged:
                condition = self.condition(f.versions, within)
                test = self.differs_fromdefault_of(f, m)
                with out.block(f"if {condition} and {test}:" if condition else f"if {test}:"):
                    self.tag(f, m, tags, out)
            out.add(f"{add}({self.imports.use('pack_tags')}({tags}))")

    def tag(self, f: Field, m: str, tags: str, out: Lines) -> None:
        number = self.next()
        parts, add = f"parts_{number}", f"add_{number}"
        out.add(f"{parts}: list[BytesLike] = []")
        out.add(f"{add} = {parts}.append")
        if not f.is_array and f.type in FIXED:
            self.fixed([f], m, add, out)
        else:
            self.variable(f, m, add, out)
        out.add(f'{tags}.append(({f.tag}, b"".join({parts})))')

    def differs_fromdefault_of(self, f: Field, m: str) -> str:
        value = f"{m}.{f.name}"
        default = default_of(f, self.imports)
        match default:
            case "None":
                return f"{value} is not None"
            case "[]" | "False":
                return value if f.nullable is None else f"{value} != []"
            case "True":
                return f"not {value}"
            case _:
                return f"{value} != {default}"

    def next(self) -> int:
        self.blocks += 1
        return self.blocks
