"""An image as facts: a snapshot folds into what it was made of, a delta leads from any image to any other."""

from dataclasses import replace
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from millpond.metadata.client_records import ClientQuotaRecord, UserScramCredentialRecord
from millpond.metadata.image import Image, PartitionImage, TopicImage, apply
from millpond.metadata.image_records import image_delta, image_records
from millpond.metadata.records import (
    LOST_DIRECTORY,
    NO_DIRECTORY,
    RESOURCE_TOPIC,
    UNASSIGNED_DIRECTORY,
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FeatureLevels,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    decode_record,
    encode_record,
)

NODES = st.lists(st.integers(1, 4), min_size=1, unique=True).map(tuple)
SOME_NODES = st.lists(st.integers(1, 4), unique=True).map(tuple)

DIRECTORIES = st.sampled_from([NO_DIRECTORY, UNASSIGNED_DIRECTORY, LOST_DIRECTORY, UUID(int=500)])


def with_directories(partition: PartitionImage, directories: list[UUID]) -> PartitionImage:
    """As many as there are replicas; none where none is known."""
    chosen = tuple(directories[: len(partition.replicas)])
    unknown = all(one == NO_DIRECTORY for one in chosen)
    return replace(partition, directories=() if unknown else chosen)


bare_partitions = st.builds(
    PartitionImage,
    replicas=NODES,
    isr=NODES,
    leader=st.integers(-1, 4),
    leader_epoch=st.integers(0, 3),
    partition_epoch=st.integers(0, 5),
    removing=SOME_NODES,
    adding=SOME_NODES,
    recovering=st.booleans(),
    eligible_leaders=SOME_NODES,
    last_known_leaders=SOME_NODES,
)
partitions = st.builds(
    with_directories, bare_partitions, st.lists(DIRECTORIES, min_size=4, max_size=4)
)
registrations = st.builds(
    RegisterBrokerRecord,
    broker_id=st.integers(1, 4),
    incarnation_id=st.uuids(),
    broker_epoch=st.integers(0, 9),
    end_points=st.just((BrokerEndpoint(name="P", host="h", port=1),)),
    rack=st.sampled_from([None, "r"]),
    fenced=st.booleans(),
    log_dirs=st.lists(st.uuids(), max_size=2).map(tuple),
    features=st.just((FeatureLevels(name="f", lowest=0, highest=2),)),
    in_controlled_shutdown=st.booleans(),
)
others = st.one_of(
    st.builds(FeatureLevelRecord, name=st.sampled_from("fg"), feature_level=st.integers(0, 2)),
    st.builds(
        ClientQuotaRecord,
        entity=st.sampled_from([(("user", "u"),), (("ip", None),)]),
        key=st.sampled_from("kl"),
        value=st.sampled_from([None, 1.0, 2.0]),
    ),
    st.builds(
        UserScramCredentialRecord,
        name=st.sampled_from("uv"),
        mechanism=st.just(1),
        salt=st.just(b"s"),
        stored_key=st.just(b"k"),
        server_key=st.just(b"v"),
        iterations=st.integers(1, 2),
    ),
    st.builds(RegisterControllerRecord, controller_id=st.integers(1, 2), incarnation_id=st.uuids()),
)


@st.composite
def images(draw: st.DrawFn) -> Image:
    facts: list[MetadataRecord] = list(draw(st.lists(st.one_of(registrations, others), max_size=6)))
    for broker in apply(Image(), facts).brokers.values():
        online = draw(st.none() | st.sets(st.sampled_from(broker.log_dirs or (NO_DIRECTORY,))))
        facts.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker.broker_id,
                broker_epoch=broker.broker_epoch,
                log_dirs=None if online is None else tuple(online),
            )
        )
    # Names may come back under another id.
    for name in draw(st.sets(st.sampled_from("abc"))):
        topic_id = UUID(int=1000 + ord(name) + 10 * draw(st.integers(0, 1)))
        made = TopicImage(
            name=name,
            topic_id=topic_id,
            partitions=tuple(draw(st.lists(partitions, min_size=1, max_size=3))),
        )
        facts += image_records(Image(topics={name: made}, topics_by_id={topic_id: made}))
        facts += [
            ConfigRecord(resource_type=RESOURCE_TOPIC, resource_name=name, name=key, value=value)
            for key, value in draw(
                st.dictionaries(st.sampled_from("xy"), st.sampled_from("12"), max_size=2)
            ).items()
        ]
    return apply(Image(), facts)


@given(images())
def test_a_snapshot_folds_into_the_image_it_was_made_of(image: Image) -> None:
    facts = [decode_record(encode_record(fact)) for fact in image_records(image)]
    assert apply(Image(), facts) == image


@given(images(), images())
def test_a_delta_leads_from_any_image_to_any_other(before: Image, after: Image) -> None:
    assert replace(apply(before, image_delta(before, after)), controllers={}) == replace(
        after, controllers={}
    )


@given(images())
def test_nothing_leads_from_an_image_to_itself(image: Image) -> None:
    assert image_delta(image, image) == []


def test_a_topic_that_lived_on_is_changed_and_not_made_anew() -> None:
    topic_id = UUID(int=1234)
    facts: list[MetadataRecord] = [
        TopicRecord(name="a", topic_id=topic_id),
        PartitionRecord(partition_id=0, topic_id=topic_id, replicas=(1, 2), isr=(1, 2), leader=1),
    ]
    before = apply(Image(), facts)
    after = apply(
        before,
        [
            PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=(2,), leader=2),
            PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=(2, 1)),
            PartitionRecord(partition_id=1, topic_id=topic_id, replicas=(2,), isr=(2,), leader=2),
        ],
    )
    delta = image_delta(before, after)
    assert not any(isinstance(one, RemoveTopicRecord | TopicRecord) for one in delta)
    assert apply(before, delta) == after


def test_a_broker_is_fenced_unfenced_and_forgotten() -> None:
    node = RegisterBrokerRecord(
        broker_id=1, incarnation_id=UUID(int=9), broker_epoch=5, fenced=True
    )
    fenced = apply(Image(), [node])
    assert fenced.serving_brokers == []
    unfenced = apply(
        fenced, [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=False)]
    )
    assert unfenced.is_active(1)
    stopping = apply(
        unfenced,
        [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, in_controlled_shutdown=True)],
    )
    assert not stopping.is_active(1)
    assert [one.broker_id for one in stopping.serving_brokers] == [1]
    assert (
        apply(stopping, [UnregisterBrokerRecord(broker_id=1, broker_epoch=5)]).brokers
        == Image().brokers
    )
