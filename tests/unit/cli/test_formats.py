"""Keys, values and times as text."""

import pytest

from millpond.cli.formats import BadText, parse, parse_time_ms, show, show_json, show_time
from millpond.cli.output import human_bytes


@pytest.mark.parametrize("form", ["string", "hex", "base64"])
@pytest.mark.parametrize("data", [b"", b"text", b"\x00\xff"])
def test_what_is_shown_can_be_read_again(form: str, data: bytes) -> None:
    assert parse(show(data, form), form) == data


def test_json_is_kept_as_it_was_written() -> None:
    assert parse(b'{"a":  1}', "json") == b'{"a":  1}'
    assert show(b'{"a":  1}', "json") == b'{"a": 1}'
    assert show(b"no json \xff", "json") == '"no json �"'.encode()


def test_null_is_no_text() -> None:
    assert show(None, "string") == b"null"
    assert show_json(None, "hex") is None
    assert show_json(b"\x01", "hex") == "01"


def test_times() -> None:
    assert parse_time_ms("1700000000123") == 1_700_000_000_123
    assert parse_time_ms("2023-11-14T22:13:20.123Z") == 1_700_000_000_123
    assert parse_time_ms("2023-11-15T00:13:20+02:00") == 1_700_000_000_000
    assert show_time(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    assert show_time(-1) == "-"
    assert show_time(2**62) == str(2**62)
    with pytest.raises(BadText, match="'noon' is no time"):
        parse_time_ms("noon")


def test_sizes_for_people() -> None:
    assert [human_bytes(n) for n in (0, 999, 1000, 1_234_567, 5 * 10**9, 7 * 10**12)] == [
        "0 B", "999 B", "1.0 kB", "1.2 MB", "5.0 GB", "7.0 TB",
    ]  # fmt: skip
