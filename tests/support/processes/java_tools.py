"""Apache Kafka's own command-line tools, run by class name from the jars that fetch-deps cached.

The names are those of the scripts in Kafka's ``bin/``, so that a test reads like the command a person
would type: ``run_tool("kafka-topics", "--bootstrap-server", address, "--list")``.
"""

import functools
import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

POM = Path(__file__).resolve().parents[2] / "interop" / "java" / "pom.xml"

TOOLS = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-server-start": "kafka.Kafka",
    "kafka-share-consumer-perf-test": "org.apache.kafka.tools.ShareConsumerPerformance",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}

# Short-lived tools gain more from a quick start than from the optimising compiler. Benchmarks must not
# use these: pass jvm_flags=() there.
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a tool printed and how it ended."""

    command: str
    code: int
    out: str
    err: str

    def check(self) -> "ToolResult":
        """Answer itself, or fail with all that the tool said when it did not end with 0."""
        assert self.code == 0, (
            f"{self.command} ended with {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"
        )
        return self


def jars(pom: Path = POM, name: str = "kafka") -> Path:
    """The directory that fetch-deps fills for the present pom.xml (it may not exist yet)."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(os.environ.get("MILLPOND_CACHE") or Path(home) / "millpond")
    key = hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    return cache / f"{name}-{key}"


@functools.cache
def missing_reason() -> str | None:
    """Why the Java tools cannot run here, or None when they can."""
    if shutil.which("javac") is None:
        return "a JDK is not installed (make interop-deps)"
    if not (jars() / ".complete").exists():
        return "Apache Kafka's jars are not in the cache (make interop-deps)"
    return None


def java_command(
    tool: str,
    *args: str,
    heap_mb: int = 256,
    jvm_flags: tuple[str, ...] = QUICK_START,
    log_level: str = "warn",
) -> list[str]:
    """The full command line of a tool; `tool` is a name of TOOLS or a class name."""
    return [
        "java",
        f"-Xmx{heap_mb}m",
        *jvm_flags,
        f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}",
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-cp",
        f"{jars()}/*",
        tool if "." in tool else TOOLS[tool],
        *args,
    ]


def run_tool(
    tool: str,
    *args: str,
    stdin: str | bytes = b"",
    timeout_s: float = 100,
    heap_mb: int = 256,
    jvm_flags: tuple[str, ...] = QUICK_START,
) -> ToolResult:
    """Run a tool to its end and answer what it said; call .check() on it to require success."""
    command = java_command(tool, *args, heap_mb=heap_mb, jvm_flags=jvm_flags)
    done = subprocess.run(
        command,
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )
    return ToolResult(
        command=" ".join((tool, *args)),
        code=done.returncode,
        out=done.stdout.decode(errors="replace"),
        err=done.stderr.decode(errors="replace"),
    )
