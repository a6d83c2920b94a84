"""Writes the decoder of one message.

Structures are read in place into locals, whose names carry a number for each structure, and created when all
their fields are read. Positions are checked by the primitives; a count is given the smallest size of its
elements.
"""

from codegen.codec import Codec, overlap
from codegen.source import FIXED, Lines, annotation_of, default_of
from codegen.table import Field, Structure, Versions, snake_case

READER = {"string": "string", "bytes": "bytes", "records": "view"}


class Decoder(Codec):
    def write(self) -> None:
        name = self.message.name
        out = Lines()
        out.add("p = 0")
        value = self.structure(self.message, self.api.versions, out)
        out.add(f"return {value}")
        self.function(
            f"def decode_{snake_case(name)}(data: memoryview, version: int) -> {name}:",
            out,
            [
                f"except {self.imports.use('DECODE_ERRORS')} as error:",
                f'    raise {self.imports.use("malformed")}("{name}", version, error) from None',
            ],
        )

    def structure(self, structure: Structure, within: Versions, out: Lines) -> str:
        """Read one structure's fields into locals. Return the expression that creates it."""
        suffix = "" if structure is self.message else f"_{self.blocks}"
        self.blocks += 1
        local = {f.name: _local(f.name + suffix) for f in structure.fields}
        # A structure may be used in fewer versions than it defines.
        fields = [f for f in structure.fields if overlap(f.versions, within)]
        for f in structure.fields:
            if f not in fields:
                self.assigndefault_of(f, local[f.name], out)
        plain = [f for f in fields if f.tag is None]
        tagged = sorted((f for f in fields if f.tag is not None), key=lambda f: f.tag or 0)
        for versions, group in self.segments(plain):
            if versions is None:
                self.mixed(group, within, local, out)
                continue
            condition = self.condition(versions, within)
            if condition is None:
                self.group(group, local, out)
                continue
            for f in group:
                if f.nullable is not None or f.is_array or f.is_structure or f.type == "records":
                    out.add(f"{local[f.name]}: {annotation_of(f)}")
            with out.block(f"if {condition}:"):
                self.group(group, local, out, declared=True)
            with out.block("else:"):
                for f in group:
                    out.add(f"{local[f.name]} = {default_of(f, self.imports)}")
        for f in tagged:
            self.assigndefault_of(f, local[f.name], out)
        self.tags(tagged, local, within, suffix, out)
        arguments = ", ".join(local[f.name] for f in structure.fields)
        return f"{structure.name}({arguments})"

    def mixed(
        self, fields: list[Field], within: Versions, local: dict[str, str], out: Lines
    ) -> None:
        for head, present in self.spans(fields, within):
            with out.block(head):
                if present:
                    self.fixed(present, local, out)
                for f in fields:
                    if f not in present:
                        out.add(f"{local[f.name]} = {default_of(f, self.imports)}")

    def assigndefault_of(self, f: Field, local: str, out: Lines) -> None:
        out.add(f"{local}: {annotation_of(f)} = {default_of(f, self.imports)}")

    def group(
        self, group: list[Field], local: dict[str, str], out: Lines, declared: bool = False
    ) -> None:
        for run in self.runs(group):
            if not run[0].is_array and run[0].type in FIXED:
                self.fixed(run, local, out)
            else:
                self.variable(run[0], local[run[0].name], out, declared)

    def fixed(self, run: list[Field], local: dict[str, str], out: Lines) -> None:
        names = [local[f.name] for f in run]
        if [f.type for f in run] == ["bool"]:
            out.add(f"{names[0]} = data[p] != 0")
            out.add("p += 1")
            return
        struct = self.imports.struct([FIXED[f.type][0] for f in run])
        targets = ", ".join(names) if len(names) > 1 else f"({names[0]},)"
        out.add(f"{targets} = _unpack_{struct}(data, p)")
        out.add(f"p += {sum(FIXED[f.type][1] for f in run)}")
        for f in run:
            if f.type == "uuid":
                out.add(f"{local[f.name]} = {self.imports.use('uuid_of')}({local[f.name]})")

    def variable(self, f: Field, local: str, out: Lines, declared: bool) -> None:
        annotation = "" if declared else f": {annotation_of(f)}"
        if f.is_array:
            self.array(f, local, annotation, out)
        elif f.is_structure:
            self.nested(f, local, annotation, out)
        else:
            reader = self.choose_nullable("read", READER[f.type], f)
            out.add(f"{local}, p = {reader}(data, p)")

    def nested(self, f: Field, local: str, annotation: str, out: Lines) -> None:
        structure = self.api.structures[f.type]
        if f.nullable is None:
            out.add(f"{local} = {self.structure(structure, f.versions, out)}")
            return
        assert f.nullable == f.versions, f"{f.name}: partly nullable structures do not occur"
        if annotation:
            out.add(f"{local}{annotation}")
        out.add(f"present, p = {self.imports.use('read_presence')}(data, p)")
        with out.block("if present:"):
            out.add(f"{local} = {self.structure(structure, f.versions, out)}")
        with out.block("else:"):
            out.add(f"{local} = None")

    def array(self, f: Field, local: str, annotation: str, out: Lines) -> None:
        reader = self.choose_nullable("read", "count", f)
        out.add(f"count, p = {reader}(data, p, {self.element_bytes_min(f)})")
        if f.nullable is None:
            self.elements(f, local, annotation, out)
            return
        if annotation:
            out.add(f"{local}{annotation}")
        with out.block("if count < 0:"):
            out.add(f"{local} = None")
        with out.block("else:"):
            self.elements(f, local, "", out)

    def elements(self, f: Field, local: str, annotation: str, out: Lines) -> None:
        if f.type == "uuid":
            out.add(f"{local}, p = {self.imports.use('read_uuids')}(data, p, count)")
            return
        if f.type in FIXED:
            code = FIXED[f.type][0]
            out.add(f'{local}, p = {self.imports.use("read_numbers")}(data, p, count, "{code}")')
            return
        out.add(f"{local}{annotation} = []")
        with out.block("for _ in range(count):"):
            if f.is_structure:
                value = self.structure(self.api.structures[f.type], f.versions, out)
                out.add(f"{local}.append({value})")
            else:
                out.add(f"item, p = {self.choose('read', READER[f.type], nullable=False)}(data, p)")
                out.add(f"{local}.append(item)")

    def tags(
        self,
        tagged: list[Field],
        local: dict[str, str],
        within: Versions,
        suffix: str,
        out: Lines,
    ) -> None:
        if self.flexible is False:
            return
        always = self.flexible or within.first >= (self.api.flexible_from or 0)
        with out.block(None if always else "if flexible:"):
            if not tagged:
                skip = self.imports.use("skip_tags")
                out.add(f"p = p + 1 if data[p] == 0 else {skip}(data, p)")
                return
            with out.block("if data[p] == 0:"):
                out.add("p += 1")
            with out.block("else:"):
                self.known_tags(tagged, local, within, suffix, out)

    def known_tags(
        self,
        tagged: list[Field],
        local: dict[str, str],
        within: Versions,
        suffix: str,
        out: Lines,
    ) -> None:
        out.add(f"tag_count{suffix}, p = {self.imports.use('read_uvarint')}(data, p)")
        with out.block(f"for _ in range(tag_count{suffix}):"):
            tag, stop = f"tag{suffix}", f"stop{suffix}"
            out.add(f"{tag}, p, {stop} = {self.imports.use('read_tag')}(data, p)")
            for index, f in enumerate(tagged):
                condition = self.condition(f.versions, within)
                test = f"{tag} == {f.tag}" + (f" and {condition}" if condition else "")
                with out.block(f"{'elif' if index else 'if'} {test}:"):
                    self.group([f], local, out, declared=True)
                    with out.block(f"if p != {stop}:"):
                        error = self.imports.use("wrong_tag_size")
                        out.add(f"raise {error}({tag}, p, {stop})")
            out.add(f"p = {stop}")

    def element_bytes_min(self, f: Field) -> int:
        """Return the fewest bytes that one element can take in any version."""
        sizes = [
            self.bytes_min(f, version, element=True)
            for version in range(f.versions.first, f.versions.last + 1)
        ]
        assert min(sizes) > 0, f"{f.name}: an element may be empty"
        return min(sizes)

    def bytes_min(self, f: Field, version: int, element: bool = False) -> int:
        flexible = self.api.is_flexible(version)
        if f.is_array and not element:
            return 1 if flexible else 4
        if f.type in FIXED:
            return FIXED[f.type][1]
        if not f.is_structure:
            return 1 if flexible else 2 if f.type == "string" else 4
        if f.nullable is not None and not element:
            return 1
        return flexible + sum(
            self.bytes_min(inner, version)
            for inner in self.api.structures[f.type].fields_in(version)
            if inner.tag is None
        )


def _local(name: str) -> str:
    """Return a local name that does not clash with the decoder's own."""
    return name + "_" if name in {"data", "version", "p", "count", "item", "present"} else name
