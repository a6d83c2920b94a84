"""Facts as bytes: Kafka's own encoding, byte for byte."""

from uuid import UUID

import pytest

from millpond.base.errors import CorruptLog
from millpond.metadata.client_records import (
    ClientQuotaRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from millpond.metadata.records import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FeatureLevels,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    decode_record,
    encode_record,
)

ID = UUID("00112233-4455-6677-8899-aabbccddeeff")
ID_HEX = ID.hex

# Written by hand from Kafka's schemas (common/metadata/*.json): frame version 1, record type and
# version as varints, compact strings and arrays (length + 1), tagged fields at the end.
GOLDEN: list[tuple[MetadataRecord, str]] = [
    (
        ClientQuotaRecord(entity=(("user", None),), key="rate", value=1.5),
        "01 0e 00  02 05 75736572 00 00  05 72617465 3ff8000000000000 00 00",
    ),
    (
        ClientQuotaRecord(entity=(("user", "a"),), key="rate", value=None),
        "01 0e 00  02 05 75736572 02 61 00  05 72617465 0000000000000000 01 00",
    ),
    (
        UserScramCredentialRecord(
            name="a", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
        ),
        "01 0b 00  02 61 01 02 73 02 6b 02 76 00001000 00",
    ),
    (RemoveUserScramCredentialRecord(name="a", mechanism=2), "01 16 00  02 61 02 00"),
    (TopicRecord(name="foo", topic_id=ID), f"01 02 00  04 666f6f {ID_HEX} 00"),
    (
        PartitionRecord(
            partition_id=2,
            topic_id=ID,
            replicas=(1, 2),
            isr=(1,),
            leader=1,
            leader_epoch=3,
            partition_epoch=4,
            directories=(ID,),
        ),
        (
            f"01 03 01  00000002 {ID_HEX}"
            " 03 00000001 00000002"  # replicas
            " 02 00000001"  # isr
            " 01 01"  # removing and adding replicas: empty
            " 00000001 00000003 00000004"  # leader, leader epoch, partition epoch
            f" 02 {ID_HEX} 00"
        ),
    ),
    (
        ConfigRecord(resource_type=2, resource_name="foo", name="a.b", value="7"),
        "01 04 00  02 04 666f6f 04 612e62 02 37 00",
    ),
    (
        ConfigRecord(resource_type=4, resource_name="", name="a.b", value=None),
        "01 04 00  04 01 04 612e62 00 00",
    ),
    (
        PartitionChangeRecord(partition_id=1, topic_id=ID, isr=(5,), leader=5),
        f"01 05 01  00000001 {ID_HEX} 02  00 05 02 00000005  01 04 00000005",
    ),
    (
        PartitionChangeRecord(
            partition_id=1,
            topic_id=ID,
            leader=-1,
            replicas=(1, 2),
            removing=(1,),
            adding=(),
            recovering=True,
            directories=(ID,),
            eligible_leaders=(2,),
            last_known_leaders=(),
        ),
        (
            f"01 05 02  00000001 {ID_HEX} 08"
            " 01 04 ffffffff"  # no leader
            " 02 09 03 00000001 00000002  03 05 02 00000001  04 01 01"  # replicas, removing, adding
            " 05 01 01"  # recovering
            " 06 05 02 00000002  07 01 01"  # eligible leaders, last known
            f" 08 11 02 {ID_HEX}"
        ),
    ),
    (
        PartitionRecord(
            partition_id=0,
            topic_id=ID,
            replicas=(1,),
            isr=(1,),
            leader=1,
            removing=(1,),
            adding=(2,),
            recovering=True,
            eligible_leaders=(3,),
        ),
        (
            f"01 03 02  00000000 {ID_HEX} 02 00000001 02 00000001 02 00000001 02 00000002"
            " 00000001 00000000 00000000 01"
            " 02 00 01 01  01 05 02 00000003"
        ),
    ),
    (UnregisterBrokerRecord(broker_id=3, broker_epoch=7), "01 01 00  00000003 0000000000000007 00"),
    (
        BrokerRegistrationChangeRecord(
            broker_id=3, broker_epoch=7, fenced=False, in_controlled_shutdown=True, log_dirs=(ID,)
        ),
        f"01 11 02  00000003 0000000000000007 03 00 01 ff 01 01 01 02 11 02 {ID_HEX}",
    ),
    (
        BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=7, fenced=True),
        "01 11 02  00000003 0000000000000007 01 00 01 01",
    ),
    (NoOpRecord(), "01 14 00 00"),
    (
        RegisterControllerRecord(
            controller_id=1,
            incarnation_id=ID,
            end_points=(BrokerEndpoint(name="P", host="h", port=9092),),
            features=(FeatureLevels(name="f", lowest=0, highest=1),),
        ),
        f"01 1b 00  00000001 {ID_HEX} 00  02 02 50 02 68 2384 0000 00  02 02 66 0000 0001 00 00",
    ),
    (
        RegisterBrokerRecord(
            broker_id=1,
            incarnation_id=ID,
            broker_epoch=2,
            rack="r",
            fenced=True,
            in_controlled_shutdown=True,
            features=(FeatureLevels(name="f", lowest=0, highest=1),),
        ),
        f"01 00 03  00000001 00 {ID_HEX} 0000000000000002 01 02 02 66 0000 0001 00 02 72 01 01 00",
    ),
    (RemoveTopicRecord(topic_id=ID), f"01 09 00  {ID_HEX} 00"),
    (
        FeatureLevelRecord(name="metadata.version", feature_level=25),
        "01 0c 00  11 6d657461646174612e76657273696f6e 0019 00",
    ),
    (
        ProducerIdsRecord(broker_id=1, broker_epoch=9, next_producer_id=1000),
        "01 0f 00  00000001 0000000000000009 00000000000003e8 00",
    ),
    (
        RegisterBrokerRecord(
            broker_id=1,
            incarnation_id=ID,
            broker_epoch=2,
            end_points=(BrokerEndpoint(name="P", host="h", port=9092),),
            rack=None,
            log_dirs=(ID,),
        ),
        (
            f"01 00 03  00000001 00 {ID_HEX} 0000000000000002"
            " 02 02 50 02 68 2384 0000 00"  # one endpoint
            " 01"  # no features
            " 00 00 00"  # no rack, not fenced, not shutting down
            f" 01 00 11 02 {ID_HEX}"  # the log directories, tagged
        ),
    ),
]


@pytest.mark.parametrize(("record", "golden"), GOLDEN, ids=lambda one: type(one).__name__)
def test_a_fact_is_written_as_kafka_writes_it_and_read_back(
    record: MetadataRecord, golden: str
) -> None:
    assert encode_record(record).hex() == golden.replace(" ", "")
    assert decode_record(encode_record(record)) == record


def test_older_versions_of_kafka_are_read() -> None:
    partition_v0 = (
        f"01 03 00  00000002 {ID_HEX} 02 00000001 02 00000001 01 01 00000001 00000003 00000004 00"
    )
    assert decode_record(bytes.fromhex(partition_v0)) == PartitionRecord(
        partition_id=2,
        topic_id=ID,
        replicas=(1,),
        isr=(1,),
        leader=1,
        leader_epoch=3,
        partition_epoch=4,
    )


@pytest.mark.parametrize(("kind", "fenced"), [("07", True), ("08", False)])
def test_fencing_is_read_in_its_older_form(kind: str, fenced: bool) -> None:
    old = bytes.fromhex(f"01 {kind} 00  00000003 0000000000000007 00")
    expected = BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=7, fenced=fenced)
    assert decode_record(old) == expected


def test_unknown_tagged_fields_are_skipped() -> None:
    tagged = bytes.fromhex(f"01 02 00  04 666f6f {ID_HEX} 01 2a 03 010203")
    assert decode_record(tagged) == TopicRecord(name="foo", topic_id=ID)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x02\x02\x00",  # a frame of the future
        b"\x01\x63\x00",  # an unknown type
        b"\x01\x02\x00\x04fo",  # cut off
        b"\x01\x02\x00\x00",  # a null name
        b"\x01\x02\x00\x03\xff\xfe" + bytes(17),  # no text
    ],
)
def test_what_cannot_be_read_is_a_corrupt_log(data: bytes) -> None:
    with pytest.raises(CorruptLog):
        decode_record(data)


@pytest.mark.parametrize(("record", "golden"), GOLDEN, ids=lambda one: type(one).__name__)
def test_a_cut_record_never_passes_for_another(record: MetadataRecord, golden: str) -> None:
    data = encode_record(record)
    for size in range(len(data) - 1):
        try:
            # Only the empty tagged section at the end may be missed without harm.
            assert decode_record(data[:size]) == record
        except CorruptLog:
            continue
