"""The table of settings: Kafka's names and defaults, layers, and what is said about mistakes."""

import pytest

from millpond.base.errors import InvalidConfig
from millpond.log.config import LogConfig
from millpond.metadata.configs import (
    ACCEPTED,
    BROKER_CONFIGS,
    BROKER_NAMES,
    SECURITY_NAMES,
    TOPIC_CONFIGS,
    BrokerConfig,
    ConfigDef,
    ConfigSource,
    ConfigType,
    broker_config_def,
    check_broker_overrides,
    check_topic_overrides,
    connection_overrides,
    describe_broker,
    describe_topic,
    log_config,
    topic_config_def,
)

# Of Kafka's DynamicBrokerConfig, what has no effect here.
LIVE_IN_KAFKA = (
    *("background.threads", "num.io.threads", "num.network.threads", "num.replica.fetchers"),
    *("num.recovery.threads.per.data.dir", "metric.reporters", "log.cleaner.threads"),
    *("log.cleaner.dedupe.buffer.size", "log.cleaner.io.buffer.load.factor"),
    *("log.cleaner.io.buffer.size", "log.cleaner.io.max.bytes.per.second"),
    *("remote.fetch.max.wait.ms", "remote.log.manager.copy.max.bytes.per.second"),
    *("log.local.retention.ms", "log.local.retention.bytes", "log.preallocate"),
    *("transaction.partition.verification.enable", "follower.fetch.last.tiered.offset.enable"),
)
EVERY_ROW = [*TOPIC_CONFIGS.values(), *BROKER_CONFIGS.values()]


def test_every_default_is_valid_and_survives_its_text_form() -> None:
    for row in EVERY_ROW:
        if row.default is not None:
            text = row.render(row.default)
            assert text is not None, row.name
            assert row.parse(text) == row.default, row.name


def test_every_setting_is_documented_in_a_sentence() -> None:
    mute = [row.name for row in EVERY_ROW if len(row.doc) < 5 or not row.doc.endswith(".")]

    assert mute == []


def test_a_log_without_any_setting_has_the_defaults_of_the_log_itself() -> None:
    assert log_config({}, BrokerConfig()) == LogConfig()


def test_every_broker_setting_behind_a_topic_setting_exists_and_agrees_on_the_default() -> None:
    for name, behind in BROKER_NAMES.items():
        assert all(each.name in BROKER_CONFIGS for each in behind), name
        in_force = describe_topic({}, BrokerConfig(), [name])[0]
        assert in_force.value == TOPIC_CONFIGS[name].render(TOPIC_CONFIGS[name].default), name


def test_defaults_that_users_of_kafka_rely_on() -> None:
    assert TOPIC_CONFIGS["segment.bytes"].default == 1024**3
    assert TOPIC_CONFIGS["retention.ms"].default == 604_800_000
    assert TOPIC_CONFIGS["max.message.bytes"].default == 1_048_588
    assert TOPIC_CONFIGS["message.timestamp.after.max.ms"].default == 3_600_000
    assert TOPIC_CONFIGS["min.insync.replicas"].default == 1
    assert BROKER_CONFIGS["num.partitions"].default == 1
    assert BROKER_CONFIGS["offsets.topic.num.partitions"].default == 50
    assert BROKER_CONFIGS["socket.request.max.bytes"].default == 104_857_600


class TestPrecedence:
    """The smaller unit wins; a topic's own value wins over all."""

    def test_hours_then_minutes_then_milliseconds(self) -> None:
        hours = {"log.retention.hours": 1}
        minutes = {**hours, "log.retention.minutes": 2}
        milliseconds = {**minutes, "log.retention.ms": 3}

        assert log_config({}, BrokerConfig(hours)).retention_ms == 3_600_000
        assert log_config({}, BrokerConfig(minutes)).retention_ms == 120_000
        assert log_config({}, BrokerConfig(milliseconds)).retention_ms == 3
        assert log_config({"retention.ms": "4"}, BrokerConfig(milliseconds)).retention_ms == 4

    def test_no_limit_is_no_limit_in_every_unit(self) -> None:
        assert log_config({}, BrokerConfig({"log.retention.hours": -1})).retention_ms == -1

    def test_altered_at_run_time_wins_over_the_file(self) -> None:
        broker = BrokerConfig(
            {"log.segment.bytes": 1000},
            cluster_default={"log.segment.bytes": "2000"},
            node={"log.segment.bytes": "3000"},
        )

        assert broker["log.segment.bytes"] == 3000
        assert log_config({}, broker).segment_bytes == 3000
        cleared = broker.altered(cluster_default={}, node={})
        assert cleared["log.segment.bytes"] == 1000


class TestDescriptions:
    """What DescribeConfigs is made of."""

    def test_a_topic_setting_lists_who_had_a_say_strongest_first(self) -> None:
        broker = BrokerConfig({"log.retention.minutes": 5})

        (entry,) = describe_topic({"retention.ms": "1000"}, broker, ["retention.ms"])

        assert entry.value == "1000"
        assert entry.source is ConfigSource.TOPIC
        assert [(s.name, s.value, s.source) for s in entry.synonyms] == [
            ("retention.ms", "1000", ConfigSource.TOPIC),
            ("log.retention.minutes", "5", ConfigSource.STATIC),
            ("log.retention.hours", "168", ConfigSource.DEFAULT),
        ]

    def test_a_value_of_another_unit_is_shown_in_the_topic_settings_unit(self) -> None:
        (entry,) = describe_topic({}, BrokerConfig({"log.retention.minutes": 5}), ["retention.ms"])

        assert entry.value == "300000"
        assert entry.source is ConfigSource.STATIC

    def test_a_secret_is_never_shown(self) -> None:
        broker = BrokerConfig({"ssl.key.password": "hunter2"})

        (entry,) = describe_broker(broker, ["ssl.key.password"])

        assert entry.value is None
        assert "hunter2" not in repr(entry)

    def test_what_cannot_be_altered_is_read_only(self) -> None:
        entries = {entry.name: entry for entry in describe_broker(BrokerConfig())}

        assert entries["node.id"].read_only
        assert not entries["log.retention.ms"].read_only

    def test_names_that_do_not_exist_are_left_out(self) -> None:
        assert describe_topic({}, BrokerConfig(), ["no.such.thing"]) == []
        assert describe_broker(BrokerConfig(), ["no.such.thing"]) == []


class TestMistakes:
    """Every refusal names the setting and what would be accepted."""

    @pytest.mark.parametrize(
        ("name", "text", "reason"),
        [
            ("retention.ms", "soon", "must be a whole number (64-bit)"),
            ("retention.ms", "-2", "must be at least -1"),
            ("retention.ms", str(2**63), "must be a whole number (64-bit)"),
            ("cleanup.policy", "delete,shred", "must be one of delete, compact"),
            ("preallocate", "yes", "must be true or false"),
            ("min.cleanable.dirty.ratio", "1.5", "must be at most 1"),
            ("flush.policy", "never", "must be one of os, group"),
            ("compression.type", "rar", "must be one of"),
        ],
    )
    def test_a_bad_value(self, name: str, text: str, reason: str) -> None:
        with pytest.raises(InvalidConfig) as refused:
            check_topic_overrides({name: text})
        assert name in str(refused.value)
        assert reason in str(refused.value)

    def test_an_unknown_name_brings_the_nearest(self) -> None:
        with pytest.raises(InvalidConfig, match=r"Did you mean retention\.ms"):
            topic_config_def("retension.ms")
        with pytest.raises(InvalidConfig, match=r"Did you mean log\.segment\.bytes"):
            broker_config_def("log.segmant.bytes")

    def test_the_other_scopes_name_brings_the_right_one(self) -> None:
        with pytest.raises(InvalidConfig, match=r"for a topic it is called retention\.ms"):
            topic_config_def("log.retention.hours")
        with pytest.raises(InvalidConfig, match=r"for the broker it is called log\.retention\.ms"):
            broker_config_def("retention.ms")

    def test_nothing_near_means_no_guess(self) -> None:
        with pytest.raises(InvalidConfig) as refused:
            broker_config_def("qwertyuiop")
        assert "mean" not in str(refused.value)

    def test_lags_must_not_cross(self) -> None:
        with pytest.raises(InvalidConfig, match=r"min\.compaction\.lag\.ms"):
            check_topic_overrides({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"})

    def test_a_fixed_setting_cannot_be_altered_at_run_time(self) -> None:
        with pytest.raises(InvalidConfig, match="cannot change while the broker runs"):
            check_broker_overrides({"listeners": "PLAINTEXT://:1"})
        assert check_broker_overrides({"log.retention.ms": "5"}) == {"log.retention.ms": 5}

    @pytest.mark.parametrize("name", LIVE_IN_KAFKA)
    def test_what_kafka_lets_be_altered_is_accepted_and_said_to_have_no_effect(
        self, name: str
    ) -> None:
        is_switch = BROKER_CONFIGS[name].type is ConfigType.BOOLEAN
        text = "true" if is_switch else "9"
        assert name in check_broker_overrides({name: text})
        (entry,) = describe_broker(BrokerConfig(), [name])
        assert not entry.read_only
        assert entry.definition.explained.endswith("has no effect in Millpond.")

    @pytest.mark.parametrize("name", ["ssl.keystore.location", "sasl.enabled.mechanisms"])
    def test_what_would_protect_nothing_is_not_altered_at_run_time(self, name: str) -> None:
        with pytest.raises(InvalidConfig, match="cannot change while the broker runs"):
            check_broker_overrides({name: "x"})

    def test_the_roles_of_a_node_are_shown(self) -> None:
        (entry,) = describe_broker(BrokerConfig(), ["process.roles"])
        assert entry.value == "broker,controller"

    def test_a_secret_is_not_repeated_in_an_error(self) -> None:
        row = ConfigDef(
            name="x", type=ConfigType.INT, default=None, doc="A number.", sensitive=True
        )
        with pytest.raises(InvalidConfig) as refused:
            row.parse("hunter2")
        assert "hunter2" not in str(refused.value)


def test_settings_of_kafkas_that_mean_nothing_here_are_known() -> None:
    for name in (
        "zookeeper.connect",
        "num.io.threads",
        "num.network.threads",
        "metadata.log.segment.ms",
    ):
        assert name in ACCEPTED
        assert not broker_config_def(name).effective
    assert broker_config_def("listener.name.internal.ssl.key.password").sensitive
    assert "authorizer.class.name" in SECURITY_NAMES


def test_lists_keep_their_order_and_drop_blanks_and_repeats() -> None:
    row = TOPIC_CONFIGS["cleanup.policy"]
    assert row.parse(" compact , delete,,compact ") == ("compact", "delete")
    assert row.parse("") == ()


class TestConnectionLimits:
    @pytest.mark.parametrize(
        "settings",
        [
            {"max.connections": "0"},
            {"max.connection.creation.rate": "0"},
            {"max.connections.per.ip": "0"},
            {"max.connections.per.ip.overrides": "10.0.0.1"},
            {"max.connections.per.ip.overrides": "10.0.0.1:many"},
            {"max.connections.per.ip.overrides": ":5"},
        ],
    )
    def test_what_shuts_everybody_out_or_means_nothing_is_refused(
        self, settings: dict[str, str]
    ) -> None:
        with pytest.raises(InvalidConfig):
            check_broker_overrides(settings)

    def test_only_some_addresses_may_be_let_in(self) -> None:
        settings = {
            "max.connections.per.ip": "0",
            "max.connections.per.ip.overrides": "10.0.0.1:5, [::1]:7",
        }
        assert check_broker_overrides(settings)
        assert connection_overrides("10.0.0.1:5, [::1]:7") == [("10.0.0.1", 5), ("::1", 7)]


def test_a_topic_is_not_believed_to_be_stored_elsewhere() -> None:
    assert check_topic_overrides({"remote.storage.enable": "false"})
    with pytest.raises(InvalidConfig, match="Tiered Storage functionality is disabled"):
        check_topic_overrides({"remote.storage.enable": "true"})


def test_both_names_of_the_nodes_number_are_shown() -> None:
    entries = describe_broker(BrokerConfig().with_node_id(7), ["node.id", "broker.id"])
    assert [(one.value, one.source) for one in entries] == [("7", ConfigSource.STATIC)] * 2


def test_delays_are_not_for_compacted_topics() -> None:
    assert check_topic_overrides({"millpond.delay.enable": "true", "cleanup.policy": "delete"})
    for policy in ("compact", "compact,delete"):
        with pytest.raises(InvalidConfig, match="compact"):
            check_topic_overrides({"millpond.delay.enable": "true", "cleanup.policy": policy})
        assert check_topic_overrides({"millpond.delay.enable": "false", "cleanup.policy": policy})
