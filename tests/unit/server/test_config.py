"""Settings from files, the environment and the command line: who wins, and what is refused."""

from pathlib import Path

import pytest

from millpond.base.errors import InvalidConfig
from millpond.metadata.configs import BROKER_CONFIGS
from millpond.server.config import (
    Given,
    InvalidSettings,
    Origin,
    Settings,
    environment_name,
    given_in_code,
    given_on_command_line,
    load_settings,
)

# The file that Apache Kafka 4 ships, without its comments.
KAFKA_4_SERVER_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""

# What the ZooKeeper generations of Kafka were started with.
KAFKA_2_SERVER_PROPERTIES = """
broker.id=3
listeners=PLAINTEXT://127.0.0.1:9094
log.dirs=/data/kafka-3
num.partitions=1
zookeeper.connect=zk1:2181,zk2:2181,zk3:2181/myKafka
zookeeper.connection.timeout.ms=18000
group.initial.rebalance.delay.ms=0
"""


def settings_of(text: str, tmp_path: Path, name: str = "server.properties") -> Settings:
    file = tmp_path / name
    file.write_text(text)
    return load_settings(file=file)


def problems_of(text: str, tmp_path: Path, name: str = "server.properties") -> tuple[str, ...]:
    with pytest.raises(InvalidSettings) as refused:
        settings_of(text, tmp_path, name)
    return refused.value.problems


def test_several_controllers_need_a_list_of_voters(tmp_path: Path) -> None:
    several = "controller.quorum.bootstrap.servers=mill-1:9093,mill-2:9093,mill-3:9093"
    file = KAFKA_4_SERVER_PROPERTIES.replace(
        "controller.quorum.bootstrap.servers=localhost:9093", several
    )
    (problem,) = problems_of(file, tmp_path)
    assert "set controller.quorum.voters" in problem

    voters = "controller.quorum.voters=1@mill-1:9093,2@mill-2:9093,3@mill-3:9093\n"
    assert settings_of(file + voters, tmp_path).node_id == 1


class TestDefaults:
    def test_nothing_configured_is_a_broker_on_loopback(self) -> None:
        settings = load_settings()

        assert [str(listener.bind) for listener in settings.listeners] == [
            "PLAINTEXT://127.0.0.1:9092"
        ]
        assert settings.data == Path("millpond-data")
        assert settings.node_id == 1
        assert settings.notices == ()
        assert settings.warnings == ()

    def test_a_door_to_other_machines_is_mentioned(self) -> None:
        inside = load_settings(
            overrides=given_in_code({"listeners": "127.0.0.1:1,[::1]:2,localhost:3"})
        )
        outside = load_settings(overrides=given_in_code({"listeners": "0.0.0.0:9092"}))

        assert inside.notices == ()
        assert "can be reached from other machines" in outside.notices[0]
        assert "every client is let in" in outside.notices[0]

    def test_tokens_without_a_door_for_them_are_mentioned(self) -> None:
        tokens = {"auth_backends": "oauth2", "auth_oauth2.resource_server_id": "mill"}
        shut = load_settings(overrides=given_in_code(tokens))
        doors = {"listeners": "127.0.0.1:1,AMQP://127.0.0.1:5672"}
        open_ = load_settings(overrides=given_in_code({**tokens, **doors}))
        usual = load_settings(overrides=given_in_code({"auth_backends": "internal"}))

        (said,) = shut.notices
        assert said.startswith("no listener speaks AMQP")
        assert said.endswith(": auth_backends, auth_oauth2.resource_server_id")
        assert open_.notices == ()
        assert usual.notices == ()

    def test_amqps_door_asks_for_a_password(self) -> None:
        doors = ("0.0.0.0:9092", "AMQP://:5672", "AMQPS://:5671", "MANAGEMENT://:15672")
        settings = load_settings(overrides=given_in_code({"listeners": ",".join(doors)}))

        assert [notice.partition("machines, and ")[2] for notice in settings.notices] == [
            "every client is let in",
            "users log in there, with passwords in plain text",
            "users log in there",
            "users log in there, with passwords in plain text",
        ]


class TestKafkaFiles:
    def test_the_file_that_kafka_4_ships_is_taken_as_it_is(self, tmp_path: Path) -> None:
        settings = settings_of(KAFKA_4_SERVER_PROPERTIES, tmp_path)

        assert [str(listener.bind) for listener in settings.listeners] == ["PLAINTEXT://:9092"]
        assert str(settings.listeners[0].advertised) == "PLAINTEXT://localhost:9092"
        assert [str(endpoint) for endpoint in settings.skipped_listeners] == ["CONTROLLER://:9093"]
        assert settings.data == Path("/tmp/kraft-combined-logs")
        assert not any(notice.startswith("accepted, no effect") for notice in settings.notices)

    def test_the_controllers_listener_of_a_cluster_is_opened_for_the_quorum(
        self, tmp_path: Path
    ) -> None:
        voters = "controller.quorum.voters=1@one:9093,2@two:9093,3@three:9093\n"
        settings = settings_of(KAFKA_4_SERVER_PROPERTIES + voters, tmp_path)

        assert settings.skipped_listeners == ()
        assert [(listener.name, listener.for_controllers) for listener in settings.listeners] == [
            ("PLAINTEXT", False),
            ("CONTROLLER", True),
        ]

    def test_replicas_are_only_strange_on_a_single_node(self, tmp_path: Path) -> None:
        alone = settings_of("default.replication.factor=3\n", tmp_path)
        assert "single node" in alone.warnings[0]
        voters = "controller.quorum.voters=1@one:9093,2@two:9093\n"
        assert settings_of(voters + "default.replication.factor=2\n", tmp_path).warnings == ()

    def test_a_node_is_always_a_broker(self, tmp_path: Path) -> None:
        assert "broker, too" in settings_of("process.roles=controller\n", tmp_path).warnings[0]

    def test_a_file_of_the_zookeeper_days_is_taken_too(self, tmp_path: Path) -> None:
        settings = settings_of(KAFKA_2_SERVER_PROPERTIES, tmp_path)

        assert settings.node_id == 3
        assert settings.values["group.initial.rebalance.delay.ms"] == 0
        assert "zookeeper.connect" in settings.notices[0]

    def test_the_line_of_a_mistake_is_named(self, tmp_path: Path) -> None:
        (problem,) = problems_of("# a comment\nnum.partitons=3\n", tmp_path)

        assert "server.properties line 2" in problem
        assert "Did you mean num.partitions?" in problem

    def test_every_mistake_is_reported_at_once(self, tmp_path: Path) -> None:
        problems = problems_of("num.partitons=3\nnum.partitions=three\nlog.foo=1\n", tmp_path)

        assert len(problems) == 3

    def test_a_blank_value_means_not_set(self, tmp_path: Path) -> None:
        settings = settings_of("advertised.listeners=\nlog.retention.ms=\n", tmp_path)

        assert settings.listeners[0].advertised is None
        assert settings.values["log.retention.ms"] is None

    def test_security_that_is_not_enforced_is_a_warning(self, tmp_path: Path) -> None:
        settings = settings_of("authorizer.class.name=org.example.Authorizer\n", tmp_path)

        (warning,) = settings.warnings
        assert "not enforced" in warning
        assert "authorizer.class.name" in warning

    def test_a_listener_that_asks_for_tls_is_refused_not_opened(self, tmp_path: Path) -> None:
        (problem,) = problems_of("listeners=SSL://:9093\n", tmp_path)

        assert "only PLAINTEXT is served" in problem


class TestToml:
    def test_tables_dotted_names_and_quoted_names_are_the_same_thing(self, tmp_path: Path) -> None:
        settings = settings_of(
            """
            listeners = ["PLAINTEXT://127.0.0.1:0"]
            num.partitions = 6
            "max.connections.per.ip" = 7
            auto.create.topics.enable = false
            [log]
            segment.bytes = 1_000_000
            [log.retention]
            hours = 2
            """,
            tmp_path,
            "node.toml",
        )

        assert settings.values["num.partitions"] == 6
        assert settings.values["max.connections.per.ip"] == 7
        assert settings.values["auto.create.topics.enable"] is False
        assert settings.values["log.segment.bytes"] == 1_000_000
        assert settings.values["log.retention.hours"] == 2
        assert settings.source_of("num.partitions").origin is Origin.FILE

    def test_a_syntax_error_names_the_file_and_the_line(self, tmp_path: Path) -> None:
        (problem,) = problems_of("num.partitions = \n", tmp_path, "node.toml")

        assert "node.toml" in problem
        assert "line 1" in problem

    def test_names_that_begin_alike_get_a_hint(self, tmp_path: Path) -> None:
        text = "max.connections = 5\nmax.connections.per.ip = 2\n"

        (problem,) = problems_of(text, tmp_path, "node.toml")

        assert "put them in quotes" in problem

    def test_a_value_that_cannot_be(self, tmp_path: Path) -> None:
        (problem,) = problems_of("num.partitions = 2024-01-01\n", tmp_path, "node.toml")

        assert "num.partitions" in problem


class TestOtherFiles:
    def test_a_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidConfig, match="no such file"):
            load_settings(file=tmp_path / "gone.toml")

    def test_a_file_of_unknown_kind(self, tmp_path: Path) -> None:
        (problem,) = problems_of("x", tmp_path, "node.yaml")

        assert "call it .toml" in problem

    def test_a_directory(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidConfig, match="is a directory"):
            load_settings(file=tmp_path)


class TestEnvironment:
    def test_a_variable_sets_a_setting(self) -> None:
        settings = load_settings(environment={"MILLPOND_LOG_SEGMENT_BYTES": "2048", "PATH": "/bin"})

        assert settings.values["log.segment.bytes"] == 2048
        assert (
            settings.source_of("log.segment.bytes").where == "variable MILLPOND_LOG_SEGMENT_BYTES"
        )

    def test_no_two_settings_share_a_variable(self) -> None:
        assert len({environment_name(name) for name in BROKER_CONFIGS}) == len(BROKER_CONFIGS)

    def test_an_unknown_variable_is_refused_with_a_suggestion(self) -> None:
        with pytest.raises(InvalidSettings, match=r"Did you mean num\.partitions"):
            load_settings(environment={"MILLPOND_NUM_PARTITION": "3"})

    def test_a_variable_that_resembles_no_setting_is_somebody_elses(self) -> None:
        settings = load_settings(environment={"MILLPOND_QWERTY": "x"})

        assert settings.warnings == ("variable MILLPOND_QWERTY is not a setting; ignored",)

    def test_an_orchestrators_variables_are_not_settings(self) -> None:
        settings = load_settings(
            environment={
                "MILLPOND_PORT": "tcp://10.0.0.1:9092",
                "MILLPOND_SERVICE_HOST": "10.0.0.1",
                "MILLPOND_PORT_9092_TCP_PROTO": "tcp",
            }
        )

        assert settings.warnings == ()

    def test_variables_of_the_commands_are_left_alone(self) -> None:
        names = {"MILLPOND_LOG_LEVEL": "debug", "MILLPOND_BOOTSTRAP": "x:1"}

        settings = load_settings(environment=names)

        assert settings.warnings == ()
        assert settings.values == load_settings(environment={}).values


class TestWhoWins:
    def test_command_line_over_environment_over_file_over_default(self, tmp_path: Path) -> None:
        file = tmp_path / "a.toml"
        file.write_text(
            "num.partitions = 2\nlog.retention.hours = 2\ndefault.replication.factor = 1"
        )
        settings = load_settings(
            file=file,
            environment={"MILLPOND_NUM_PARTITIONS": "3", "MILLPOND_LOG_RETENTION_HOURS": "3"},
            overrides=[given_on_command_line("num.partitions=4", option="--set")],
        )

        assert settings.values["num.partitions"] == 4
        assert settings.values["log.retention.hours"] == 3
        assert settings.source_of("num.partitions").where == "--set num.partitions"
        assert settings.source_of("message.max.bytes").origin is Origin.DEFAULT

    def test_a_mistake_below_does_not_hide_under_a_good_value_above(self, tmp_path: Path) -> None:
        file = tmp_path / "a.toml"
        file.write_text('num.partitions = "many"')
        with pytest.raises(InvalidSettings, match="many"):
            load_settings(
                file=file, overrides=[given_on_command_line("num.partitions=4", option="--set")]
            )

    def test_an_assignment_without_equals(self) -> None:
        with pytest.raises(InvalidConfig, match="write name=value"):
            given_on_command_line("num.partitions", option="--set")

    def test_a_value_may_contain_an_equals_sign(self) -> None:
        given = given_on_command_line("cluster.id=a=b", option="--set")

        assert given == Given("cluster.id", "a=b", Origin.COMMAND_LINE, "--set cluster.id")


class TestMeaning:
    def test_the_metadata_log_lies_in_the_first_directory(self) -> None:
        settings = load_settings(overrides=given_in_code({"log.dirs": "/a,/b"}))

        assert settings.log_dirs == (Path("/a"), Path("/b"))
        assert settings.data == Path("/a")

    @pytest.mark.parametrize("place", ["/b", "/b/", "/c"])
    def test_the_metadata_log_lies_where_it_is_told_to(self, place: str) -> None:
        given = {"log.dirs": "/a,/b", "metadata.log.dir": place}
        settings = load_settings(overrides=given_in_code(given))

        assert settings.data == Path(place)
        assert settings.log_dirs == (Path("/a"), Path("/b"))
        assert settings.notices == ()

    def test_a_directory_is_named_once(self) -> None:
        with pytest.raises(InvalidSettings, match=r"/a and /b/../a are the same directory"):
            load_settings(overrides=given_in_code({"log.dirs": "/a,/b/../a"}))

    def test_two_ids_that_differ(self) -> None:
        with pytest.raises(InvalidSettings, match="keep one of them"):
            load_settings(overrides=given_in_code({"broker.id": 1, "node.id": 2}))

    def test_broker_id_of_minus_one_is_nobodys_choice(self) -> None:
        assert load_settings(overrides=given_in_code({"broker.id": -1})).node_id == 1

    def test_a_message_must_fit_into_a_request(self) -> None:
        with pytest.raises(InvalidSettings, match=r"message\.max\.bytes"):
            load_settings(overrides=given_in_code({"socket.request.max.bytes": 1000}))

    def test_more_replicas_than_nodes_is_a_warning(self) -> None:
        settings = load_settings(overrides=given_in_code({"default.replication.factor": 3}))

        assert "will be refused" in settings.warnings[0]

    def test_keywords_may_have_underscores(self) -> None:
        settings = load_settings(overrides=given_in_code({"num_partitions": 5}))

        assert settings.values["num.partitions"] == 5

    def test_an_unknown_inter_broker_listener(self) -> None:
        with pytest.raises(InvalidSettings, match=r"inter\.broker\.listener\.name"):
            load_settings(overrides=given_in_code({"inter.broker.listener.name": "INTERNAL"}))


class TestDocumentation:
    def test_the_file_of_the_recipe_for_three_hosts_is_taken(self, tmp_path: Path) -> None:
        text = (Path(__file__).parents[3] / "docs" / "cluster.md").read_text()
        recipe = text.partition("```toml\n")[2].partition("```")[0]

        settings = settings_of(recipe, tmp_path, "node.toml")

        assert settings.node_id == 1
        assert len(settings.values["controller.quorum.voters"]) == 3
        assert str(settings.listeners[0].advertised) == "PLAINTEXT://mill-1.example:9092"
        assert settings.warnings == ()


@pytest.mark.parametrize(
    ("amqp", "opened"),
    [
        ("0", ["AMQP://127.0.0.1:0", "MANAGEMENT://127.0.0.1:0"]),
        ("5672", ["AMQP://127.0.0.1:5672", "MANAGEMENT://127.0.0.1:15672"]),
        (":5672", ["AMQP://:5672", "MANAGEMENT://:15672"]),
        ("127.0.0.1:60000", ["AMQP://127.0.0.1:60000"]),
    ],
)
def test_amqp_is_one_more_listener_and_its_management_another(amqp: str, opened: list[str]) -> None:
    settings = load_settings(served={"amqp": amqp})

    assert [str(listener.bind) for listener in settings.listeners] == [
        "PLAINTEXT://127.0.0.1:9092",
        *opened,
    ]


def test_it_is_said_if_there_is_no_port_for_the_management_api() -> None:
    assert load_settings(served={"amqp": "5672"}).warnings == ()
    (warning,) = load_settings(served={"amqp": "60000"}).warnings
    assert warning.startswith("--amqp 60000: no management API")
    told = load_settings(served={"amqp": "60000", "http": "8080"})
    assert told.warnings == ()
    assert str(told.listeners[-1].bind) == "MANAGEMENT://127.0.0.1:8080"


def test_a_listener_that_is_there_is_not_opened_twice() -> None:
    given = given_in_code({"listeners": "9092,MANAGEMENT://127.0.0.1:8080"})
    settings = load_settings(overrides=given, served={"amqp": "5672"})
    assert [listener.bind.port for listener in settings.listeners] == [9092, 5672, 8080]


@pytest.mark.parametrize("address", ["AMQPS://127.0.0.1:5671", "nowhere", "127.0.0.1:70000"])
def test_an_option_of_a_protocol_takes_an_address_and_no_name(address: str) -> None:
    with pytest.raises(InvalidSettings, match="--amqp"):
        load_settings(served={"amqp": address})


# --- lists that are said one by one, as RabbitMQ's files do ----------------------------------------------


def test_members_of_a_list_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    text = (
        "auth_backends.10=internal\nauth_backends.2=oauth2\nauth_oauth2.resource_server_id=mill\n"
    )
    assert settings_of(text, tmp_path).values["auth_backends"] == ("oauth2", "internal")


def test_members_by_name_keep_their_names(tmp_path: Path) -> None:
    text = '[auth_oauth2.signing_keys]\nb = "/keys/b.pem"\na = "/keys/a.pem"\n'
    values = settings_of(text, tmp_path, "node.toml").values
    assert values["auth_oauth2.signing_keys"] == ("a=/keys/a.pem", "b=/keys/b.pem")


def test_members_say_more_than_a_list() -> None:
    given = [
        given_on_command_line("auth_backends.1=oauth2", option="--set"),
        given_on_command_line("auth_backends=internal", option="--set"),
    ]
    assert load_settings(overrides=given).values["auth_backends"] == ("oauth2",)


@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        ("auth_backends.first=internal", "behind auth_backends is a number"),
        ("auth_backends.1=ldap", "must be one of internal, oauth2"),
        ("auth_oauth2.signing_keys.a=x,y", "one value, without a comma"),
        ("auth_oauth2.algorithms.1=none", "must be one of RS256"),
    ],
)
def test_members_that_make_no_sense(assignment: str, said: str) -> None:
    with pytest.raises(InvalidSettings, match=said):
        load_settings(overrides=[given_on_command_line(assignment, option="--set")])
