"""ListOffsets: where a partition begins, where it ends, and what offset belongs to a time."""

import asyncio
from functools import partial

from millpond.base.errors import MillpondError, OffsetNotAvailable
from millpond.engine.api import Engine
from millpond.frontend.kafka.handler import Context, Handler, Payload, Result
from millpond.frontend.kafka.slices import in_slices, is_large
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.list_offsets import (
    FoundOffset,
    WantedOffset,
    decode_list_offsets,
    encode_list_offsets_response,
)

# Times below zero name a place: latest, earliest, the largest timestamp, the earliest and the latest offset
# on either side of tiered storage, the first one not yet uploaded. Each came with a version.
_PLACES = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11}
_NEVER = 1 << 16

# Older clients are told that there is no leader, which makes them ask again too.
_OFFSET_NOT_AVAILABLE_FROM = 5


def handle(context: Context, request: Request) -> Result:
    if is_large(request):
        return _in_slices(context, request)
    wanted = decode_list_offsets(request.body, request.api_version)
    version = request.api_version
    committed = wanted.isolation_level == 1
    answer = [
        (topic, [_find(context.engine, version, topic, one, committed) for one in partitions])
        for topic, partitions in wanted.topics
    ]
    return (encode_list_offsets_response(answer, 0, version),)


async def _in_slices(context: Context, request: Request) -> Payload:
    version = request.api_version
    wanted = await asyncio.to_thread(decode_list_offsets, request.body, version)
    committed = wanted.isolation_level == 1
    answer = []
    for topic, partitions in wanted.topics:
        find = partial(_find, context.engine, version, topic, committed=committed)
        answer.append((topic, await in_slices(find, partitions)))
    return (await asyncio.to_thread(encode_list_offsets_response, answer, 0, version),)


def refuse(request: Request, code: ErrorCode) -> Payload:
    wanted = decode_list_offsets(request.body, request.api_version)
    answer = [
        (topic, [_failed(index, code) for index, _epoch, _time in partitions])
        for topic, partitions in wanted.topics
    ]
    return (encode_list_offsets_response(answer, 0, request.api_version),)


def _find(
    engine: Engine, version: int, topic: str, wanted: WantedOffset, committed: bool
) -> FoundOffset:
    index, epoch, time = wanted
    if time < 0 and version < _PLACES.get(time, _NEVER):
        return _failed(index, ErrorCode.UNSUPPORTED_VERSION)
    try:
        found = engine.partitions.find_offset(
            engine.partitions.partition(topic, index), time, committed=committed, leader_epoch=epoch
        )
    except OffsetNotAvailable:
        known = version >= _OFFSET_NOT_AVAILABLE_FROM
        return _failed(
            index, ErrorCode.OFFSET_NOT_AVAILABLE if known else ErrorCode.LEADER_NOT_AVAILABLE
        )
    except MillpondError as error:
        return _failed(index, code_of(error))
    return index, 0, found.timestamp_ms, found.offset, found.leader_epoch


def _failed(index: int, code: ErrorCode) -> FoundOffset:
    return index, code, -1, -1, -1


HANDLER = Handler(
    api_key=ApiKey.LIST_OFFSETS, min_version=1, max_version=11, handle=handle, refuse=refuse
)
