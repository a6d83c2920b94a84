"""Every message in every version says the same after a journey through bytes."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.property.wire.instances import APIS, MESSAGES, codec_of, instances


@pytest.mark.parametrize(("name", "kind"), MESSAGES, ids=[f"{n}-{k}" for n, k in MESSAGES])
@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_is_written_is_read(name: str, kind: str, data: st.DataObject) -> None:
    api = APIS[name]
    encode, decode = codec_of(api, kind)
    for version in range(api.versions.first, api.versions.last + 1):
        message = data.draw(instances(name, kind, version), label=f"v{version}")
        written = encode(message, version)
        read = decode(memoryview(written), version)
        assert read == message
        assert encode(read, version) == written
