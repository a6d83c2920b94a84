"""Metadata: the brokers, and the topics a client asks for; topics that do not exist may be made by
asking.
"""

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from uuid import UUID

from millpond.base.errors import MillpondError
from millpond.engine.api import INTERNAL_TOPICS, Engine, Image, PartitionImage, TopicImage
from millpond.frontend.kafka.convert import (
    CLUSTER_OPERATIONS,
    NOT_ASKED,
    TOPIC_OPERATIONS,
    serving_nodes,
)
from millpond.frontend.kafka.handler import Context, Handler, Payload, Result
from millpond.frontend.kafka.slices import SLICE, in_slices, is_large
from millpond.metadata.controller import check_topic_name
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.metadata import (
    MetadataPartition,
    MetadataRequest,
    WantedTopic,
    decode_metadata,
    encode_metadata_response,
    encode_metadata_topic,
)
from millpond.wire.kafka.primitives import NO_ID
from millpond.wire.kafka.produce import NodeEndpoint

# Versions 10 and 11 have the field for a topic's id, but no broker answers by it (KIP-516).
_BY_ID_VERSION_MIN = 12

NO_LEADER = -1


def handle(context: Context, request: Request) -> Result:
    if is_large(request):
        return _in_slices(context, request)
    wanted = decode_metadata(request.body, request.api_version)
    if request.api_version < _BY_ID_VERSION_MIN and _asks_by_id(wanted):
        return refuse(request, ErrorCode.INVALID_REQUEST)
    missing = _to_create(context.engine, wanted)
    if missing:
        return _create_and_answer(context, request, wanted, missing)
    return _answer(context, request, wanted, {})


async def _in_slices(context: Context, request: Request) -> Payload:
    version = request.api_version
    wanted = await asyncio.to_thread(decode_metadata, request.body, version)
    if version < _BY_ID_VERSION_MIN and _asks_by_id(wanted):
        return refuse(request, ErrorCode.INVALID_REQUEST)
    engine = context.engine
    errors = await _create(engine, await asyncio.to_thread(_to_create, engine, wanted))
    operations = TOPIC_OPERATIONS if wanted.include_topic_authorized_operations else NOT_ASKED
    topic = partial(_wanted_topic, engine, version, operations=operations, errors=errors)
    topics = await in_slices(topic, dict.fromkeys(wanted.topics or ()))
    return await asyncio.to_thread(_encoded, context, request, wanted, topics, len(topics))


def refuse(request: Request, code: ErrorCode) -> Payload:
    wanted = decode_metadata(request.body, request.api_version)
    topics = [
        _topic_error(request.api_version, name, topic_id, code)
        for name, topic_id in wanted.topics or ()
    ]
    return (
        encode_metadata_response(
            request.api_version,
            brokers=(),
            cluster_id=None,
            controller_id=-1,
            topics=topics,
            topic_count=len(topics),
            error_code=code,
        ),
    )


def _asks_by_id(wanted: MetadataRequest) -> bool:
    return any(topic_id is not None for _name, topic_id in wanted.topics or ())


def _to_create(engine: Engine, wanted: MetadataRequest) -> list[str]:
    if (
        wanted.topics is None
        or not wanted.allow_auto_topic_creation
        or not engine.settings.get("auto.create.topics.enable")
    ):
        return []
    known = engine.metadata.image.topics
    return [
        name for name, topic_id in wanted.topics if topic_id is None and name and name not in known
    ]


async def _create_and_answer(
    context: Context, request: Request, wanted: MetadataRequest, missing: Iterable[str]
) -> Payload:
    return _answer(context, request, wanted, await _create(context.engine, missing))


async def _create(engine: Engine, missing: Iterable[str]) -> dict[str, ErrorCode]:
    """Make the topics; why some could not be."""
    errors: dict[str, ErrorCode] = {}
    for number, name in enumerate(dict.fromkeys(missing), start=1):
        try:
            await engine.topic_admin.ensure_topic(name)
        except MillpondError as error:
            errors[name] = code_of(error)
        if number % SLICE == 0:
            # A name that cannot be is refused without any wait.
            await asyncio.sleep(0)
    return errors


def _answer(
    context: Context, request: Request, wanted: MetadataRequest, errors: dict[str, ErrorCode]
) -> Payload:
    version = request.api_version
    image = context.engine.metadata.image
    operations = TOPIC_OPERATIONS if wanted.include_topic_authorized_operations else NOT_ASKED
    if wanted.topics is None:
        up = context.engine.membership.serving_nodes()
        everything = context.frontend.all_topics.encoded(
            image, up, version, operations, lambda one: _topic(version, image, one, operations, up)
        )
        return _encoded(context, request, wanted, [everything], len(image.topics))
    encoded = [
        _wanted_topic(context.engine, version, one, operations, errors)
        for one in dict.fromkeys(wanted.topics)
    ]
    return _encoded(context, request, wanted, encoded, len(encoded))


def _encoded(
    context: Context, request: Request, wanted: MetadataRequest, encoded: list[bytes], count: int
) -> Payload:
    version = request.api_version
    node = context.engine.info
    nodes = serving_nodes(context)
    return (
        encode_metadata_response(
            version,
            brokers=nodes,
            cluster_id=node.cluster_id,
            controller_id=_controller_id(context, nodes),
            topics=encoded,
            topic_count=count,
            cluster_authorized_operations=CLUSTER_OPERATIONS
            if wanted.include_cluster_authorized_operations
            else NOT_ASKED,
        ),
    )


def _controller_id(context: Context, nodes: Sequence[NodeEndpoint]) -> int:
    """The active controller if clients can reach it; any node brings a request to it."""
    controller = context.engine.metadata.controller_id
    if controller is not None and any(node[0] == controller for node in nodes):
        return controller
    return context.engine.info.node_id


def _wanted_topic(
    engine: Engine,
    version: int,
    wanted: WantedTopic,
    operations: int,
    errors: dict[str, ErrorCode],
) -> bytes:
    name, topic_id = wanted
    image = engine.metadata.image
    if topic_id is not None:
        topic = image.topics_by_id.get(topic_id)
        if topic is None:
            return _topic_error(version, None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        return _topic(version, image, topic, operations, engine.membership.serving_nodes())
    assert name is not None
    topic = image.topics.get(name)
    if topic is not None:
        return _topic(version, image, topic, operations, engine.membership.serving_nodes())
    code = errors.get(name)
    if code is None:
        try:
            check_topic_name(name)
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        except MillpondError as error:
            code = code_of(error)
    return _topic_error(version, name, None, code)


def _topic(
    version: int, image: Image, topic: TopicImage, operations: int, up: frozenset[int]
) -> bytes:
    return encode_metadata_topic(
        version,
        error_code=0,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            _partition(index, image, one, up) for index, one in enumerate(topic.partitions)
        ],
        authorized_operations=operations,
    )


def _partition(
    index: int, image: Image, one: PartitionImage, up: frozenset[int]
) -> MetadataPartition:
    offline = image.offline_replicas(one, up)
    if one.leader in up:
        return 0, index, one.leader, one.leader_epoch, one.replicas, one.isr, offline
    code = ErrorCode.LEADER_NOT_AVAILABLE
    return code, index, NO_LEADER, one.leader_epoch, one.replicas, one.isr, offline


def _topic_error(version: int, name: str | None, topic_id: UUID | None, code: ErrorCode) -> bytes:
    return encode_metadata_topic(
        version,
        error_code=code,
        name=name,
        topic_id=topic_id or NO_ID,
        is_internal=name in INTERNAL_TOPICS,
        partitions=(),
    )


HANDLER = Handler(
    api_key=ApiKey.METADATA, min_version=0, max_version=13, handle=handle, refuse=refuse
)
