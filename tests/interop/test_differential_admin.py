"""Administration: the same requests to Millpond and to Apache Kafka get the same answers.

Chapters as in ``test_differential``. Where Kafka answers from a map, both sides are sorted.
"""

import uuid
from typing import Any

from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages import (
    add_raft_voter,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    create_acls,
    create_delegation_token,
    create_topics,
    delete_acls,
    describe_acls,
    describe_client_quotas,
    describe_configs,
    describe_delegation_token,
    describe_user_scram_credentials,
    elect_leaders,
    expire_delegation_token,
    get_telemetry_subscriptions,
    incremental_alter_configs,
    list_config_resources,
    list_partition_reassignments,
    push_telemetry,
    remove_raft_voter,
    renew_delegation_token,
    sasl_authenticate,
    sasl_handshake,
    streams_group_describe,
    unregister_broker,
    update_features,
)
from millpond.wire.kafka.messages.api_versions import ApiVersionsRequest
from millpond.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from tests.interop.peers import Peer
from tests.interop.test_differential import Tell, Teller, offered, tell

__all__ = ["tell"]

# Kafka offers these and Millpond does not (yet), each with its reason.
MISSING = {
    # Between brokers: a share coordinator's own storage of a share group's state.
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
}

TOPIC, CLIENT_METRICS, BROKER_LOGGER, BROKER, GROUP = 2, 16, 8, 4, 32


def test_every_api_of_kafka_is_offered(broker: Peer, kafka: Peer) -> None:
    missing = {ApiKey(key) for key in offered(kafka)} - {ApiKey(key) for key in offered(broker)}
    assert missing <= MISSING, f"Kafka has these and Millpond has not: {missing - MISSING}"


def test_features(broker: Peer, kafka: Peer, tell: Tell) -> None:
    def chapter(teller: Teller) -> None:
        for version in (3, 4):
            answer = teller.link.ask(
                ApiKey.API_VERSIONS, version, ApiVersionsRequest("test", "1.0")
            )
            for one in answer.supported_features:
                teller.answers[f"v{version} {one.name}"] = (one.min_version, one.max_version)
            for final in answer.finalized_features:
                teller.answers[f"v{version} final {final.name}"] = final.max_version_level
            for name in ("kraft.version", "millpond.version"):
                teller.answers.pop(f"v{version} {name}", None)
                teller.answers.pop(f"v{version} final {name}", None)
            teller.answers = dict(sorted(teller.answers.items()))
        update = update_features.FeatureUpdateKey
        cases = {
            "as it is": [update("share.version", 1)],
            "too high": [update("share.version", 9)],
            "no such": [update("no.such", 1)],
            "down by upgrade": [update("metadata.version", 29)],
            "metadata down": [update("metadata.version", 29, True, 2)],
            "metadata far down": [update("metadata.version", 5, True, 2)],
            "down": [update("transaction.version", 1, True, 2)],
            "negative": [update("share.version", -1)],
            "no such direction": [update("share.version", 1, True, 9)],
            "twice": [update("share.version", 1), update("share.version", 1)],
            "one bad": [update("share.version", 0, True, 2), update("no.such", 1)],
            "none": [],
        }
        for version in (1, 2):
            for what, updates in cases.items():
                request = update_features.UpdateFeaturesRequest(9000, updates, True)
                teller.ask(what, ApiKey.UPDATE_FEATURES, version, request)

    tell(chapter)


def test_what_needs_security(tell: Tell) -> None:
    def chapter(teller: Teller) -> None:
        for version in (1, 2, 3):
            acl = create_acls.AclCreation(2, "x", 3, "User:a", "*", 3, 3)
            wrong = create_acls.AclCreation(0, "x", 3, "User:a", "*", 3, 3)
            for what, creations in {"two": [acl, acl], "none": [], "wrong": [wrong]}.items():
                created = create_acls.CreateAclsRequest(creations)
                teller.ask(what, ApiKey.CREATE_ACLS, version, created)
            described = describe_acls.DescribeAclsRequest(2, None, 1, None, None, 1, 1)
            teller.ask("any", ApiKey.DESCRIBE_ACLS, version, described)
            described = describe_acls.DescribeAclsRequest(2, None, 0, None, None, 1, 1)
            teller.ask("wrong", ApiKey.DESCRIBE_ACLS, version, described)
            one = delete_acls.DeleteAclsFilter(2, None, 1, None, None, 1, 1)
            deleted = delete_acls.DeleteAclsRequest([one, one])
            teller.ask("two", ApiKey.DELETE_ACLS, version, deleted)
            token = create_delegation_token.CreateDelegationTokenRequest(None, None, [], -1)
            teller.ask("a token", ApiKey.CREATE_DELEGATION_TOKEN, version, token)
            tokens = describe_delegation_token.DescribeDelegationTokenRequest(None)
            teller.ask("all tokens", ApiKey.DESCRIBE_DELEGATION_TOKEN, version, tokens)
        for version in (1, 2):
            renewed = renew_delegation_token.RenewDelegationTokenRequest(b"x", 1)
            teller.ask("a token", ApiKey.RENEW_DELEGATION_TOKEN, version, renewed)
            expired = expire_delegation_token.ExpireDelegationTokenRequest(b"x", 1)
            teller.ask("a token", ApiKey.EXPIRE_DELEGATION_TOKEN, version, expired)
        for version in (0, 1):
            hello = sasl_handshake.SaslHandshakeRequest("PLAIN")
            teller.ask("PLAIN", ApiKey.SASL_HANDSHAKE, version, hello)
        for version in (0, 1, 2):
            proof = sasl_authenticate.SaslAuthenticateRequest(b"x")
            teller.ask("a proof", ApiKey.SASL_AUTHENTICATE, version, proof)

    tell(chapter)


def test_replicas_and_leaders(tell: Tell, topic: str) -> None:
    def chapter(teller: Teller) -> None:
        teller.create(topic, partitions=2)
        place = alter_partition_reassignments.ReassignablePartition
        named = alter_partition_reassignments.ReassignableTopic
        node = teller.node_id
        cases = {
            "where it is": [named(topic, [place(0, [node])])],
            "cancelled": [named(topic, [place(0, None)])],
            "unknown": [named(topic, [place(9, [node])]), named(f"{topic}-no", [place(0, [node])])],
            "to nobody": [named(topic, [place(0, [77]), place(1, [])])],
            "twice there": [named(topic, [place(0, [node, node])])],
        }
        for version in (0, 1):
            for what, topics in cases.items():
                request = alter_partition_reassignments.AlterPartitionReassignmentsRequest(
                    9000, True, topics
                )
                teller.ask(what, ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, request)
        asked = list_partition_reassignments.ListPartitionReassignmentsTopics
        for what, wanted in {"all": None, "some": [asked(topic, [0, 9])], "none": []}.items():
            listing = list_partition_reassignments.ListPartitionReassignmentsRequest(9000, wanted)
            teller.ask(what, ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, listing)
        some = elect_leaders.TopicPartitions
        for version in (0, 1, 2):
            for kind in (0, 1, 7):
                election = elect_leaders.ElectLeadersRequest(
                    kind, [some(topic, [0, 9]), some(f"{topic}-no", [0])], 9000
                )
                teller.ask(f"kind {kind}", ApiKey.ELECT_LEADERS, version, election)
        directory = alter_replica_log_dirs.AlterReplicaLogDir
        part = alter_replica_log_dirs.AlterReplicaLogDirTopic
        for version in (1, 2):
            for path in (str(teller.data.resolve()), "/no/such/directory", "relative"):
                asked_dirs = [directory(path, [part(topic, [0, 9]), part(f"{topic}-no", [0])])]
                moved = alter_replica_log_dirs.AlterReplicaLogDirsRequest(asked_dirs)
                answer = teller.link.ask(ApiKey.ALTER_REPLICA_LOG_DIRS, version, moved)
                label = "the directory" if path.startswith(str(teller.data.resolve())) else path
                teller.answers[f"{label} v{version}"] = sorted(
                    (one.topic_name, two.partition_index, two.error_code)
                    for one in answer.results
                    for two in one.partitions
                )

    tell(chapter)


def test_nodes_and_voters(tell: Tell) -> None:
    def chapter(teller: Teller) -> None:
        for node in (77, -1):
            gone = unregister_broker.UnregisterBrokerRequest(node)
            teller.ask(f"node {node}", ApiKey.UNREGISTER_BROKER, 0, gone)
        listener = add_raft_voter.Listener("CONTROLLER", "127.0.0.1", 9)
        for version in (0, 1):
            for what, cluster, listeners in (
                ("a voter", None, [listener]),
                ("another cluster", "wrong", [listener]),
                ("nowhere", None, []),
            ):
                added = add_raft_voter.AddRaftVoterRequest(
                    cluster, 1000, 77, uuid.UUID(int=777), listeners
                )
                teller.ask(what, ApiKey.ADD_RAFT_VOTER, version, added)
        for what, cluster in (("a voter", None), ("another cluster", "wrong")):
            removed = remove_raft_voter.RemoveRaftVoterRequest(cluster, 77, uuid.UUID(int=777))
            teller.ask(what, ApiKey.REMOVE_RAFT_VOTER, 0, removed)

    tell(chapter)


def test_quotas(tell: Tell) -> None:
    def chapter(teller: Teller) -> None:
        def alter(
            what: str,
            entity: list[tuple[str, str | None]],
            *values: tuple[str, float],
            remove: bool = False,
            only: bool = False,
        ) -> None:
            for version in (0, 1):
                parts = [alter_client_quotas.EntityData(*one) for one in entity]
                ops = [alter_client_quotas.OpData(key, value, remove) for key, value in values]
                request = alter_client_quotas.AlterClientQuotasRequest(
                    [alter_client_quotas.EntryData(parts, ops)], only
                )
                answer = teller.link.ask(ApiKey.ALTER_CLIENT_QUOTAS, version, request)
                teller.answers[f"{what} v{version}"] = [
                    (one.error_code, _entity(one.entity)) for one in answer.entries
                ]

        def find(what: str, *parts: tuple[str, int, str | None], strict: bool = False) -> None:
            for version in (0, 1):
                components = [describe_client_quotas.ComponentData(*one) for one in parts]
                request = describe_client_quotas.DescribeClientQuotasRequest(components, strict)
                answer = teller.link.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, version, request)
                teller.answers[f"{what} strict={strict} v{version}"] = (
                    answer.error_code,
                    sorted(
                        (_entity(one.entity), sorted((two.key, two.value) for two in one.values))
                        for one in answer.entries or []
                    ),
                )

        user: list[tuple[str, str | None]] = [("user", "q-user")]
        address: list[tuple[str, str | None]] = [("ip", "127.9.9.9")]
        alter("set", user, ("producer_byte_rate", 1000.0), ("request_percentage", 12.5))
        alter("a fraction", user, ("producer_byte_rate", 1000.5))
        alter("unknown key", user, ("x", 1.0))
        alter("negative", user, ("consumer_byte_rate", -1.0))
        alter("infinite", user, ("consumer_byte_rate", float("inf")))
        alter("huge", user, ("consumer_byte_rate", 1e19))
        alter("twice", user, ("consumer_byte_rate", 1.0), ("consumer_byte_rate", 2.0))
        alter("a small rate", user, ("controller_mutation_rate", 0.5))
        alter("nothing", user)
        alter("no entity", [], ("consumer_byte_rate", 1.0))
        alter("unknown type", [("group", "g")], ("consumer_byte_rate", 1.0))
        alter("no name", [("user", "")], ("consumer_byte_rate", 1.0))
        alter("all", [("user", None), ("client-id", None)], ("consumer_byte_rate", 1e9))
        alter("both", [("client-id", "q-c"), ("user", "q-user")], ("consumer_byte_rate", 7.0))
        alter("address", address, ("connection_creation_rate", 5000.0))
        alter("address, wrong key", address, ("consumer_byte_rate", 5.0))
        alter("address, a fraction", address, ("connection_creation_rate", 5.5))
        alter("address, huge", address, ("connection_creation_rate", 5e9))
        alter("no address", [("ip", "no such host!")], ("connection_creation_rate", 5.0))
        alter("address and user", [*address, *user], ("connection_creation_rate", 5.0))
        alter("user, wrong key", user, ("connection_creation_rate", 5.0))
        alter("tried", user, ("producer_byte_rate", 5.0), only=True)
        alter("unknown removed", user, ("x", 0.0), remove=True)
        teller.until("quotas are told", lambda: _has_quotas(teller, address))
        for strict in (False, True):
            find("all", strict=strict)
            find("one", ("user", 0, "q-user"), strict=strict)
            find("any user", ("user", 2, None), strict=strict)
            find("default user", ("user", 1, None), strict=strict)
            find("both", ("user", 2, None), ("client-id", 2, None), strict=strict)
            find("addresses", ("ip", 2, None), strict=strict)
        find("no type", ("", 2, None))
        find("unknown type", ("x", 2, None))
        find("a type twice", ("user", 2, None), ("user", 1, None))
        find("exactly nothing", ("user", 0, None))
        find("default with a name", ("user", 1, "x"))
        find("any with a name", ("user", 2, "x"))
        find("unknown match", ("user", 9, "x"))
        find("address and user", ("user", 2, None), ("ip", 2, None))
        keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
        rest = ("controller_mutation_rate", "connection_creation_rate")
        entities: list[list[tuple[str, str | None]]] = [
            user,
            address,
            [("user", None), ("client-id", None)],
            [("user", "q-user"), ("client-id", "q-c")],
        ]
        for entity in entities:
            alter(f"{entity} removed", entity, *((key, 0.0) for key in keys + rest), remove=True)

    tell(chapter)


def test_scram_credentials(tell: Tell) -> None:
    def chapter(teller: Teller) -> None:
        def alter(what: str, deletions: list[Any], upsertions: list[Any]) -> None:
            request = alter_user_scram_credentials.AlterUserScramCredentialsRequest(
                [alter_user_scram_credentials.ScramCredentialDeletion(*one) for one in deletions],
                [alter_user_scram_credentials.ScramCredentialUpsertion(*one) for one in upsertions],
            )
            answer = teller.link.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request)
            teller.answers[what] = sorted((one.user, one.error_code) for one in answer.results)

        def described(users: list[str] | None) -> Any:
            names = [describe_user_scram_credentials.UserName(one) for one in users or ()]
            request = describe_user_scram_credentials.DescribeUserScramCredentialsRequest(
                None if users is None else names
            )
            answer = teller.link.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, request)
            return answer.error_code, sorted(
                (
                    one.user,
                    one.error_code,
                    [(i.mechanism, i.iterations) for i in one.credential_infos],
                )
                for one in answer.results
            )

        alter("two", [], [("sc-a", 1, 4096, b"s", b"p" * 32), ("sc-b", 2, 8192, b"s", b"p" * 64)])
        alter("too few", [], [("sc-a", 1, 4095, b"s", b"p" * 32)])
        alter("too many", [], [("sc-a", 1, 16385, b"s", b"p" * 32)])
        alter("no such mechanism", [], [("sc-a", 7, 4096, b"s", b"p" * 32)])
        alter("no name", [], [("", 1, 4096, b"s", b"p" * 32)])
        alter("unknown user", [("sc-nobody", 1)], [])
        alter("other mechanism", [("sc-a", 2)], [])
        alter("unknown mechanism", [("sc-a", 9)], [])
        alter("twice", [("sc-a", 1), ("sc-a", 1)], [])
        alter("both", [("sc-a", 1)], [("sc-a", 2, 4096, b"s", b"p")])
        alter("two mechanisms", [], [("sc-c", 1, 4096, b"s", b"p"), ("sc-c", 2, 4096, b"s", b"p")])
        alter("nothing", [], [])
        teller.until("they are told", lambda: described(["sc-b"])[1][0][1] == 0)
        for what, users in {
            "all": None,
            "empty": [],
            "some": ["sc-a", "sc-b", "sc-no"],
            "repeated": ["sc-a", "sc-a"],
        }.items():
            teller.answers[f"described: {what}"] = described(users)
        alter("removed", [("sc-a", 1), ("sc-b", 2)], [])

    tell(chapter)


def test_client_metrics_loggers_and_groups_as_resources(tell: Tell) -> None:
    def chapter(teller: Teller) -> None:
        def alter(what: str, kind: int, name: str, *settings: tuple[str, int, str | None]) -> None:
            configs = [incremental_alter_configs.AlterableConfig(*one) for one in settings]
            resource = incremental_alter_configs.AlterConfigsResource(kind, name, configs)
            request = incremental_alter_configs.IncrementalAlterConfigsRequest([resource])
            teller.ask(what, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)

        def described(kind: int, name: str, keys: list[str] | None = None) -> Any:
            resource = describe_configs.DescribeConfigsResource(kind, name, keys)
            request = describe_configs.DescribeConfigsRequest([resource], include_synonyms=True)
            (result,) = teller.link.ask(ApiKey.DESCRIBE_CONFIGS, 4, request).results
            configs = [teller._plain(one) for one in result.configs]
            return result.error_code, sorted(configs, key=lambda one: str(one["name"]))

        sub = "d-sub"
        alter("set", CLIENT_METRICS, sub, ("metrics", 0, "org.x."), ("match", 0, "client_id=a.*"))
        alter("no name", CLIENT_METRICS, "", ("metrics", 0, "x"))
        alter("unknown", CLIENT_METRICS, sub, ("x", 0, "x"))
        alter("too often", CLIENT_METRICS, sub, ("interval.ms", 0, "5"))
        alter("no number", CLIENT_METRICS, sub, ("interval.ms", 0, "5s"))
        alter("unknown word", CLIENT_METRICS, sub, ("match", 0, "client=abc"))
        alter("no pattern", CLIENT_METRICS, sub, ("match", 0, "client_id=["))
        alter("half a pattern", CLIENT_METRICS, sub, ("match", 0, "client_id"))
        alter("null", CLIENT_METRICS, sub, ("interval.ms", 0, None))
        alter("interval", CLIENT_METRICS, sub, ("interval.ms", 0, "60000"))
        teller.until(
            "it is told",
            lambda: described(CLIENT_METRICS, sub, ["interval.ms"])[1][0]["value"] == "60000",
        )
        for name in (sub, "no-such-sub", ""):
            teller.answers[f"described {name}"] = described(CLIENT_METRICS, name)
        teller.answers["some"] = described(CLIENT_METRICS, sub, ["interval.ms", "zz"])
        for version, kinds in ((0, []), (1, [CLIENT_METRICS]), (1, [77]), (1, [0]), (1, [BROKER])):
            request = list_config_resources.ListConfigResourcesRequest(kinds)
            teller.ask(f"{kinds}", ApiKey.LIST_CONFIG_RESOURCES, version, request)
        gone = [(key, 1, None) for key in ("metrics", "interval.ms", "match")]
        alter("removed", CLIENT_METRICS, sub, *gone)
        node = str(teller.node_id)
        for name in ("77", "", "x"):
            teller.answers[f"loggers of {name}"] = described(BROKER_LOGGER, name)
            alter(f"a logger of {name}", BROKER_LOGGER, name, ("root", 0, "INFO"))
        levels = described(BROKER_LOGGER, node, ["root", "no.such"])
        teller.answers["root"] = [one["name"] for one in levels[1]], levels[0]
        level = levels[1][0]["value"]
        alter("a level", BROKER_LOGGER, node, ("root", 0, "ERROR"))
        teller.answers["an error"] = described(BROKER_LOGGER, node, ["root"])[1][0]["value"]
        alter("the level again", BROKER_LOGGER, node, ("root", 0, level))
        alter("no such logger", BROKER_LOGGER, node, ("no.such", 0, "INFO"))
        alter("no such level", BROKER_LOGGER, node, ("root", 0, "LOUD"))
        alter("no level", BROKER_LOGGER, node, ("root", 0, None))
        alter("appended", BROKER_LOGGER, node, ("root", 2, "INFO"))
        alter("root removed", BROKER_LOGGER, node, ("root", 1, None))
        alter("unknown removed", BROKER_LOGGER, node, ("no.such", 1, None))
        alter("another broker", BROKER, "77", ("message.max.bytes", 0, "2000000"))
        alter("no broker", BROKER, "x", ("message.max.bytes", 0, "2000000"))
        alter("read only", BROKER, node, ("node.id", 0, "2"))
        alter("bad", BROKER, "", ("message.max.bytes", 0, "x"))
        alter("bad group", GROUP, "d-g", ("x", 0, "1"))
        alter("no group", GROUP, "", ("consumer.session.timeout.ms", 0, "50000"))
        alter("group too short", GROUP, "d-g", ("consumer.session.timeout.ms", 0, "1"))
        alter("streams too short", GROUP, "d-g", ("streams.session.timeout.ms", 0, "1"))
        alter("streams too many", GROUP, "d-g", ("streams.num.standby.replicas", 0, "3"))
        alter("streams as wanted", GROUP, "d-g", ("streams.num.standby.replicas", 0, "2"))

    tell(chapter)


def test_tiered_storage_that_is_not_switched_on(tell: Tell, topic: str) -> None:
    def chapter(teller: Teller) -> None:
        teller.create(topic)
        for name, value in (
            ("remote.storage.enable", "true"),
            ("remote.storage.enable", "false"),
            ("remote.log.copy.disable", "true"),
            ("remote.log.delete.on.disable", "true"),
            ("local.retention.ms", "1000"),
            ("local.retention.ms", "-3"),
            ("local.retention.bytes", "1000"),
        ):
            label = f"{name}={value}"
            made = create_topics.CreatableTopic(
                f"{topic}-{name}{value}",
                1,
                1,
                [],
                [create_topics.CreatableTopicConfig(name, value)],
            )
            created = create_topics.CreateTopicsRequest([made], 10_000, True)
            (answer,) = teller.link.ask(ApiKey.CREATE_TOPICS, 7, created).topics
            teller.answers[f"created: {label}"] = answer.error_code
            setting = incremental_alter_configs.AlterableConfig(name, 0, value)
            resource = incremental_alter_configs.AlterConfigsResource(TOPIC, topic, [setting])
            request = incremental_alter_configs.IncrementalAlterConfigsRequest([resource])
            teller.ask(label, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
        settings = _described(teller, BROKER, str(teller.node_id))
        teller.answers["settings"] = {
            name: told for name, told in sorted(settings.items()) if name.startswith("remote.")
        }

    tell(chapter)


def test_min_insync_replicas_with_and_without_eligible_leaders(tell: Tell, topic: str) -> None:
    def chapter(teller: Teller) -> None:
        teller.create(topic)
        name, feature = "min.insync.replicas", "eligible.leader.replicas.version"
        node = str(teller.node_id)

        def look(label: str) -> None:
            for what, kind, whom in (
                ("one", BROKER, node),
                ("all", BROKER, ""),
                ("topic", TOPIC, topic),
            ):
                resource = describe_configs.DescribeConfigsResource(kind, whom, [name])
                request = describe_configs.DescribeConfigsRequest([resource], include_synonyms=True)
                answer = teller.link.ask(ApiKey.DESCRIBE_CONFIGS, 4, request).results[0]
                teller.answers[f"{label}: {what}"] = teller._plain(answer.configs)

        def is_told(value: str, source: int) -> bool:
            return _described(teller, BROKER, node)[name][:3] == (value, False, source)

        def alter(label: str, whom: str, operation: int, value: str | None) -> None:
            setting = incremental_alter_configs.AlterableConfig(name, operation, value)
            resource = incremental_alter_configs.AlterConfigsResource(BROKER, whom, [setting])
            request = incremental_alter_configs.IncrementalAlterConfigsRequest([resource])
            teller.ask(label, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)

        def switch(label: str, level: int, direction: int) -> None:
            update = update_features.FeatureUpdateKey(feature, level, True, direction)
            request = update_features.UpdateFeaturesRequest(9000, [update])
            teller.ask(label, ApiKey.UPDATE_FEATURES, 2, request)

        look("at first")
        alter("all 2", "", 0, "2")
        teller.until("it is told", lambda: is_told("2", 3))
        look("all 2")
        alter("removed for all", "", 1, None)
        alter("one", node, 0, "1")
        alter("removed for one", node, 1, None)
        resource = alter_configs.AlterConfigsResource(BROKER, "", [])
        teller.ask(
            "replaced", ApiKey.ALTER_CONFIGS, 2, alter_configs.AlterConfigsRequest([resource])
        )
        look("still 2")
        switch("off", 0, 2)
        alter("off, removed for all", "", 1, None)
        teller.until("it is told", lambda: is_told("1", 5))
        look("off, removed")
        alter("off, one", node, 0, "1")
        teller.until("it is told", lambda: is_told("1", 2))
        switch("on", 1, 1)
        teller.until("it is told", lambda: is_told("1", 3))
        look("on again")

    tell(chapter)


def test_limits_of_connections_are_altered_at_run_time(tell: Tell) -> None:
    def chapter(teller: Teller) -> None:
        cases = {
            "max.connections": ("1000", "0", "-1", "x"),
            "max.connections.per.ip": ("100", "0", "-1"),
            "max.connections.per.ip.overrides": ("127.0.0.1:200,localhost:5", "x", "a:b", ""),
            "max.connection.creation.rate": ("50", "0", "-1"),
        }
        for name, values in cases.items():
            for value in values:
                for whom in (str(teller.node_id), ""):
                    setting = incremental_alter_configs.AlterableConfig(name, 0, value)
                    resource = incremental_alter_configs.AlterConfigsResource(
                        BROKER, whom, [setting]
                    )
                    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
                        [resource], validate_only=True
                    )
                    answer = teller.link.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
                    label = f"{name}={value} {'for all' if not whom else 'for one'}"
                    teller.answers[label] = answer.responses[0].error_code
        settings = _described(teller, BROKER, str(teller.node_id))
        teller.answers["settings"] = {name: settings[name] for name in cases}

    tell(chapter)


def test_what_a_broker_says_of_itself(tell: Tell) -> None:
    def chapter(teller: Teller) -> None:
        settings = _described(teller, BROKER, str(teller.node_id))
        for name in ("node.id", "broker.id"):
            value, read_only, source, kind = settings[name]
            teller.answers[name] = (value == str(teller.node_id), read_only, source, kind)
        teller.answers["process.roles"] = settings["process.roles"][0]
        teller.answers["log.dirs"] = (
            settings["log.dirs"][0] == str(teller.data),
            settings["log.dirs"][1:],
        )
        own = f"PLAINTEXT://127.0.0.1:{teller.port}"
        listeners, _read_only, source, kind = settings["listeners"]
        teller.answers["listeners"] = (listeners.split(",")[0] == own, source, kind)
        for name in (
            *("inter.broker.listener.name", "controller.quorum.bootstrap.servers", "broker.rack"),
            *("controller.quorum.election.timeout.ms", "controller.quorum.fetch.timeout.ms"),
            *("controller.quorum.election.backoff.max.ms", "controller.quorum.request.timeout.ms"),
            *("controller.quorum.retry.backoff.ms", "security.inter.broker.protocol"),
        ):
            teller.answers[name] = settings[name]
        for name in ("advertised.listeners", "controller.listener.names"):
            teller.answers[name] = settings[name][1], settings[name][3]

    tell(chapter)


def _described(teller: Teller, kind: int, name: str) -> dict[str, tuple[Any, ...]]:
    """Value, whether it is fixed, source and type of every setting."""
    resource = describe_configs.DescribeConfigsResource(kind, name, None)
    request = describe_configs.DescribeConfigsRequest([resource])
    (result,) = teller.link.ask(ApiKey.DESCRIBE_CONFIGS, 4, request).results
    assert result.error_code == 0, result
    return {
        one.name: (one.value, one.read_only, one.config_source, one.config_type)
        for one in result.configs
    }


def test_streams_groups_that_are_not_there(tell: Tell) -> None:
    def chapter(teller: Teller) -> None:
        def describe() -> Any:
            request = streams_group_describe.StreamsGroupDescribeRequest(["no-such-app", ""])
            return teller.link.ask(ApiKey.STREAMS_GROUP_DESCRIBE, 0, request)

        def settled() -> bool:
            # Asking makes the coordinator's topic, and loads it.
            teller.link.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key="no-such-app"))
            codes = {one.error_code for one in describe().groups}
            return not codes & {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}

        teller.until("there is a coordinator", settled)
        answer = describe()
        teller.answers["described"] = sorted(
            (one.group_id, one.error_code) for one in answer.groups
        )

    tell(chapter)


def test_telemetry_without_a_subscription(tell: Tell) -> None:
    def chapter(teller: Teller) -> None:
        client = uuid.UUID("01234567-0123-4123-8123-0123456789ab")
        ask = get_telemetry_subscriptions.GetTelemetrySubscriptionsRequest
        first = teller.link.ask(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, ask(client))
        teller.answers["first"] = (
            first.error_code,
            first.accepted_compression_types,
            first.push_interval_ms,
            first.telemetry_max_bytes,
            first.delta_temporality,
            first.requested_metrics,
        )
        teller.ask("at once again", ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, ask(client))

        def push(
            what: str, who: uuid.UUID, number: int, *, last: bool = False, codec: int = 0
        ) -> None:
            request = push_telemetry.PushTelemetryRequest(who, number, last, codec, b"")
            teller.ask(what, ApiKey.PUSH_TELEMETRY, 0, request)

        push("nobody", uuid.UUID(int=0), 1)
        push("another subscription", client, first.subscription_id ^ 1)
        push("too soon", client, first.subscription_id)
        push("unknown codec", client, first.subscription_id, last=True, codec=9)
        push("after the last", client, first.subscription_id)

    tell(chapter)


def _entity(parts: list[Any]) -> list[tuple[str, str]]:
    return sorted((one.entity_type, str(one.entity_name)) for one in parts)


def _has_quotas(teller: Teller, entity: list[tuple[str, str | None]]) -> bool:
    components = [describe_client_quotas.ComponentData(kind, 0, name) for kind, name in entity]
    request = describe_client_quotas.DescribeClientQuotasRequest(components)
    return bool(teller.link.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, request).entries)
