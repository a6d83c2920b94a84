"""Every maximum, with its reason. What is configurable has its default here.

Kafka's own defaults are kept where users know them.
"""

# A frame announces its size before its bytes. Kafka's socket.request.max.bytes.
REQUEST_BYTES_MAX = 100 * 1024 * 1024

# Requests that carry no records. Decoding makes objects of some sixty times the size of the smallest
# fields; the largest of these that anyone needs (thousands of topics, a big group's assignment) is near 1 MB.
CONTROL_REQUEST_BYTES_MAX = 8 * 1024 * 1024

# Topics and partitions that one produce request may name. Its frame may be large, but of records; more than
# a node may ever lead is a frame of empty names, whose objects would take sixty times its size.
REQUEST_PARTITIONS_MAX = 100_000

# What a client takes from a broker: a fetch of its default 50 MiB, and one batch that is larger.
RESPONSE_BYTES_MAX = 256 * 1024 * 1024

# A batch must fit; Kafka's message.max.bytes: one MiB and the batch header's share.
MESSAGE_BYTES_MAX = 1024 * 1024 + 12

# One connection may have this many requests waiting for their answers before we stop reading from it.
# librdkafka allows itself 1,000,000 and Java 5; a broker that holds more than this holds memory hostage.
IN_FLIGHT_REQUESTS_MAX = 256

# The same in bytes of requests: a waiting request keeps its frame, and what was decoded from it. One request
# may be larger; then it waits alone.
IN_FLIGHT_BYTES_MAX = 8 * 1024 * 1024

# Requests without an answer on all connections together: one of so many parts of the machine's memory, or the
# container's, unless queued.max.request.bytes says how much. The rest is for the log, its caches and answers.
REQUEST_MEMORY_PART = 8
# Where that bound is reached, a connection still reads this much at a time and may hold this much: requests
# of ordinary size, so that clients that do nothing large notice nothing.
REQUEST_READ_BYTES = 16 * 1024
REQUEST_LITTLE_BYTES = 64 * 1024
# What is gathered in pieces asks for memory in steps like this.
REQUEST_STEP_BYTES = 512 * 1024
# The last quarter is for connections that hold no more than this, twice a batch of the default size: clients
# that send something huge wait for each other, and not these for them.
REQUEST_MEDIUM_BYTES = 2 * 1024 * 1024
# And one that has memory for something large must send so much of it in so long, or is ended.
REQUEST_PROGRESS_BYTES_MIN = 64 * 1024
REQUEST_PROGRESS_MS = 10_000

# Bytes queued for one slow reader before we stop executing its requests.
SEND_BUFFER_BYTES_MAX = 4 * 1024 * 1024

# Kafka's log.segment.bytes; positions inside a segment are 32-bit.
SEGMENT_BYTES_MAX = 1024 * 1024 * 1024
SEGMENT_POSITION_MAX = 2**31 - 1

# Offsets inside a segment are stored relative to its first, in 32 bits (signed in Kafka's index files).
SEGMENT_OFFSET_SPAN_MAX = 2**31 - 1

# How many of a producer's last batches are remembered to answer duplicates. The protocol's own number:
# clients may have at most five unacknowledged requests in flight when they are idempotent.
PRODUCER_BATCHES_REMEMBERED = 5

# Producers of one partition of which it is remembered that a batch was refused and must come again first. An
# entry takes a hundred bytes and goes with the producer's next batch; more producers than this write to no
# single partition.
REFUSED_PRODUCERS_MAX = 10_000

# A log directory that failed is tried with a file of this size: enough that a disk with a few free blocks, on
# which the next batch would fail again, does not count as one that takes writes.
DISK_PROBE_BYTES = 1024 * 1024

# The first try comes soon, because a disk that was full for a moment should not cost a leader election more
# than once; later ones seldom enough that a broken disk is left alone.
DISK_PROBE_MS_MIN = 250
DISK_PROBE_MS_MAX = 5_000

# A directory that fails again within this time of its return is tried after the pause at which it had
# arrived, not after the shortest one: a disk that comes and goes must not move leaders to and fro every
# second.
DISK_RELAPSE_MS = 60_000

# Names become directories: 255 bytes less "-<partition>" and the suffix of a deletion under way.
TOPIC_NAME_CHARS_MAX = 249

# Partitions that one request may make; a typing error must not fill a disk with directories. Kafka's number.
PARTITIONS_PER_REQUEST_MAX = 10_000

# Record bytes in one fetch answer beyond the first batch. An answer waits in memory until its reader takes
# it, so this times the number of slow readers is what they can cost. Clients ask again; none needs more.
FETCH_RESPONSE_BYTES_MAX = 8 * 1024 * 1024

# Answers that all slow readers together may leave lying in memory. Beyond it a fetch gets one batch
# at a time, so that a thousand stalled clients cost little more than a few do.
STALLED_BYTES_MAX = 256 * 1024 * 1024

# A column of byte strings has 32-bit offsets into its data; half of what they reach leaves room for
# one batch of the largest size.
COLUMN_BYTES_MAX = 1024 * 1024 * 1024

# A chunk of columns: large enough that its fixed cost is nothing, small enough for the caches and for tens of
# tasks on one machine.
COLUMN_CHUNK_BYTES = 64 * 1024 * 1024
COLUMN_CHUNK_ROWS = 64 * 1024

# What one decompressed batch may grow to; stops a small frame from becoming gigabytes.
DECOMPRESSED_BYTES_MAX = 512 * 1024 * 1024

# The same for a batch that a producer sends: a leader reads every record before it appends them. 64 times a
# message of the default size, or, where a topic takes larger ones, so many times its max.message.bytes.
# Work of at most a fraction of a second, on a thread.
APPENDED_DECOMPRESSED_BYTES_MAX = 64 * 1024 * 1024
APPENDED_GROWTH_MAX = 16

# What is read of one batch on the event loop itself before it goes to a thread: records that are not
# compressed, and what compressed ones grow to. Half a millisecond each, up to one; the way to a thread and
# back costs a tenth of it.
LOOP_RECORD_BYTES_MAX = 2 * 1024 * 1024
LOOP_DECOMPRESSED_BYTES_MAX = 256 * 1024
# Compressed records of this size grow to more than that; trying would be in vain.
LOOP_COMPRESSED_BYTES_MAX = 128 * 1024
# What a topic's own codec may compress again on the loop; gzip takes two milliseconds for it.
LOOP_RECOMPRESSED_BYTES_MAX = 32 * 1024

# What each thread that reads producers' batches keeps to decompress them into; a larger batch takes memory of
# its own.
BESIDE_ROOM_BYTES = 4 * 1024 * 1024

# Threads that read producers' batches; each holds at most one decompressed batch.
CHECKING_THREADS_MAX = 2

# Wrong records that a producer is told of; a batch may have a hundred thousand.
RECORD_ERRORS_MAX = 1_000

# Records of one batch that are made objects: by compaction, all of them at once (a larger batch for a
# compacted topic is refused; clients that are told that a batch is too large send it again in two), and on
# the event loop when one is searched by time: half a second. That search ends with a larger batch.
LOOKED_AT_RECORDS_MAX = 200_000

# What a batch may grow to when one of its records is looked for by time.
SEARCHED_DECOMPRESSED_BYTES_MAX = 16 * 1024 * 1024

# Open file descriptors that one log directory may hold; closed and reopened on demand beyond that.
OPEN_FILES_MAX = 4096

# Offset indexes of closed segments that stay in memory; a full one of a 1 GiB segment has 2 MiB.
INDEX_CACHE_BYTES_MAX = 64 * 1024 * 1024

# Keys that one pass of compaction remembers; a longer log takes several passes. Some 200 bytes each.
COMPACTION_KEYS_MAX = 500_000

# Fetch sessions that one node caches. Kafka's max.incremental.fetch.session.cache.slots.
FETCH_SESSIONS_MAX = 1000

# Partitions that all fetch sessions together remember, existing or not; some 300 bytes each. Beyond it
# there are no new sessions, which works as well and costs more.
FETCH_SESSION_PARTITIONS_MAX = 500_000

# Member ids that one group has given out and not yet seen again. Each is forgotten with its session
# time-out; a client that only ever asks for ids must not fill the memory until then.
GROUP_PENDING_JOINS_MAX = 10_000

# What members of all groups say of themselves and are assigned, together. Ordinary members (some hundred
# bytes) always pass; the bound is for those that bring very much. What is held is counted this often at most.
GROUP_MEMBER_BYTES_MAX = 128 * 1024 * 1024
GROUP_MEMBER_LITTLE_BYTES = 4 * 1024
GROUP_MEMBER_COUNT_MS = 1_000

# A rebalance that only absent static members could complete looks for them again after their rebalance
# time-out, which they choose themselves; not more often than this.
GROUP_ABSENT_WAIT_MS_MIN = 1_000

# Names in group records have 16-bit lengths.
GROUP_ID_CHARS_MAX = 2**15 - 1

# Beginnings of offset keys that are kept encoded: pairs of a group and a topic that commit now.
OFFSET_KEYS_CACHED = 1_024

# Clients whose use is counted apart, where quotas exist; who makes up names takes the room of another.
QUOTA_METERS_MAX = 10_000

# Clients whose pushed metrics are kept apart; beyond it the one heard of longest ago is forgotten and asks
# again. Kafka's number.
TELEMETRY_CLIENTS_MAX = 16_384

# What pushed metrics may grow to when they are unpacked, on the event loop: some ten milliseconds.
TELEMETRY_DECOMPRESSED_BYTES_MAX = 8 * 1024 * 1024

# A pattern for topics that a group's members send (KIP-848). Names of topics have 249 characters; a list of a
# few dozen of them as a pattern still fits.
GROUP_PATTERN_CHARS_MAX = 10_000

# What one compiled pattern may take, and how many are kept compiled: 64 MiB at worst.
GROUP_PATTERN_MEMORY_BYTES_MAX = 512 * 1024
GROUP_PATTERNS_CACHED_MAX = 128

# New topics are looked up for a group's patterns at most this often, as in Kafka: many may come at once.
GROUP_PATTERN_REFRESH_MS_MIN = 10_000

# Groups and transactional ids whose partition is remembered instead of computed: those that speak now.
COORDINATED_KEYS_CACHED_MAX = 1_024

# An AMQP frame, RabbitMQ's default frame_max; before the peers have agreed, no frame may be larger than the
# smallest that both must take, unless initial_frame_max says otherwise.
AMQP_FRAME_BYTES_MAX = 131_072
AMQP_FRAME_BYTES_MIN = 4_096

# Channels of one AMQP connection. RabbitMQ's default.
AMQP_CHANNELS_MAX = 2_047

# The body of an AMQP message. RabbitMQ's default max_message_size up to 3.13; since 4.0 it is 16 MiB.
AMQP_BODY_BYTES_MAX = 128 * 1024 * 1024

# A client that is not logged in and has opened no virtual host by then is not one. RabbitMQ's default.
AMQP_HANDSHAKE_MS_MAX = 10_000

# Bodies that one AMQP connection may have begun on all its channels and not finished. RabbitMQ has no such
# bound; with it, two thousand channels cannot take two thousand times the largest message.
AMQP_BEGUN_BYTES_MAX = AMQP_BODY_BYTES_MAX

# Bodies that one AMQP transaction may hold before it is committed. They wait in memory, as in RabbitMQ, which
# has no such limit.
AMQP_TRANSACTION_BYTES_MAX = 2 * AMQP_BODY_BYTES_MAX

# What an AMQP client may still send after its connection is closed; it is thrown away. A client that has not
# read that it is over goes on with what it has begun: a message of the largest size. RabbitMQ has no bound.
AMQP_LATE_BYTES_MAX = AMQP_BODY_BYTES_MAX

# Seconds without a byte after which an AMQP peer sends a heartbeat. RabbitMQ's default.
AMQP_HEARTBEAT_S = 60

# The management API over HTTP: the first line and the headers of a request, its body (RabbitMQ's bound is
# 20 MB, too), and seconds to send it, to answer it, and to be silent between two of them.
MANAGEMENT_HEAD_BYTES_MAX = 64 * 1024
MANAGEMENT_BODY_BYTES_MAX = 20 * 1024 * 1024
# Of a body whose sender is not known.
MANAGEMENT_STRANGER_BYTES_MAX = 64 * 1024
MANAGEMENT_REQUEST_S = 30
MANAGEMENT_ANSWER_S = 30
# Seconds that a publish by HTTP waits for an alarm to end before it is refused with the alarm as the reason:
# less than the 15 s that the command line waits for an answer, so that the reason arrives.
MANAGEMENT_BLOCKED_S = 12
MANAGEMENT_IDLE_S = 60
# Seconds that a client whose request was refused before it was whole has to read that and to hang up; what it
# sends meanwhile is thrown away, as much as a body may have.
MANAGEMENT_LATE_S = 3
MANAGEMENT_LATE_BYTES_MAX = MANAGEMENT_BODY_BYTES_MAX
# How long a list waits for what another node has for it.
MANAGEMENT_PEER_ANSWER_MS_MAX = 3_000

# Tokens of OAuth 2: scopes of one (RabbitMQ's bound), scopes that are kept parsed, and the size of a token.
OAUTH_SCOPES_MAX = 2_048
OAUTH_SCOPES_CACHED = 8_192
OAUTH_TOKEN_BYTES_MAX = 64 * 1024
# Keys that are fetched: seconds for all of it, bytes of an answer, keys in it, seconds before somebody whose
# key is not known can have them fetched again, and after which they are fetched anyway: a withdrawn key goes.
OAUTH_FETCH_S = 10
OAUTH_FETCH_BYTES_MAX = 1024 * 1024
OAUTH_KEYS_MAX = 256
OAUTH_FETCH_INTERVAL_S = 10
OAUTH_KEYS_AGE_S_MAX = 3_600

# Tables within tables. Nobody needs more than a few; a hostile one must not exhaust the stack.
TABLE_DEPTH_MAX = 64

# Beginnings of publishes that one connection keeps decoded: pairs of an exchange and a routing key.
AMQP_ROUTES_CACHED = 1_024

# Queues that another node hosts. Messages that may be on their way to one consumer: some milliseconds' worth.
# What one request or answer holds, and what may wait here for a client or a host, in bytes.
QUEUE_CREDIT = 256
QUEUE_LETTER_BYTES_MAX = 4 * 1024 * 1024
QUEUE_WAITING_BYTES_MAX = 16 * 1024 * 1024
# A host that does not answer within this time is taken for lost, and a node that has not asked for so long.
QUEUE_POLL_MS = 2_000
QUEUE_HOST_ANSWER_MS_MAX = 6_000
QUEUE_GUEST_SILENCE_MS_MAX = 10_000
# A host that leaves a request unanswered for so long, beyond what it may wait for, is asked by way of a third
# node: as long as a follower waits before it says that it misses a leader. So many third nodes are tried, and
# so often whether the straight way leads there again.
QUEUE_WAY_ANSWER_MS_MAX = 2_000
QUEUE_DETOURS_MAX = 2
QUEUE_STRAIGHT_RETRY_MS = 5_000
# How long what a client wants of a queue waits for a host, and how soon one is looked for again.
QUEUE_HOST_WAIT_MS_MAX = 30_000
QUEUE_HOST_RETRY_MS_MIN = 20
QUEUE_HOST_RETRY_MS_MAX = 1_000
# How long a question about a queue waits for messages that are on their way into it; RabbitMQ waits as long
# for a quorum queue that has no majority.
QUEUE_SETTLE_MS_MAX = 5_000
# How soon a queue that could not write what it decided (a full disk) tries again.
QUEUE_TURN_RETRY_MS_MIN = 100
QUEUE_TURN_RETRY_MS_MAX = 5_000
# How soon what could not be read (a disk that fails, records that are being repaired) is read again, and how
# long somebody who asks for one message waits for that.
QUEUE_READ_RETRY_MS_MIN = 100
QUEUE_READ_RETRY_MS_MAX = 5_000
QUEUE_READ_WAIT_MS_MAX = 2_000
# What one consumer without a prefetch may hold while memory runs low: 2 MB of tags, and at worst (messages
# that came one by one) 34 MB of runs. How often is looked whether memory suffices again.
QUEUE_HELD_MAX = 100_000
QUEUE_HELD_LOOK_MS = 1_000
# Gaps between messages that one snapshot of a queue tells, two bytes each where messages come one by one.
# It is one batch; what lies behind so many is found in the log when the queue is loaded.
QUEUE_SNAPSHOT_GAPS_MAX = 16_000_000
# Decompressed records that one look into a queue's log keeps beyond the message that is wanted: small batches
# of a Kafka producer may grow a thousand times.
QUEUE_WINDOW_BYTES_MAX = 4 * 1024 * 1024
# Messages that one look makes objects of; a batch of a few kilobytes may hold millions.
QUEUE_WINDOW_RECORDS_MAX = 10_000
# Direct replies on their way to channels of other nodes.
QUEUE_REPLIES_MAX = 1_000

# A regular expression of a policy or a permission: a list of a few hundred names still fits.
NAME_PATTERN_CHARS_MAX = 10_000

# Pairs of an exchange and a routing key whose queues are remembered, for each virtual host.
ROUTES_REMEMBERED = 10_000

assert MANAGEMENT_BLOCKED_S < MANAGEMENT_ANSWER_S
assert MESSAGE_BYTES_MAX < REQUEST_BYTES_MAX
assert QUEUE_SETTLE_MS_MAX < QUEUE_HOST_WAIT_MS_MAX
assert QUEUE_POLL_MS + 2 * QUEUE_WAY_ANSWER_MS_MAX < QUEUE_GUEST_SILENCE_MS_MAX
assert QUEUE_POLL_MS < QUEUE_HOST_ANSWER_MS_MAX < QUEUE_GUEST_SILENCE_MS_MAX
assert APPENDED_DECOMPRESSED_BYTES_MAX <= DECOMPRESSED_BYTES_MAX
assert CONTROL_REQUEST_BYTES_MAX <= REQUEST_BYTES_MAX < RESPONSE_BYTES_MAX
assert SEGMENT_BYTES_MAX <= SEGMENT_POSITION_MAX
assert COLUMN_BYTES_MAX + DECOMPRESSED_BYTES_MAX < 2**31
assert COLUMN_CHUNK_BYTES <= COLUMN_BYTES_MAX

# How long a node tries to reach the controller for one thing: more than an election and a lost packet take.
CONTROLLER_WAIT_MS_MAX = 30_000
CONTROLLER_RETRY_MS_MIN = 20
CONTROLLER_RETRY_MS_MAX = 1_000

# How often a node looks whether its own event loop keeps up; a look that comes later than this is a stall. It
# is well below what any judge of silence waits for. So many stalls are remembered: more than there can be
# within the longest silence that is judged.
STALL_TICK_MS = 250
STALLS_KEPT_MAX = 256

# How long a node that stops waits for others to take over, all in all and for one answer. What is left then
# is handed over when its session ends.
CONTROLLED_SHUTDOWN_MS_MAX = 15_000
CONTROLLED_SHUTDOWN_ANSWER_MS_MAX = 2_000
CONTROLLED_SHUTDOWN_RETRY_MS = 50

# Log directories of one node: each has threads and open files of its own, and no machine has more disks.
LOG_DIRS_MAX = 64

# Replicas that a node does not have yet and for which administrators have chosen a directory: tools choose
# for as many as one reassignment moves. The oldest choice is forgotten first.
CHOSEN_DIRECTORIES_MAX = 10_000

# Replicas of which a node says in one request in which directory they lie, about as many as Kafka's nodes do:
# one short step of the controller. More go with the next request.
DIRECTORY_ASSIGNMENTS_AT_ONCE_MAX = 2_000

# Partitions whose leaders change in one step of balancing; Kafka's number. More wait for the next.
ELECTIONS_AT_ONCE_MAX = 1_000

# How soon the files of deleted segments and logs that could not be removed (a disk that fails) are tried
# again; each attempt is a line in the log.
DELETE_AGAIN_MS = 60_000

# How soon the quorum's host tries again to apply what is agreed after its disk could not be read: soon,
# because the node is behind its cluster for as long, and seldom enough for a disk that stays like that. How
# often the log says so. How many changes (of leaders, mostly: what is agreed is one, however much it is) may
# wait for it: an election a second for hours.
QUORUM_EFFECT_RETRY_MS_MIN = 50
QUORUM_EFFECT_RETRY_MS_MAX = 1_000
QUORUM_EFFECT_RETRY_SAID_MS = 30_000
QUORUM_EFFECTS_WAITING_MAX = 10_000

# How far away the time may be at which a delayed record is delivered: ten years. A time beyond that is a
# mistake, mostly microseconds or nanoseconds where milliseconds are meant.
TIMER_DELAY_MS_MAX = 10 * 365 * 24 * 3600 * 1000

# Timers that are pending in one partition of __timers: 32 bytes of memory each, 160 MB. Leaders refuse more
# delayed records for the targets of that partition until some were delivered.
TIMERS_OF_A_SHARD_MAX = 5_000_000
