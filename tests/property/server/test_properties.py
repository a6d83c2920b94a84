"""Whatever is written as a property is read back the same."""

from hypothesis import given
from hypothesis import strategies as st

from millpond.base.errors import InvalidConfig
from millpond.server.properties import Property, read_properties, write_property

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
AWKWARD = st.text(st.sampled_from(" \t\f\r\n=:#!\\u0aé"))
WORDS = TEXT | AWKWARD
KEYS = WORDS.filter(bool)


@given(st.lists(st.tuples(KEYS, WORDS)))
def test_round_trip(entries: list[tuple[str, str]]) -> None:
    text = "\n".join(write_property(key, value) for key, value in entries)

    assert [(entry.key, entry.value) for entry in read_properties(text)] == entries


@given(KEYS, WORDS)
def test_the_written_form_is_one_line(key: str, value: str) -> None:
    line = write_property(key, value)

    assert "\n" not in line
    assert read_properties(f"# before\n{line}\n# after") == [Property(key, value, 2)]


@given(WORDS)
def test_any_text_is_read_or_refused_never_worse(text: str) -> None:
    refusal = "line"
    try:
        read_properties(text)
    except InvalidConfig as refused:
        refusal = str(refused)
    assert "line" in refusal
