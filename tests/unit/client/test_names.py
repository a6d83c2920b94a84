"""What the package offers is there, and nothing is forgotten."""

import millpond.client


def test_every_name_leads_somewhere() -> None:
    for name in millpond.client.__all__:
        assert getattr(millpond.client, name) is not None
    assert set(millpond.client.__all__) == set(millpond.client._PLACES)
