"""Quotas, credentials, features and metrics through their APIs; they are there again after a restart."""

from typing import Any

from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages import (
    alter_client_quotas,
    alter_user_scram_credentials,
    describe_client_quotas,
    describe_user_scram_credentials,
    incremental_alter_configs,
    list_config_resources,
    unregister_broker,
    update_features,
)
from millpond.wire.kafka.messages.api_versions import ApiVersionsRequest
from tests.support.cluster.memory_broker import MemoryBroker, memory_broker
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.time.virtual_loop import run


async def _set_quota(broker: MemoryBroker, value: float, **entity: str | None) -> int:
    parts = [
        alter_client_quotas.EntityData(kind.replace("_", "-"), name)
        for kind, name in entity.items()
    ]
    ops = [alter_client_quotas.OpData("producer_byte_rate", value)]
    request = alter_client_quotas.AlterClientQuotasRequest(
        [alter_client_quotas.EntryData(parts, ops)]
    )
    answer = await broker.client().ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, request)
    return int(answer.entries[0].error_code)


async def _quotas(broker: MemoryBroker) -> dict[str, float]:
    request = describe_client_quotas.DescribeClientQuotasRequest()
    answer = await broker.client().ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, request)
    return {str(one.entity[0].entity_name): one.values[0].value for one in answer.entries}


async def _users(broker: MemoryBroker) -> list[str]:
    request = describe_user_scram_credentials.DescribeUserScramCredentialsRequest(None)
    answer = await broker.client().ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, request)
    return [one.user for one in answer.results]


async def _finalized(broker: MemoryBroker) -> dict[str, int]:
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    answer = await broker.client().ask(ApiKey.API_VERSIONS, 4, request)
    return {one.name: one.max_version_level for one in answer.finalized_features}


def test_quotas_credentials_and_features_survive_a_restart() -> None:
    storage = FaultyStorage()

    async def first() -> None:
        async with memory_broker(storage) as broker:
            assert await _set_quota(broker, 1000.0, user="u") == 0
            upsertion = alter_user_scram_credentials.ScramCredentialUpsertion(
                "alice", 1, 4096, b"salt", b"p" * 32
            )
            request = alter_user_scram_credentials.AlterUserScramCredentialsRequest([], [upsertion])
            answer = await broker.client().ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request)
            assert answer.results[0].error_code == 0
            update = update_features.FeatureUpdateKey("transaction.version", 1, True, 2)
            features = update_features.UpdateFeaturesRequest(9000, [update])
            assert (await broker.client().ask(ApiKey.UPDATE_FEATURES, 2, features)).error_code == 0

    async def second() -> None:
        async with memory_broker(storage) as broker:
            assert await _quotas(broker) == {"u": 1000.0}
            assert await _users(broker) == ["alice"]
            assert (await _finalized(broker))["transaction.version"] == 1

    run(first())
    run(second())


async def test_a_feature_that_is_only_tried_stays() -> None:
    async with memory_broker() as broker:
        update = update_features.FeatureUpdateKey("transaction.version", 1, True, 2)
        request = update_features.UpdateFeaturesRequest(9000, [update], True)
        assert (await broker.client().ask(ApiKey.UPDATE_FEATURES, 2, request)).error_code == 0
        assert (await _finalized(broker))["transaction.version"] == 2


def test_clients_are_invited_to_push_once_somebody_subscribes() -> None:
    async def story() -> None:
        async with memory_broker() as broker:
            assert not await _invited(broker)
            config = incremental_alter_configs.AlterableConfig("metrics", 0, "*")
            resource = incremental_alter_configs.AlterConfigsResource(16, "all", [config])
            request = incremental_alter_configs.IncrementalAlterConfigsRequest([resource])
            answer = await broker.client().ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
            assert answer.responses[0].error_code == 0
            assert await _invited(broker)
            listing = list_config_resources.ListConfigResourcesRequest([16])
            listed = await broker.client().ask(ApiKey.LIST_CONFIG_RESOURCES, 1, listing)
            assert [one.resource_name for one in listed.config_resources] == ["all"]

    async def _invited(broker: MemoryBroker) -> bool:
        request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
        answer: Any = await broker.client().ask(ApiKey.API_VERSIONS, 4, request)
        return ApiKey.PUSH_TELEMETRY in {one.api_key for one in answer.api_keys}

    run(story())


async def test_the_only_broker_cannot_be_taken_away() -> None:
    async with memory_broker() as broker:
        request = unregister_broker.UnregisterBrokerRequest(1)
        answer = await broker.client().ask(ApiKey.UNREGISTER_BROKER, 0, request)
        assert answer.error_code == ErrorCode.POLICY_VIOLATION
