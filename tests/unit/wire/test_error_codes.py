"""Every reason has a code, and no code is a guess."""

import inspect

from millpond.base import errors
from millpond.base.errors import MillpondError
from millpond.wire.kafka.api import ErrorCode
from millpond.wire.kafka.error_codes import CODES, code_of


def test_the_table_is_total() -> None:
    reasons = {
        value
        for value in vars(errors).values()
        if inspect.isclass(value) and issubclass(value, MillpondError)
    }
    # Kinds of refusals about exchanges and queues never meet a request of Kafka's; their root stands for all.
    other_protocols = {one for one in reasons if issubclass(one, errors.BrokerRefusal)} - {
        errors.BrokerRefusal
    }
    assert reasons - other_protocols == set(CODES)


def test_a_reason_is_found_by_its_class() -> None:
    assert code_of(errors.UnknownTopic("t")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of(errors.CorruptLog("t")) is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_reason_of_a_layers_own_has_the_code_of_its_parent() -> None:
    class DiskOnFire(errors.StorageFailure):
        pass

    assert code_of(DiskOnFire("hot")) is ErrorCode.KAFKA_STORAGE_ERROR
