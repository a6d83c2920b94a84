"""Every value that a setting accepts has one text form, and reading that gives the value back."""

from hypothesis import given
from hypothesis import strategies as st

from millpond.base.errors import InvalidConfig
from millpond.metadata.amqp_configs import SizeDef
from millpond.metadata.configs import BROKER_CONFIGS, TOPIC_CONFIGS, ConfigDef, ConfigType, Value

DEFINITIONS = st.sampled_from([*TOPIC_CONFIGS.values(), *BROKER_CONFIGS.values()])
RANGES = {ConfigType.INT: 2**31, ConfigType.SHORT: 2**15, ConfigType.LONG: 2**63}


def values_of(definition: ConfigDef) -> st.SearchStrategy[Value]:
    if definition.type is ConfigType.BOOLEAN:
        return st.booleans()
    if definition.type in RANGES:
        span = RANGES[definition.type]
        low = -span if definition.minimum is None else int(definition.minimum)
        high = span - 1 if definition.maximum is None else int(definition.maximum)
        return st.integers(low, high)
    if definition.type is ConfigType.DOUBLE:
        return st.floats(
            definition.minimum, definition.maximum, allow_nan=False, allow_infinity=False
        )
    if isinstance(definition, SizeDef):
        return st.builds("{}{}".format, st.integers(0, 2**40), st.sampled_from(["", "MiB", "GB"]))
    words = st.sampled_from(definition.choices) if definition.choices else _words()
    if definition.type is ConfigType.LIST:
        return st.lists(words, unique=True).map(tuple)
    return words


def _words() -> st.SearchStrategy[str]:
    return st.text(st.characters(categories=["L", "N", "P"], exclude_characters=","), min_size=1)


@given(st.data(), DEFINITIONS)
def test_text_form_round_trip(data: st.DataObject, definition: ConfigDef) -> None:
    value = data.draw(values_of(definition))

    text = definition.render(value)

    assert text is not None
    assert definition.parse(text) == value
    assert definition.from_native(value) == value


@given(DEFINITIONS, st.text())
def test_any_text_is_a_valid_value_or_refused_by_name(definition: ConfigDef, text: str) -> None:
    refusal = definition.name
    try:
        definition.check(definition.parse(text))
    except InvalidConfig as refused:
        refusal = str(refused)
    assert definition.name in refusal
