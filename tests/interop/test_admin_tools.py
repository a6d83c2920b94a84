"""Kafka's tools for administrators say the same of Millpond as of Kafka."""

import json
import re
from pathlib import Path

from tests.interop.peers import Peer
from tests.interop.test_group_tools import Desk, Peers, peers
from tests.interop.topics import create_topic

__all__ = ["peers"]


def test_quotas_and_users(peers: Peers, topic: str) -> None:
    def chapter(desk: Desk) -> None:
        of_user = ("--entity-type", "users", "--entity-name", topic)
        of_client = ("--entity-type", "clients", "--entity-name", topic)
        configs = "kafka-configs"
        desk.tool(configs, "--alter", *of_user, "--add-config", "producer_byte_rate=1000000")
        desk.tool(configs, "--alter", *of_client, "--add-config", "request_percentage=200")
        desk.tool(configs, "--alter", *of_user, "--add-config", "no_such_rate=1")
        desk.settle(lambda: "request_percentage" in desk.say(configs, "--describe", *of_client))
        desk.tool(configs, "--describe", *of_user)
        desk.tool(configs, "--describe", *of_client)
        desk.tool(configs, "--alter", *of_user, "--delete-config", "producer_byte_rate")
        desk.tool(configs, "--alter", *of_client, "--delete-config", "request_percentage")
        secret = "SCRAM-SHA-256=[iterations=8192,password=secret]"
        desk.tool(configs, "--alter", *of_user, "--add-config", secret)
        desk.settle(lambda: "iterations" in desk.say(configs, "--describe", *of_user))
        desk.tool(configs, "--describe", *of_user)
        desk.tool(configs, "--alter", *of_user, "--delete-config", "SCRAM-SHA-256")
        desk.tool(configs, "--alter", *of_user, "--delete-config", "SCRAM-SHA-256")

    peers.agree(chapter)


def test_acls_features_and_metrics(peers: Peers, topic: str) -> None:
    def chapter(desk: Desk) -> None:
        desk.tool("kafka-acls", "--list")
        allowed = ("--allow-principal", "User:x", "--operation", "Read", "--topic", topic)
        desk.tool("kafka-acls", "--add", *allowed)
        desk.tool("kafka-features", "upgrade", "--feature", "share.version=1", "--dry-run")
        desk.tool("kafka-features", "upgrade", "--feature", "share.version=9", "--dry-run")
        desk.tool("kafka-features", "downgrade", "--feature", "transaction.version=1", "--dry-run")
        metrics = "kafka-client-metrics"
        name = ("--name", topic)
        desk.tool(metrics, "--alter", *name, "--interval", "1000", "--metrics", "org.apache.")
        desk.tool(metrics, "--alter", *name, "--interval", "1")
        desk.settle(lambda: "interval.ms=1000" in desk.say(metrics, "--describe", *name))
        desk.tool(metrics, "--describe", *name)
        desk.tool(metrics, "--delete", *name)

    peers.agree(chapter)


def test_partitions_and_leaders(peers: Peers, topic: str, tmp_path: Path) -> None:
    def chapter(desk: Desk) -> None:
        create_topic(desk.peer, topic, partitions=2)
        both = [{"topic": topic, "partition": number} for number in (0, 1)]
        election = tmp_path / "election.json"
        election.write_text(json.dumps({"partitions": both}))
        desk.tool(
            "kafka-leader-election",
            "--election-type",
            "preferred",
            "--path-to-json-file",
            str(election),
        )
        desk.tool("kafka-reassign-partitions", "--list")
        # To verify a move to a node that is not there the tool asks that node, for a minute.
        for node, acts in ((1, ("--execute", "--verify")), (77, ("--execute",))):
            plan = tmp_path / f"to-{node}.json"
            moves = [{**one, "replicas": [node]} for one in both]
            plan.write_text(json.dumps({"version": 1, "partitions": moves}))
            for act in acts:
                desk.tool("kafka-reassign-partitions", "--reassignment-json-file", str(plan), act)
        wanted = tmp_path / "topics.json"
        wanted.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
        desk.tool(
            *("kafka-reassign-partitions", "--generate", "--broker-list", "1"),
            *("--topics-to-move-json-file", str(wanted)),
        )
        records = tmp_path / "records.json"
        offsets = [{**both[0], "offset": 0}, {**both[1], "offset": -1}]
        records.write_text(json.dumps({"version": 1, "partitions": offsets}))
        desk.tool("kafka-delete-records", "--offset-json-file", str(records))

    peers.agree(chapter)


def test_the_quorum_and_the_versions(peers: Peers, broker: Peer, kafka: Peer) -> None:
    def chapter(desk: Desk) -> None:
        status = desk.say("kafka-metadata-quorum", "describe", "--status")
        fields = re.findall(r"^(\w+):", status, re.MULTILINE)
        voters = re.search(r'"id": (\d+)', status)
        desk.keep("quorum", [*fields, "" if voters is None else voters[1]])
        versions = desk.say("kafka-broker-api-versions")
        unusable = re.findall(r"UNSUPPORTED|UNKNOWN", versions)
        desk.keep("unusable", sorted(set(unusable)))

    peers.agree(chapter)
