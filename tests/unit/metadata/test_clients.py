"""Quotas, credentials, features and placement: decided from an image, folded back into one."""

import hashlib
import hmac

import pytest

from millpond.base.errors import (
    CredentialNotFound,
    InvalidRequest,
    InvalidUpdateVersion,
)
from millpond.metadata.client_records import ClientQuotaRecord, UserScramCredentialRecord
from millpond.metadata.credentials import (
    RemoveCredential,
    SetCredential,
    decide_alter_credentials,
)
from millpond.metadata.features import (
    SUPPORTED,
    Direction,
    FeatureChange,
    decide_update_features,
    first_levels,
)
from millpond.metadata.image import Image, apply
from millpond.metadata.image_records import image_records
from millpond.metadata.quotas import (
    AlterQuotas,
    QuotaFilter,
    decide_alter_quotas,
    find_quotas,
)
from millpond.metadata.records import (
    MetadataRecord,
    decode_record,
    encode_record,
)

USER = [("user", "u")]


def test_a_quota_is_set_changed_and_removed() -> None:
    image = Image()
    for value, expected in (
        (10.0, {"producer_byte_rate": 10.0}),
        (20.0, {"producer_byte_rate": 20.0}),
    ):
        command = AlterQuotas(entity=USER, values=[("producer_byte_rate", value)])
        decision = decide_alter_quotas(image, [command])
        assert [one.error for one in decision.results] == [None]
        image = apply(image, decision.records)
        assert image.client_quotas == {(("user", "u"),): expected}
    gone = AlterQuotas(entity=USER, values=[("producer_byte_rate", None)])
    image = apply(image, decide_alter_quotas(image, [gone]).records)
    assert image.client_quotas == {}
    assert decide_alter_quotas(image, [gone]).records == ()


def test_what_is_not_changed_is_not_written() -> None:
    command = AlterQuotas(entity=USER, values=[("producer_byte_rate", 10.0)])
    image = apply(Image(), decide_alter_quotas(Image(), [command]).records)
    assert decide_alter_quotas(image, [command]).records == ()


def test_the_order_of_an_entitys_parts_does_not_matter() -> None:
    one = AlterQuotas(
        entity=[("user", "u"), ("client-id", None)], values=[("request_percentage", 1.0)]
    )
    other = AlterQuotas(
        entity=[("client-id", None), ("user", "u")], values=[("request_percentage", 2.0)]
    )
    image = apply(Image(), decide_alter_quotas(Image(), [one]).records)
    image = apply(image, decide_alter_quotas(image, [other]).records)
    assert list(image.client_quotas.values()) == [{"request_percentage": 2.0}]


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), 0.5, float("inf")])
def test_a_byte_rate_is_a_whole_number_above_zero(value: float) -> None:
    command = AlterQuotas(entity=USER, values=[("consumer_byte_rate", value)])
    (result,) = decide_alter_quotas(Image(), [command]).results
    assert isinstance(result.error, InvalidRequest)


def test_an_address_must_be_one() -> None:
    command = AlterQuotas(entity=[("ip", "10.0.0.1")], values=[("connection_creation_rate", 5.0)])
    (refused,) = decide_alter_quotas(Image(), [command]).results
    assert isinstance(refused.error, InvalidRequest)
    decision = decide_alter_quotas(Image(), [command], known_addresses=["10.0.0.1"])
    assert decision.results[0].error is None


def test_quotas_are_found_by_type_name_and_strictness() -> None:
    image = apply(
        Image(),
        [
            ClientQuotaRecord(entity=(("user", "u"),), key="request_percentage", value=1.0),
            ClientQuotaRecord(entity=(("user", None),), key="request_percentage", value=2.0),
            ClientQuotaRecord(
                entity=(("client-id", "c"), ("user", "u")), key="request_percentage", value=3.0
            ),
        ],
    )

    def found(*filters: QuotaFilter, strict: bool = False) -> list[float]:
        return sorted(
            quotas["request_percentage"]
            for _entity, quotas in find_quotas(image, filters, strict=strict)
        )

    assert found() == [1.0, 2.0, 3.0]
    assert found(QuotaFilter(entity_type="user", name="u")) == [1.0, 3.0]
    assert found(QuotaFilter(entity_type="user", name="u"), strict=True) == [1.0]
    assert found(QuotaFilter(entity_type="user", name=None)) == [2.0]
    assert found(QuotaFilter(entity_type="user", any_name=True), strict=True) == [1.0, 2.0]
    assert found(QuotaFilter(entity_type="client-id", any_name=True)) == [3.0]


def test_only_keys_derived_from_the_password_are_kept() -> None:
    password = b"salted" * 4
    command = SetCredential(
        user="u", mechanism=1, iterations=4096, salt=b"salt", salted_password=password
    )
    decision = decide_alter_credentials(Image(), [command])
    image = apply(Image(), decision.records)
    (kept,) = image.scram_credentials.values()
    client_key = hmac.digest(password, b"Client Key", "sha256")
    assert kept.stored_key == hashlib.sha256(client_key).digest()
    assert kept.server_key == hmac.digest(password, b"Server Key", "sha256")
    assert password not in encode_record(kept)
    assert "salt=" not in repr(kept)


def test_a_user_named_twice_is_refused_and_nothing_is_written() -> None:
    command = SetCredential(user="u", mechanism=1, iterations=4096, salt=b"s", salted_password=b"p")
    decision = decide_alter_credentials(Image(), [command, command])
    assert decision.records == ()
    assert [type(error).__name__ for _user, error in decision.results] == ["DuplicateResource"]


def test_a_credential_that_is_not_there_cannot_be_removed() -> None:
    decision = decide_alter_credentials(Image(), [RemoveCredential(user="u", mechanism=1)])
    assert isinstance(decision.results[0][1], CredentialNotFound)


def test_the_facts_survive_their_encoding_and_a_snapshot() -> None:
    facts: list[MetadataRecord] = [
        ClientQuotaRecord(
            entity=(("client-id", None), ("user", "ü")), key="producer_byte_rate", value=12.5
        ),
        UserScramCredentialRecord(
            name="u", mechanism=2, salt=b"s", stored_key=b"k", server_key=b"v", iterations=8192
        ),
    ]
    assert [decode_record(encode_record(one)) for one in facts] == facts
    image = apply(Image(), facts)
    assert apply(Image(), image_records(image)) == image


def test_a_new_cluster_has_every_feature_at_its_first_level() -> None:
    image = apply(Image(), first_levels(Image(), fresh=True))
    assert image.features == {name: one.initial for name, one in SUPPORTED.items() if one.initial}


@pytest.mark.parametrize(
    ("name", "level", "direction"),
    [
        ("share.version", 9, Direction.UPGRADE),
        ("share.version", 0, Direction.UPGRADE),
        ("share.version", -1, Direction.SAFE_DOWNGRADE),
        ("no.such", 1, Direction.UPGRADE),
        ("metadata.version", 29, Direction.SAFE_DOWNGRADE),
        ("share.version", 1, None),
    ],
)
def test_a_feature_goes_only_where_it_can(
    name: str, level: int, direction: Direction | None
) -> None:
    image = apply(Image(), first_levels(Image(), fresh=True))
    change = FeatureChange(name=name, level=level, direction=direction)
    with pytest.raises(InvalidUpdateVersion):
        decide_update_features(image, [change], node_id=1)


def test_a_feature_goes_down_and_up_again() -> None:
    image = apply(Image(), first_levels(Image(), fresh=True))
    down = FeatureChange(name="transaction.version", level=1, direction=Direction.SAFE_DOWNGRADE)
    image = apply(image, decide_update_features(image, [down], node_id=1))
    assert image.features["transaction.version"] == 1
    up = FeatureChange(name="transaction.version", level=2, direction=Direction.UPGRADE)
    image = apply(image, decide_update_features(image, [up], node_id=1))
    assert image.features["transaction.version"] == 2
