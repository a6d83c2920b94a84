"""The settings a broker has, with Apache Kafka 4.x's names and defaults.

Two groups. ``SUPPORTED`` settings do what they say. ``ACCEPTED`` settings exist so that a file written
for Kafka can be used as it is: they are checked, shown, and change nothing here (yet), which is logged when
one is set. A name in neither group is refused. ``SECURITY_NAMES`` are accepted settings that an operator may
rely on for protection: setting one logs a warning, not a notice.
"""

from typing import Final

from millpond.base import limits
from millpond.metadata.amqp_configs import AMQP_CONFIGS
from millpond.metadata.config_def import INT_MAX, LONG_MAX, ConfigDef, ConfigType, Value
from millpond.metadata.topic_configs import COMPRESSION_CHOICES, HOUR_MS

_BOOLEAN, _STRING, _INT, _SHORT, _LONG = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.SHORT,
    ConfigType.LONG,
)
_DOUBLE, _LIST, _CLASS, _PASSWORD = (
    ConfigType.DOUBLE,
    ConfigType.LIST,
    ConfigType.CLASS,
    ConfigType.PASSWORD,
)


def _broker(
    name: str,
    kind: ConfigType,
    default: Value,
    doc: str,
    *,
    choices: tuple[str, ...] = (),
    minimum: float | None = None,
    maximum: float | None = None,
    dynamic: bool = False,
) -> ConfigDef:
    return ConfigDef(
        name=name,
        type=kind,
        default=default,
        doc=doc,
        choices=choices,
        minimum=minimum,
        maximum=maximum,
        dynamic=dynamic,
        sensitive=kind is _PASSWORD,
    )


SUPPORTED: Final[dict[str, ConfigDef]] = {
    row.name: row
    for row in (
        # --- who this node is and where it listens ---------------------------------------------
        _broker(
            "node.id", _INT, 1,
            "This node's number in its cluster.",
            minimum=0,
        ),
        _broker(
            "broker.id", _INT, None,
            "The older name of node.id; -1 means: choose one.",
            minimum=-1,
        ),
        _broker(
            "broker.rack", _STRING, None,
            "Where this node stands; clients and later replica placement are told.",
        ),
        _broker(
            "cluster.id", _STRING, None,
            "Millpond's own. The cluster's id; made up at the first start and kept in meta.properties.",
        ),
        _broker(
            "cluster.secret", _PASSWORD, None,
            "Millpond's own. The secret by which nodes of one cluster know each other, the same on every "
            "node; 16 to 1024 characters. A node that is alone makes one at its first start and keeps it in "
            "the file cluster.secret of its data directory.",
        ),
        _broker(
            "cluster.secret.file", _STRING, None,
            "Millpond's own. A file that holds the cluster's secret, instead of cluster.secret; only the "
            "node's user should be able to read it.",
        ),
        _broker(
            "listeners", _LIST, ("PLAINTEXT://127.0.0.1:9092",),
            "Where to listen: NAME://host:port, several with commas. No host means every interface, port 0 "
            "any free port. One named AMQP speaks AMQP 0-9-1, one named AMQPS does over TLS (ssl_options.*).",
        ),
        _broker(
            "advertised.listeners", _LIST, None,
            "What clients are told to connect to, when it differs from listeners.",
        ),
        _broker(
            "listener.security.protocol.map", _LIST,
            (
                "PLAINTEXT:PLAINTEXT", "SSL:SSL",
                "SASL_PLAINTEXT:SASL_PLAINTEXT", "SASL_SSL:SASL_SSL",
            ),
            "Which security protocol stands behind each listener's name. Only PLAINTEXT is served so far.",
        ),
        _broker(
            "controller.listener.names", _LIST, (),
            "Listeners of Kafka's controllers. A single node needs none, so these are not opened.",
        ),
        _broker(
            "process.roles", _LIST, ("broker", "controller"),
            "Kafka's roles. A node here is both broker and controller; with `broker` alone it has no vote.",
        ),
        _broker(
            "controller.quorum.voters", _LIST, (),
            "Who votes in the quorum at first, as id@host:port; the same on every node. A node without this "
            "setting is alone.",
        ),
        _broker(
            "controller.quorum.bootstrap.servers", _LIST, (),
            "Where a node with `process.roles=broker` and no list of voters finds the quorum, as host:port.",
        ),
        _broker(
            "controller.quorum.election.timeout.ms", _INT, 1_000,
            "How long a voter waits to be elected before it tries again; at most twice as long, by chance.",
            minimum=1,
        ),
        _broker(
            "controller.quorum.election.backoff.max.ms", _INT, 1_000,
            "The longest pause after an election without a winner.",
            minimum=1,
        ),
        _broker(
            "controller.quorum.fetch.timeout.ms", _INT, 2_000,
            "How long a voter hears nothing of the leader before it stands up; a leader that a majority has "
            "not fetched from for half as long again stops leading.",
            minimum=1,
        ),
        _broker(
            "controller.quorum.request.timeout.ms", _INT, 2_000,
            "How long an answer of another voter is waited for.",
            minimum=1,
        ),
        _broker(
            "controller.quorum.retry.backoff.ms", _INT, 20,
            "The pause before another voter is asked again.",
            minimum=1,
        ),
        _broker(
            "inter.broker.listener.name", _STRING, None,
            "The listener that brokers use among themselves; must be one of the listeners.",
        ),
        _broker(
            "log.dirs", _LIST, None,
            "The log directories, made if absent: one, or one for each disk. A new partition goes to the one "
            "that has the fewest.",
        ),
        _broker(
            "log.dir", _STRING, "millpond-data",
            "The log directory when log.dirs is not set.",
        ),
        _broker(
            "metadata.log.dir", _STRING, None,
            "The log directory that holds the metadata log, without which the node does not start: one of "
            "log.dirs (the first by default), or one for nothing else.",
        ),
        # --- connections and requests ----------------------------------------------------------
        _broker(
            "max.connections", _INT, INT_MAX,
            "Connections of clients open at once over all listeners; more are closed as they arrive. "
            "Connections of other nodes do not count.",
            minimum=0, dynamic=True,
        ),
        _broker(
            "max.connections.per.ip", _INT, INT_MAX,
            "Connections open at once from one address.",
            minimum=0, dynamic=True,
        ),
        _broker(
            "max.connections.per.ip.overrides", _STRING, "",
            "Addresses or host names with a limit of their own instead of max.connections.per.ip, as "
            "host:count, several with commas.",
            dynamic=True,
        ),
        _broker(
            "max.connection.creation.rate", _INT, INT_MAX,
            "New connections a second over all listeners and addresses; those beyond it are closed "
            "after a moment.",
            minimum=0, dynamic=True,
        ),
        _broker(
            "queued.max.request.bytes", _LONG, -1,
            "Bytes of requests, whole or not, that may wait for their answers at once, over all connections; "
            "beyond it only small ones are read. Not above 0 means an eighth of the memory of the machine or "
            "its container.",
        ),
        _broker(
            "quota.window.num", _INT, 11,
            "Samples over which the rates of quotas are taken.",
            minimum=1,
        ),
        _broker(
            "quota.window.size.seconds", _INT, 1,
            "How long one sample of a quota is.",
            minimum=1,
        ),
        _broker(
            "controller.quota.window.num", _INT, 11,
            "Samples over which changes of topics are counted against controller_mutation_rate.",
            minimum=1,
        ),
        _broker(
            "controller.quota.window.size.seconds", _INT, 1,
            "How long one such sample is.",
            minimum=1,
        ),
        _broker(
            "telemetry.max.bytes", _INT, 1_048_576,
            "Metrics that a client may push at once (KIP-714).",
            minimum=1,
        ),
        _broker(
            "connections.max.idle.ms", _LONG, 600_000,
            "Close a connection that has been silent this long; negative means never.",
        ),
        _broker(
            "socket.listen.backlog.size", _INT, 1024,
            "Connections the operating system queues before they are accepted (Kafka's default is 50, at "
            "which a thousand clients that connect at once wait for a second).",
            minimum=1,
        ),
        _broker(
            "socket.send.buffer.bytes", _INT, -1,
            "Kernel send buffer of each connection; -1 leaves it to the operating system, which adapts it "
            "(Kafka's default is 102400).",
            minimum=-1,
        ),
        _broker(
            "socket.receive.buffer.bytes", _INT, -1,
            "Kernel receive buffer of each connection; -1 leaves it to the operating system, which adapts it "
            "(Kafka's default is 102400).",
            minimum=-1,
        ),
        _broker(
            "socket.request.max.bytes", _INT, limits.REQUEST_BYTES_MAX,
            "The largest request; a bigger one closes its connection before memory is taken for it.",
            minimum=1,
        ),
        # --- replication -------------------------------------------------------------------------
        _broker(
            "offsets.topic.replication.factor", _SHORT, 3,
            "Replicas of the internal offsets topic; a cluster with fewer nodes has fewer.",
            minimum=1,
        ),
        _broker(
            "transaction.state.log.replication.factor", _SHORT, 3,
            "Replicas of the internal transactions topic; a cluster with fewer nodes has fewer.",
            minimum=1,
        ),
        _broker(
            "transaction.state.log.min.isr", _INT, 2,
            "min.insync.replicas of the internal transactions topic, if it has several replicas.",
            minimum=1,
        ),
        _broker(
            "share.coordinator.state.topic.replication.factor", _SHORT, 3,
            "Replicas of the internal topic of share groups; a cluster with fewer nodes has fewer.",
            minimum=1,
        ),
        _broker(
            "share.coordinator.state.topic.min.isr", _SHORT, 2,
            "min.insync.replicas of the internal topic of share groups, if it has several replicas.",
            minimum=1,
        ),
        _broker(
            "consumer_timeout", _LONG, 1_800_000,
            "How long an AMQP consumer may keep a message before its channel is closed; 0: for ever.",
            minimum=0,
        ),
        _broker(
            "replica.lag.time.max.ms", _LONG, 30_000,
            "How long a follower may not have caught up before it does not count as in sync any more.",
            minimum=1,
        ),
        _broker(
            "replica.fetch.max.bytes", _INT, 1_048_576,
            "Bytes of one partition in one fetch of a follower; a larger batch is sent all the same.",
            minimum=0,
        ),
        _broker(
            "replica.fetch.response.max.bytes", _INT, 10_485_760,
            "Bytes of all partitions in one fetch of a follower.",
            minimum=0,
        ),
        _broker(
            "replica.fetch.min.bytes", _INT, 1,
            "How much a follower waits for.",
        ),
        _broker(
            "replica.fetch.wait.max.ms", _INT, 500,
            "How long a follower's fetch waits for news.",
            minimum=1,
        ),
        _broker(
            "replica.fetch.backoff.ms", _INT, 1_000,
            "The longest pause before a follower asks again after a failure.",
            minimum=0,
        ),
        _broker(
            "replica.socket.timeout.ms", _INT, 30_000,
            "How long a follower waits for a leader that does not answer; at most a third of "
            "replica.lag.time.max.ms.",
            minimum=1,
        ),
        _broker(
            "replica.high.watermark.checkpoint.interval.ms", _LONG, 5_000,
            "How often high watermarks of partitions with several replicas are written down.",
            minimum=1,
        ),
        _broker(
            "replica.selector.class", _STRING, None,
            "org.apache.kafka.common.replica.RackAwareReplicaSelector sends consumers to the in-sync replica "
            "in their rack (KIP-392); without it everybody reads from the leader.",
        ),
        _broker(
            "leader.replication.throttled.rate", _LONG, LONG_MAX,
            "Bytes a second that this node sends to replicas that are not in sync, of those that topics name "
            "(leader.replication.throttled.replicas).",
            minimum=0, dynamic=True,
        ),
        _broker(
            "follower.replication.throttled.rate", _LONG, LONG_MAX,
            "Bytes a second that this node takes for replicas that are not in sync, of those that topics "
            "name (follower.replication.throttled.replicas).",
            minimum=0, dynamic=True,
        ),
        _broker(
            "fetch.max.bytes", _INT, 57_671_680,
            "The most data one fetch is answered with, whatever it asks for.",
            minimum=1024,
        ),
        _broker(
            "max.request.partition.size.limit", _INT, 2_000,
            "The most partitions that one answer describing topics lists.",
            minimum=1,
        ),
        _broker(
            "max.incremental.fetch.session.cache.slots", _INT, limits.FETCH_SESSIONS_MAX,
            "Incremental fetch sessions remembered at once.",
            minimum=0,
        ),
        # --- the cluster -----------------------------------------------------------------------
        _broker(
            "broker.heartbeat.interval.ms", _INT, 2_000,
            "How often a node tells the controller that it is alive.",
            minimum=1,
        ),
        _broker(
            "broker.session.timeout.ms", _INT, 9_000,
            "A node that the controller has not heard of for so long is fenced; others lead in its place.",
            minimum=1,
        ),
        _broker(
            "broker.silence.timeout.ms", _INT, 3_000,
            "A node that has had no answer of the controller for so long leads nothing until it has one, and "
            "the controller has others lead in its place if nothing else is heard of it either. The same on "
            "every node; at most broker.session.timeout.ms counts.",
            minimum=1,
        ),
        _broker(
            "controlled.shutdown.enable", _BOOLEAN, True,
            "Hand over what a node leads before it stops.",
        ),
        _broker(
            "auto.leader.rebalance.enable", _BOOLEAN, True,
            "Give partitions back to the first of their replicas when that is in sync again.",
        ),
        _broker(
            "leader.imbalance.check.interval.seconds", _LONG, 300,
            "How often partitions are given back.",
            minimum=1,
        ),
        _broker(
            "unclean.leader.election.enable", _BOOLEAN, False,
            "Let a replica that is behind lead when no other is left, at the price of lost records.",
            dynamic=True,
        ),
        _broker(
            "unclean.leader.election.interval.ms", _LONG, 300_000,
            "How often partitions without a leader are checked for an unclean election.",
            minimum=1,
        ),
        # --- topics ----------------------------------------------------------------------------
        _broker(
            "auto.create.topics.enable", _BOOLEAN, True,
            "Create a topic when a client first asks for it.",
        ),
        _broker(
            "delete.topic.enable", _BOOLEAN, True,
            "Allow topics to be deleted.",
        ),
        _broker(
            "num.partitions", _INT, 1,
            "Partitions of a topic that is created without a number.",
            minimum=1,
        ),
        _broker(
            "default.replication.factor", _INT, 1,
            "Replicas of a topic that is created without a number.",
            minimum=1,
        ),
        _broker(
            "min.insync.replicas", _INT, 1,
            "acks=all is refused when fewer replicas than this are in sync.",
            minimum=1, dynamic=True,
        ),
        _broker(
            "message.max.bytes", _INT, limits.MESSAGE_BYTES_MAX,
            "The largest record batch accepted, as sent (after compression).",
            minimum=0, dynamic=True,
        ),
        _broker(
            "compression.type", _STRING, "producer",
            "How batches are stored: as the producer sent them, uncompressed, or recompressed with a codec.",
            choices=COMPRESSION_CHOICES, dynamic=True,
        ),
        _broker(
            "compression.gzip.level", _INT, -1,
            "Level when compression.type is gzip; -1 is the codec's own default.",
            minimum=-1, maximum=9, dynamic=True,
        ),
        _broker(
            "compression.lz4.level", _INT, 9,
            "Level when compression.type is lz4.",
            minimum=1, maximum=17, dynamic=True,
        ),
        _broker(
            "compression.zstd.level", _INT, 3,
            "Level when compression.type is zstd.",
            minimum=-131072, maximum=22, dynamic=True,
        ),
        # --- the log ---------------------------------------------------------------------------
        _broker(
            "log.cleanup.policy", _LIST, ("delete",),
            "What happens to old data: delete, compact, or both.",
            choices=("delete", "compact"), dynamic=True,
        ),
        _broker(
            "log.segment.bytes", _INT, limits.SEGMENT_BYTES_MAX,
            "Start a new segment file when the current one would grow past this.",
            minimum=14, dynamic=True,
        ),
        _broker(
            "log.roll.ms", _LONG, None,
            "Start a new segment after this time; wins over log.roll.hours.",
            minimum=1, dynamic=True,
        ),
        _broker(
            "log.roll.hours", _INT, 168,
            "Start a new segment after this many hours.",
            minimum=1,
        ),
        _broker(
            "log.roll.jitter.ms", _LONG, None,
            "Spread the rolling of segments by up to this much; wins over log.roll.jitter.hours.",
            minimum=0, dynamic=True,
        ),
        _broker(
            "log.roll.jitter.hours", _INT, 0,
            "Spread the rolling of segments by up to this many hours.",
            minimum=0,
        ),
        _broker(
            "log.index.size.max.bytes", _INT, 10 * 1024 * 1024,
            "The largest index file; a full index starts a new segment.",
            minimum=4, dynamic=True,
        ),
        _broker(
            "log.index.interval.bytes", _INT, 4096,
            "One entry in the offset index for about this many bytes of log.",
            minimum=0, dynamic=True,
        ),
        _broker(
            "log.message.timestamp.type", _STRING, "CreateTime",
            "Whose time a record carries: its producer's, or the moment of the append.",
            choices=("CreateTime", "LogAppendTime"), dynamic=True,
        ),
        _broker(
            "log.message.timestamp.before.max.ms", _LONG, LONG_MAX,
            "How far behind the broker's clock a record's timestamp may be.",
            minimum=0, dynamic=True,
        ),
        _broker(
            "log.message.timestamp.after.max.ms", _LONG, HOUR_MS,
            "How far ahead of the broker's clock a record's timestamp may be.",
            minimum=0, dynamic=True,
        ),
        # --- retention -------------------------------------------------------------------------
        _broker(
            "log.retention.ms", _LONG, None,
            "Keep data this long; wins over the minutes and hours. -1 is no limit.",
            minimum=-1, dynamic=True,
        ),
        _broker(
            "log.retention.minutes", _INT, None,
            "Keep data this many minutes; wins over the hours. -1 is no limit.",
            minimum=-1,
        ),
        _broker(
            "log.retention.hours", _INT, 168,
            "Keep data this many hours. -1 is no limit.",
            minimum=-1,
        ),
        _broker(
            "log.retention.bytes", _LONG, -1,
            "Keep at most this many bytes of each partition; -1 is no limit.",
            minimum=-1, dynamic=True,
        ),
        _broker(
            "log.retention.check.interval.ms", _LONG, 300_000,
            "How often the broker looks for data past its retention.",
            minimum=1,
        ),
        _broker(
            "log.segment.delete.delay.ms", _LONG, 60_000,
            "How long a removed segment's files stay on disk for readers that still hold them.",
            minimum=0, dynamic=True,
        ),
        # --- compaction ------------------------------------------------------------------------
        _broker(
            "log.cleaner.enable", _BOOLEAN, True,
            "Run compaction at all.",
        ),
        _broker(
            "log.cleaner.backoff.ms", _LONG, 15_000,
            "How often the broker looks for something to compact.",
            minimum=0, dynamic=True,
        ),
        _broker(
            "log.cleaner.min.cleanable.ratio", _DOUBLE, 0.5,
            "Compact when at least this share of a log has not been compacted yet.",
            minimum=0, maximum=1, dynamic=True,
        ),
        _broker(
            "log.cleaner.min.compaction.lag.ms", _LONG, 0,
            "The shortest time a record stays uncompacted.",
            minimum=0, dynamic=True,
        ),
        _broker(
            "log.cleaner.max.compaction.lag.ms", _LONG, LONG_MAX,
            "The longest a record may wait before it becomes a candidate for compaction.",
            minimum=1, dynamic=True,
        ),
        _broker(
            "log.cleaner.delete.retention.ms", _LONG, 24 * HOUR_MS,
            "How long a compacted topic keeps tombstones.",
            minimum=0, dynamic=True,
        ),
        # --- flushing --------------------------------------------------------------------------
        _broker(
            "log.flush.policy", _STRING, "os",
            "Millpond's own. os: acknowledge when the operating system has the data; group: acknowledge only "
            "after an fsync, which many requests share.",
            choices=("os", "group"), dynamic=True,
        ),
        _broker(
            "metadata.log.missing", _STRING, "fail",
            "Millpond's own. What a node that is alone does at its start if its directory holds partitions "
            "and __cluster_metadata-0 is missing or empty. fail: it does not start; adopt: it begins anew, "
            "with these topics, without their settings, users, rights, and AMQP's queues and exchanges.",
            choices=("fail", "adopt"),
        ),
        _broker(
            "log.unreadable.records", _STRING, "fail",
            "Millpond's own. What a reader gets at records that the disk has lost or damaged and no other "
            "replica has. fail: the error CORRUPT_MESSAGE, until the reader seeks behind them; skip: the "
            "records behind them.",
            choices=("fail", "skip"), dynamic=True,
        ),
        _broker(
            "log.flush.interval.messages", _LONG, LONG_MAX,
            "Force a log to disk after this many messages.",
            minimum=1, dynamic=True,
        ),
        _broker(
            "log.flush.interval.ms", _LONG, None,
            "Force a log to disk when data has waited this long; log.flush.scheduler.interval.ms if not set.",
            minimum=0, dynamic=True,
        ),
        _broker(
            "log.flush.scheduler.interval.ms", _LONG, LONG_MAX,
            "How often the broker looks for logs that are due to be forced to disk.",
            minimum=1,
        ),
        _broker(
            "log.flush.offset.checkpoint.interval.ms", _INT, 60_000,
            "How often recovery points are written down; what is beyond them is checked after a crash.",
            minimum=0,
        ),
        # --- producers -------------------------------------------------------------------------
        _broker(
            "producer.id.expiration.ms", _INT, 86_400_000,
            "Forget an idempotent producer that has been silent this long.",
            minimum=1, dynamic=True,
        ),
        # --- groups ----------------------------------------------------------------------------
        _broker(
            "group.min.session.timeout.ms", _INT, 6_000,
            "The shortest session timeout a group member may ask for.",
            minimum=1,
        ),
        _broker(
            "group.max.session.timeout.ms", _INT, 1_800_000,
            "The longest session timeout a group member may ask for.",
            minimum=1,
        ),
        _broker(
            "group.initial.rebalance.delay.ms", _INT, 3_000,
            "How long a new group waits for more members before its first assignment.",
            minimum=0,
        ),
        _broker(
            "group.max.size", _INT, INT_MAX,
            "The most members one group may have.",
            minimum=1,
        ),
        _broker(
            "offset.metadata.max.bytes", _INT, 4096,
            "The longest note a client may store with a committed offset.",
            minimum=0,
        ),
        _broker(
            "offsets.retention.minutes", _INT, 10_080,
            "How long the offsets of an empty group are kept.",
            minimum=1,
        ),
        _broker(
            "offsets.retention.check.interval.ms", _LONG, 600_000,
            "How often the broker looks for offsets past their retention.",
            minimum=1,
        ),
        _broker(
            "transaction.max.timeout.ms", _INT, 900_000,
            "The longest time a producer may let its transactions stay open.",
            minimum=1,
        ),
        _broker(
            "transactional.id.expiration.ms", _INT, 604_800_000,
            "How long an unused transactional id is remembered.",
            minimum=1,
        ),
        _broker(
            "transaction.abort.timed.out.transaction.cleanup.interval.ms", _INT, 10_000,
            "How often transactions that are open for too long are looked for and aborted.",
            minimum=1,
        ),
        _broker(
            "transaction.remove.expired.transaction.cleanup.interval.ms", _INT, 3_600_000,
            "How often unused transactional ids are deleted.",
            minimum=1,
        ),
        _broker(
            "transaction.state.log.num.partitions", _INT, 50,
            "Partitions of the internal topic that holds the state of transactions; fixed once it exists.",
            minimum=1,
        ),
        _broker(
            "transaction.state.log.segment.bytes", _INT, 104_857_600,
            "Segment size of the internal topic that holds the state of transactions.",
            minimum=1,
        ),
        _broker(
            "offsets.topic.num.partitions", _INT, 50,
            "Partitions of the internal topic that holds committed offsets; fixed once it exists.",
            minimum=1,
        ),
        _broker(
            "offsets.topic.segment.bytes", _INT, 104_857_600,
            "Segment size of the internal topic that holds committed offsets.",
            minimum=14,
        ),
        # --- consumer groups -------------------------------------------------------------------
        _broker(
            "group.consumer.session.timeout.ms", _INT, 45_000,
            "When a silent member of a consumer group is gone.",
            minimum=1,
        ),
        _broker(
            "group.consumer.min.session.timeout.ms", _INT, 45_000,
            "The least that consumer.session.timeout.ms of a group may be.",
            minimum=1,
        ),
        _broker(
            "group.consumer.max.session.timeout.ms", _INT, 60_000,
            "The most that consumer.session.timeout.ms of a group may be.",
            minimum=1,
        ),
        _broker(
            "group.consumer.heartbeat.interval.ms", _INT, 5_000,
            "How often members of consumer groups are told to speak up.",
            minimum=1,
        ),
        _broker(
            "group.consumer.min.heartbeat.interval.ms", _INT, 5_000,
            "The least that consumer.heartbeat.interval.ms of a group may be.",
            minimum=1,
        ),
        _broker(
            "group.consumer.max.heartbeat.interval.ms", _INT, 15_000,
            "The most that consumer.heartbeat.interval.ms of a group may be.",
            minimum=1,
        ),
        _broker(
            "group.consumer.assignment.interval.ms", _INT, 1_000,
            "How often the targets of a consumer group are made anew at most.",
            minimum=0, dynamic=True,
        ),
        _broker(
            "group.consumer.min.assignment.interval.ms", _INT, 0,
            "The least that consumer.assignment.interval.ms of a group may be.",
            minimum=0,
        ),
        _broker(
            "group.consumer.max.assignment.interval.ms", _INT, 15_000,
            "The most that consumer.assignment.interval.ms of a group may be.",
            minimum=0,
        ),
        _broker(
            "group.consumer.max.size", _INT, INT_MAX,
            "Members that one consumer group may have.",
            minimum=1,
        ),
        _broker(
            "group.consumer.assignors", _LIST, ("uniform", "range"),
            "Assignors that members of consumer groups may ask for; the first is used if they do not.",
            choices=("uniform", "range"),
        ),
        _broker(
            "group.consumer.migration.policy", _STRING, "bidirectional",
            "Whether groups with members go over to the consumer protocol (upgrade), back (downgrade), "
            "both (bidirectional) or neither (disabled).",
            choices=("bidirectional", "upgrade", "downgrade", "disabled"),
        ),
        _broker(
            "group.consumer.regex.refresh.interval.ms", _INT, 600_000,
            "How often the topics that patterns stand for are looked up when no topic was made.",
            minimum=10_000,
        ),
        # --- streams groups --------------------------------------------------------------------
        _broker(
            "group.streams.session.timeout.ms", _INT, 45_000,
            "When a silent member of a streams group is gone.",
            minimum=1,
        ),
        _broker(
            "group.streams.min.session.timeout.ms", _INT, 45_000,
            "The least that streams.session.timeout.ms of a group may be.",
            minimum=1,
        ),
        _broker(
            "group.streams.max.session.timeout.ms", _INT, 60_000,
            "The most that streams.session.timeout.ms of a group may be.",
            minimum=1,
        ),
        _broker(
            "group.streams.heartbeat.interval.ms", _INT, 5_000,
            "How often members of streams groups are told to speak up.",
            minimum=1,
        ),
        _broker(
            "group.streams.min.heartbeat.interval.ms", _INT, 5_000,
            "The least that streams.heartbeat.interval.ms of a group may be.",
            minimum=1,
        ),
        _broker(
            "group.streams.max.heartbeat.interval.ms", _INT, 15_000,
            "The most that streams.heartbeat.interval.ms of a group may be.",
            minimum=1,
        ),
        _broker(
            "group.streams.max.size", _INT, INT_MAX,
            "Members that one streams group may have.",
            minimum=1,
        ),
        _broker(
            "group.streams.num.standby.replicas", _INT, 0,
            "How many processes besides follow the state of each task of a streams group.",
            minimum=0,
        ),
        _broker(
            "group.streams.max.standby.replicas", _INT, 2,
            "The most that streams.num.standby.replicas of a group may be.",
            minimum=0,
        ),
        _broker(
            "group.streams.initial.rebalance.delay.ms", _INT, 3_000,
            "How long a new streams group waits for more members before tasks are dealt out.",
            minimum=0,
        ),
        _broker(
            "group.streams.assignment.interval.ms", _INT, 1_000,
            "How often the targets of a streams group are made anew at most.",
            minimum=0, dynamic=True,
        ),
        _broker(
            "group.streams.min.assignment.interval.ms", _INT, 0,
            "The least that streams.assignment.interval.ms of a group may be.",
            minimum=0,
        ),
        _broker(
            "group.streams.max.assignment.interval.ms", _INT, 15_000,
            "The most that streams.assignment.interval.ms of a group may be.",
            minimum=0,
        ),
        # --- share groups ----------------------------------------------------------------------
        _broker(
            "group.share.heartbeat.interval.ms", _INT, 5_000,
            "How often members of share groups are told to speak up.",
            minimum=1,
        ),
        _broker(
            "group.share.session.timeout.ms", _INT, 45_000,
            "When a silent member of a share group is gone.",
            minimum=1,
        ),
        _broker(
            "group.share.max.size", _INT, 200,
            "Members that one share group may have.",
            minimum=1,
        ),
        _broker(
            "group.share.max.share.sessions", _INT, 2_000,
            "Share sessions that this node keeps open.",
            minimum=1,
        ),
        _broker(
            "group.share.record.lock.duration.ms", _INT, 30_000,
            "How long a member of a share group may keep a record without a word.",
            minimum=1,
        ),
        _broker(
            "group.share.delivery.count.limit", _INT, 5,
            "How often a share group is given a record before it is given up.",
            minimum=2,
        ),
        _broker(
            "group.share.partition.max.record.locks", _INT, 2_000,
            "How many records of a partition a share group may hold at once.",
            minimum=1,
        ),
        _broker(
            "errors.deadletterqueue.topic.name.prefix", _STRING, "dlq.",
            "How the name of a topic for dead letters must begin.",
        ),
        _broker(
            "share.coordinator.state.topic.num.partitions", _INT, 50,
            "Partitions of the internal topic that holds share groups' state; fixed once it exists.",
            minimum=1,
        ),
        _broker(
            "share.coordinator.state.topic.segment.bytes", _INT, 104_857_600,
            "Segment size of the internal topic that holds share groups' state.",
            minimum=14,
        ),
        _broker(
            "share.coordinator.state.topic.prune.interval.ms", _INT, 300_000,
            "How often what snapshots made unnecessary is cut from share groups' state.",
            minimum=1,
        ),
        _broker(
            "share.coordinator.snapshot.update.records.per.snapshot", _INT, 500,
            "Updates of a share group's partition before its whole state is written again.",
            minimum=0,
        ),
    )
} | AMQP_CONFIGS  # fmt: skip


# Settings that Kafka lets be altered while it runs (its DynamicBrokerConfig) and that have no effect here:
# tools that alter them must not fail. Those of security are left out, though Kafka has them in its list: no
# administrator shall take for protected what is not.
_LIVE_IN_KAFKA: Final = frozenset(
    (
        *("background.threads", "num.io.threads", "num.network.threads", "num.replica.fetchers"),
        *("num.recovery.threads.per.data.dir", "metric.reporters", "log.cleaner.threads"),
        *("log.cleaner.dedupe.buffer.size", "log.cleaner.io.buffer.load.factor"),
        *("log.cleaner.io.buffer.size", "log.cleaner.io.max.bytes.per.second"),
        *("transaction.partition.verification.enable", "follower.fetch.last.tiered.offset.enable"),
        *("replica.alter.log.dirs.io.max.bytes.per.second", "log.preallocate"),
        *("group.coordinator.cached.buffer.max.bytes",),
        *("log.local.retention.bytes", "log.local.retention.ms", "remote.fetch.max.wait.ms"),
        *("remote.list.offsets.request.timeout.ms", "remote.log.reader.threads"),
        *("remote.log.index.file.cache.total.size.bytes",),
        *("remote.log.manager.copier.thread.pool.size",),
        *("remote.log.manager.copy.max.bytes.per.second",),
        *("remote.log.manager.expiration.thread.pool.size",),
        *("remote.log.manager.fetch.max.bytes.per.second",),
        *("remote.log.manager.follower.thread.pool.size",),
    )
)


def _accepted(*rows: tuple[str, ConfigType, Value, str]) -> dict[str, ConfigDef]:
    return {
        name: ConfigDef(
            name=name,
            type=kind,
            default=default,
            doc=doc,
            dynamic=name in _LIVE_IN_KAFKA,
            sensitive=kind is _PASSWORD,
            effective=False,
        )
        for name, kind, default, doc in rows
    }


ACCEPTED: Final[dict[str, ConfigDef]] = {
    # What tools set, or remove, for as long as replicas are on their way.
    **_accepted(
        ("replica.alter.log.dirs.io.max.bytes.per.second", _LONG, LONG_MAX, "Moves between disks."),
    ),
    **_accepted(
        # --- Kafka's threads: one event loop does their work here ------------------------------
        ("num.network.threads", _INT, 3, "Kafka's network threads; one event loop here."),
        ("num.io.threads", _INT, 8, "Kafka's request threads; one event loop here."),
        ("background.threads", _INT, 10, "Kafka's housekeeping threads."),
        ("num.recovery.threads.per.data.dir", _INT, 2, "Kafka's recovery threads."),
        ("num.replica.fetchers", _INT, 1, "Replication threads per peer."),
        ("num.replica.alter.log.dirs.threads", _INT, None, "Threads that move replicas between disks."),
        ("queued.max.requests", _INT, 500, "Queue between Kafka's thread pools."),
        ("log.cleaner.threads", _INT, 1, "Compaction threads; one worker here."),
        ("log.cleaner.dedupe.buffer.size", _LONG, 134_217_728, "Memory of Kafka's compaction map."),
        ("log.cleaner.io.buffer.size", _INT, 524_288, "I/O memory of Kafka's compaction."),
        ("log.cleaner.io.buffer.load.factor", _DOUBLE, 0.9, "Fill of Kafka's compaction map."),
        ("log.cleaner.io.max.bytes.per.second", _DOUBLE, 1.7976931348623157e308, "Throttle of compaction."),
        ("log.dir.failure.timeout.ms", _LONG, 30_000, "How long a failed disk may go unreported."),
        ("log.initial.task.delay.ms", _LONG, 30_000, "Delay of Kafka's first housekeeping."),
        ("log.preallocate", _BOOLEAN, False, "Reserve a segment's disk space when it is created."),
        ("log.flush.start.offset.checkpoint.interval.ms", _INT, 60_000,
         "Start offsets are written with the recovery points here."),
        ("log.message.downconversion.enable", _BOOLEAN, True, "Old message formats; never served here."),
        ("log.message.format.version", _STRING, None, "Old message formats; always version 2 here."),
        ("log.message.timestamp.difference.max.ms", _LONG, LONG_MAX,
         "Replaced by log.message.timestamp.before.max.ms and after.max.ms."),
        # --- roles and quorum: a single node decides alone -------------------------------------
        ("controller.quorum.auto.join.enable", _BOOLEAN, False, "Join the quorum by itself."),
        ("controller.quorum.append.linger.ms", _INT, 25, "Quorum timing."),
        ("controller.socket.timeout.ms", _INT, 30_000, "Timing between broker and controller."),
        ("controller.performance.sample.period.ms", _LONG, 60_000, "Sampling of controller metrics."),
        ("controller.performance.always.log.threshold.ms", _LONG, 2_000, "Logging of slow events."),
        ("initial.broker.registration.timeout.ms", _INT, 60_000, "Timing between broker and controller."),
        ("broker.id.generation.enable", _BOOLEAN, True, "Let ZooKeeper choose the broker's id."),
        ("reserved.broker.max.id", _INT, 1_000, "The first id that ZooKeeper would choose."),
        ("metadata.log.segment.bytes", _INT, 1_073_741_824, "Segments of the metadata log."),
        ("metadata.log.segment.ms", _LONG, 604_800_000, "Segments of the metadata log."),
        ("metadata.log.max.record.bytes.between.snapshots", _LONG, 20_971_520, "Metadata snapshots."),
        ("metadata.log.max.snapshot.interval.ms", _LONG, 3_600_000, "Metadata snapshots."),
        ("metadata.max.retention.bytes", _LONG, 104_857_600, "Metadata snapshots."),
        ("metadata.max.retention.ms", _LONG, 604_800_000, "Metadata snapshots."),
        ("metadata.max.idle.interval.ms", _INT, 500, "Idle records of the metadata log."),
        ("server.max.startup.time.ms", _LONG, LONG_MAX, "The longest a start may take."),
        # --- replication: one node has no followers --------------------------------------------
        ("replica.socket.receive.buffer.bytes", _INT, 65_536, "Replication connections."),
        ("fetch.purgatory.purge.interval.requests", _INT, 1_000, "Housekeeping of Kafka's waiting requests."),
        ("producer.purgatory.purge.interval.requests", _INT, 1_000,
         "Housekeeping of Kafka's waiting requests."),
        ("delete.records.purgatory.purge.interval.requests", _INT, 1,
         "Housekeeping of Kafka's waiting requests."),
        ("leader.imbalance.per.broker.percentage", _INT, 10, "Leadership balance."),
        ("controlled.shutdown.max.retries", _INT, 3, "Move leaders away before a stop."),
        ("controlled.shutdown.retry.backoff.ms", _LONG, 5_000, "Move leaders away before a stop."),
        ("follower.fetch.last.tiered.offset.enable", _BOOLEAN, False, "Followers and tiered storage."),
        ("inter.broker.protocol.version", _STRING, None, "Rolling upgrades of Kafka."),
        ("security.inter.broker.protocol", _STRING, "PLAINTEXT", "Security between brokers."),
        ("early.start.listeners", _LIST, None, "Listeners opened before the rest."),
        # --- connections -----------------------------------------------------------------------
        ("connection.failed.authentication.delay.ms", _INT, 100, "Delay after a failed login."),
        ("connections.max.reauth.ms", _LONG, 0, "When a login must be repeated."),
        ("socket.connection.setup.timeout.ms", _LONG, 10_000, "Outgoing connections."),
        ("socket.connection.setup.timeout.max.ms", _LONG, 30_000, "Outgoing connections."),
        ("request.timeout.ms", _INT, 30_000, "Outgoing requests."),
        # --- groups, transactions: settings whose part is not built yet ----------------
        ("offsets.commit.timeout.ms", _INT, 5_000, "How long a commit waits for replicas."),
        ("offsets.load.buffer.size", _INT, 5_242_880, "Read size when offsets are loaded."),
        ("offsets.topic.compression.codec", _INT, 0, "Compression of the internal offsets topic."),
        ("group.coordinator.threads", _INT, 4, "Threads of Kafka's group coordinator."),
        ("group.coordinator.append.linger.ms", _INT, -1, "Batching of Kafka's group coordinator."),
        ("group.coordinator.background.threads", _INT, 2, "Threads of Kafka's group coordinator."),
        ("group.coordinator.cached.buffer.max.bytes", _INT, 1_048_588, "Buffers of Kafka's coordinator."),
        ("group.coordinator.new.enable", _BOOLEAN, True, "Kafka's choice of coordinator."),
        ("group.coordinator.rebalance.protocols", _LIST, ("classic", "consumer", "streams"),
         "Kinds of groups served."),
        ("transaction.partition.verification.enable", _BOOLEAN, True, "Transactions."),
        ("transaction.two.phase.commit.enable", _BOOLEAN, False, "Transactions."),
        ("transaction.state.log.load.buffer.size", _INT, 5_242_880, "The internal transactions topic."),
        ("producer.id.expiration.check.interval.ms", _INT, 600_000, "How often producers are expired."),
        ("share.coordinator.append.linger.ms", _INT, 5, "Share groups."),
        ("share.coordinator.load.buffer.size", _INT, 5_242_880, "Share groups."),
        ("share.coordinator.state.topic.compression.codec", _INT, 0, "Share groups."),
        ("share.coordinator.threads", _INT, 1, "Share groups."),
        ("share.coordinator.write.timeout.ms", _INT, 5_000, "Share groups."),
        ("group.share.enable", _BOOLEAN, False, "Share groups."),
        ("group.share.max.record.lock.duration.ms", _INT, 60_000, "Share groups."),
        ("group.share.min.record.lock.duration.ms", _INT, 15_000, "Share groups."),
        # --- quotas, metrics, plug-ins ---------------------------------------------------------
        ("quota.consumer.default", _LONG, None, "Quota per consumer."),
        ("quota.producer.default", _LONG, None, "Quota per producer."),
        ("replication.quota.window.num", _INT, 11, "Samples of replication quotas."),
        ("replication.quota.window.size.seconds", _INT, 1, "Samples of replication quotas."),
        ("alter.log.dirs.replication.quota.window.num", _INT, 11, "Samples of replication quotas."),
        ("alter.log.dirs.replication.quota.window.size.seconds", _INT, 1, "Samples of replication quotas."),
        ("client.quota.callback.class", _CLASS, None, "A Java class for quotas."),
        ("client.quota.max.throttle.time.in.response.ms", _INT, 60_000, "The longest throttle told."),
        ("metric.reporters", _LIST, (), "Java classes that report metrics."),
        ("metrics.num.samples", _INT, 2, "Samples of metrics."),
        ("metrics.recording.level", _STRING, "INFO", "Detail of metrics."),
        ("metrics.sample.window.ms", _LONG, 30_000, "Samples of metrics."),
        ("auto.include.jmx.reporter", _BOOLEAN, True, "Metrics by JMX."),
        ("kafka.metrics.reporters", _LIST, (), "Java classes that report metrics."),
        ("kafka.metrics.polling.interval.secs", _INT, 10, "Sampling of metrics."),
        ("create.topic.policy.class.name", _CLASS, None, "A Java class that judges new topics."),
        ("alter.config.policy.class.name", _CLASS, None, "A Java class that judges settings."),
        ("config.providers", _LIST, (), "Java classes that look up settings."),
        ("remote.log.storage.system.enable", _BOOLEAN, False, "Tiered storage."),
        ("remote.log.storage.manager.class.name", _STRING, None, "Tiered storage."),
        ("remote.log.storage.manager.class.path", _STRING, None, "Tiered storage."),
        ("remote.log.storage.manager.impl.prefix", _STRING, "rsm.config.", "Tiered storage."),
        (
            "remote.log.metadata.manager.class.name", _STRING,
            "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
            "Tiered storage.",
        ),
        ("remote.log.metadata.manager.class.path", _STRING, None, "Tiered storage."),
        ("remote.log.metadata.manager.impl.prefix", _STRING, "rlmm.config.", "Tiered storage."),
        ("remote.log.metadata.manager.listener.name", _STRING, None, "Tiered storage."),
        ("remote.log.metadata.custom.metadata.max.bytes", _INT, 128, "Tiered storage."),
        ("remote.log.index.file.cache.total.size.bytes", _LONG, 1_073_741_824, "Tiered storage."),
        ("remote.log.manager.thread.pool.size", _INT, 2, "Tiered storage."),
        ("remote.log.manager.copier.thread.pool.size", _INT, 10, "Tiered storage."),
        ("remote.log.manager.expiration.thread.pool.size", _INT, 10, "Tiered storage."),
        ("remote.log.manager.follower.thread.pool.size", _INT, 2, "Tiered storage."),
        ("remote.log.manager.task.interval.ms", _LONG, 30_000, "Tiered storage."),
        ("remote.log.manager.copy.max.bytes.per.second", _LONG, LONG_MAX, "Tiered storage."),
        ("remote.log.manager.copy.quota.window.num", _INT, 11, "Tiered storage."),
        ("remote.log.manager.copy.quota.window.size.seconds", _INT, 1, "Tiered storage."),
        ("remote.log.manager.fetch.max.bytes.per.second", _LONG, LONG_MAX, "Tiered storage."),
        ("remote.log.manager.fetch.quota.window.num", _INT, 11, "Tiered storage."),
        ("remote.log.manager.fetch.quota.window.size.seconds", _INT, 1, "Tiered storage."),
        ("remote.log.reader.threads", _INT, 10, "Tiered storage."),
        ("remote.log.reader.max.pending.tasks", _INT, 100, "Tiered storage."),
        ("remote.fetch.max.wait.ms", _INT, 500, "Tiered storage."),
        ("remote.list.offsets.request.timeout.ms", _LONG, 30_000, "Tiered storage."),
        ("log.local.retention.bytes", _LONG, -2, "Tiered storage."),
        ("log.local.retention.ms", _LONG, -2, "Tiered storage."),
        # --- ZooKeeper mode of older Kafkas: there is no second system here --------------------
        ("zookeeper.connect", _STRING, None, "ZooKeeper's address; not needed here."),
        ("zookeeper.connection.timeout.ms", _INT, None, "ZooKeeper timing."),
        ("zookeeper.session.timeout.ms", _INT, 18_000, "ZooKeeper timing."),
        ("zookeeper.sync.time.ms", _INT, 2_000, "ZooKeeper timing."),
        ("zookeeper.max.in.flight.requests", _INT, 10, "ZooKeeper requests."),
        ("zookeeper.metadata.migration.enable", _BOOLEAN, False, "Migration away from ZooKeeper."),
        ("port", _INT, None, "Replaced by listeners in Kafka 0.9; use listeners."),
        ("host.name", _STRING, None, "Replaced by listeners in Kafka 0.9; use listeners."),
        ("advertised.host.name", _STRING, None, "Replaced by advertised.listeners in Kafka 0.9."),
        ("advertised.port", _INT, None, "Replaced by advertised.listeners in Kafka 0.9."),
    ),
    **_accepted(
        ("authorizer.class.name", _STRING, "", "A Java class that checks permissions."),
        ("super.users", _STRING, None, "Users above all permissions."),
        ("allow.everyone.if.no.acl.found", _BOOLEAN, None, "Whether resources without rules are open."),
        ("zookeeper.set.acl", _BOOLEAN, False, "Permissions inside ZooKeeper."),
        ("principal.builder.class", _CLASS, None, "A Java class that names users."),
        ("password.encoder.secret", _PASSWORD, None, "Encryption of stored secrets."),
        ("password.encoder.old.secret", _PASSWORD, None, "Encryption of stored secrets."),
        ("security.providers", _STRING, None, "Java security providers."),
        ("delegation.token.secret.key", _PASSWORD, None, "Delegation tokens."),
        ("delegation.token.master.key", _PASSWORD, None, "Delegation tokens."),
        ("delegation.token.max.lifetime.ms", _LONG, 604_800_000, "Delegation tokens."),
        ("delegation.token.expiry.time.ms", _LONG, 86_400_000, "Delegation tokens."),
        ("delegation.token.expiry.check.interval.ms", _LONG, 3_600_000, "Delegation tokens."),
        ("sasl.enabled.mechanisms", _LIST, ("GSSAPI",), "Ways to log in."),
        ("sasl.mechanism.inter.broker.protocol", _STRING, "GSSAPI", "How brokers log in to each other."),
        ("sasl.mechanism.controller.protocol", _STRING, "GSSAPI", "How brokers log in to controllers."),
        ("sasl.jaas.config", _PASSWORD, None, "Logins as Java writes them."),
        ("sasl.server.max.receive.size", _INT, 524_288, "The largest login message."),
        ("sasl.kerberos.service.name", _STRING, None, "Kerberos."),
        ("sasl.kerberos.principal.to.local.rules", _LIST, ("DEFAULT",), "Kerberos."),
        ("sasl.login.class", _CLASS, None, "A Java class for logins."),
        ("sasl.login.callback.handler.class", _CLASS, None, "A Java class for logins."),
        ("sasl.server.callback.handler.class", _CLASS, None, "A Java class for logins."),
        ("sasl.client.callback.handler.class", _CLASS, None, "A Java class for logins."),
        ("ssl.client.auth", _STRING, "none", "Whether TLS clients must show a certificate."),
        ("ssl.keystore.location", _STRING, None, "TLS key."),
        ("ssl.keystore.type", _STRING, "JKS", "TLS key."),
        ("ssl.keystore.password", _PASSWORD, None, "TLS key."),
        ("ssl.keystore.key", _PASSWORD, None, "TLS key."),
        ("ssl.keystore.certificate.chain", _PASSWORD, None, "TLS certificate."),
        ("ssl.key.password", _PASSWORD, None, "TLS key."),
        ("ssl.truststore.location", _STRING, None, "TLS trust."),
        ("ssl.truststore.type", _STRING, "JKS", "TLS trust."),
        ("ssl.truststore.password", _PASSWORD, None, "TLS trust."),
        ("ssl.truststore.certificates", _PASSWORD, None, "TLS trust."),
        ("ssl.protocol", _STRING, "TLSv1.3", "TLS version."),
        ("ssl.enabled.protocols", _LIST, ("TLSv1.2", "TLSv1.3"), "TLS versions."),
        ("ssl.cipher.suites", _LIST, (), "TLS ciphers."),
        ("ssl.provider", _STRING, None, "A Java TLS provider."),
        ("ssl.endpoint.identification.algorithm", _STRING, "https", "TLS host name check."),
        ("ssl.secure.random.implementation", _STRING, None, "Java's randomness."),
        ("ssl.principal.mapping.rules", _STRING, "DEFAULT", "Names from certificates."),
        ("ssl.allow.dn.changes", _BOOLEAN, False, "Certificates that change their name."),
        ("ssl.allow.san.changes", _BOOLEAN, False, "Certificates that change their name."),
        ("ssl.engine.factory.class", _CLASS, None, "A Java class for TLS."),
        ("ssl.keymanager.algorithm", _STRING, "SunX509", "Java's TLS."),
        ("ssl.trustmanager.algorithm", _STRING, "PKIX", "Java's TLS."),
    ),
}  # fmt: skip

_SECURITY_PREFIXES = (
    "authorizer.",
    "super.",
    "allow.",
    "sasl.",
    "ssl.",
    "delegation.",
    "password.",
    "principal.",
)
SECURITY_NAMES: Final = frozenset(name for name in ACCEPTED if name.startswith(_SECURITY_PREFIXES))

# Settings of one listener (listener.name.<listener>.<setting>), of Java plug-ins and of tiered storage have
# names that no table can hold.
ACCEPTED_PREFIXES: Final = (
    "listener.name.",
    "config.providers.",
    "rsm.config.",
    "rlmm.config.",
    "remote.log.",
    "zookeeper.ssl.",
    "sasl.oauthbearer.",
    "sasl.login.",
    "sasl.kerberos.",
    "confluent.",
    "kafka.metrics.",
)

BROKER_CONFIGS: Final[dict[str, ConfigDef]] = {**SUPPORTED, **ACCEPTED}

assert not SUPPORTED.keys() & ACCEPTED.keys()
