"""Every maximum, with its reason, and the defaults of those that are configurable.

Kafka's own defaults are kept where users know them.
"""

# A frame announces its size before its bytes. Kafka's socket.request.max.bytes.
REQUEST_BYTES_MAX = 100 * 1024 * 1024

# Requests that carry no records. Decoding creates objects of about sixty times the size of the smallest
# fields; the largest useful request of this kind (thousands of topics, a big group's assignment) has 1 MB.
CONTROL_REQUEST_BYTES_MAX = 8 * 1024 * 1024

# Topics and partitions that one produce request may name. Its frame may be large because of its records; a
# frame with more partitions than a node can lead consists of empty names, and its objects would take sixty
# times its size.
REQUEST_PARTITIONS_MAX = 100_000

# The largest response that a client accepts: a fetch of its default 50 MiB, and one batch that is larger.
RESPONSE_BYTES_MAX = 256 * 1024 * 1024

# The largest batch. Kafka's message.max.bytes: one MiB and the overhead of the batch header.
MESSAGE_BYTES_MAX = 1024 * 1024 + 12

# Requests of one connection that may wait for their responses before the broker stops reading from it.
# librdkafka allows itself 1,000,000 and Java 5; more than this would only let one client fill the memory.
IN_FLIGHT_REQUESTS_MAX = 256

# The same in bytes of requests: a waiting request keeps its frame and the objects decoded from it. One
# request may be larger; then it waits alone.
IN_FLIGHT_BYTES_MAX = 8 * 1024 * 1024

# Unanswered requests on all connections together may take one part in this many of the machine's memory (or
# the container's), unless queued.max.request.bytes sets a number. The rest is for the log, its caches and
# responses.
REQUEST_MEMORY_PART = 8
# When that limit is reached, a connection still reads this much at a time and may hold this much: requests
# of ordinary size, so that clients that send only small requests are not affected.
REQUEST_READ_BYTES = 16 * 1024
REQUEST_LITTLE_BYTES = 64 * 1024
# A request that arrives in pieces reserves memory in steps of this size.
REQUEST_STEP_BYTES = 512 * 1024
# The last quarter is reserved for connections that hold no more than this, twice a batch of the default
# size: clients that send huge requests wait for each other, and clients that send ordinary ones do not.
REQUEST_MEDIUM_BYTES = 2 * 1024 * 1024
# A connection that has reserved memory for a large request must send at least this much of it in this time;
# otherwise it is closed.
REQUEST_PROGRESS_BYTES_MIN = 64 * 1024
REQUEST_PROGRESS_MS = 10_000

# Bytes queued for one slow client before the broker stops executing its requests.
SEND_BUFFER_BYTES_MAX = 4 * 1024 * 1024

# Kafka's log.segment.bytes; positions inside a segment are 32-bit.
SEGMENT_BYTES_MAX = 1024 * 1024 * 1024
SEGMENT_POSITION_MAX = 2**31 - 1

# Offsets inside a segment are stored relative to its first, in 32 bits (signed in Kafka's index files).
SEGMENT_OFFSET_SPAN_MAX = 2**31 - 1

# How many of a producer's last batches are remembered to answer duplicates. The protocol's own number: an
# idempotent client has at most five unacknowledged requests in flight.
PRODUCER_BATCHES_REMEMBERED = 5

# Producers of one partition whose last batch was refused and must be sent again first. An entry takes a
# hundred bytes and is removed by the producer's next batch; more producers than this do not write to a
# single partition.
REFUSED_PRODUCERS_MAX = 10_000

# The size of the file that is written to probe a failed log directory: large enough that a disk with only a
# few free blocks, on which the next batch would fail again, does not pass.
DISK_PROBE_BYTES = 1024 * 1024

# The first probe comes soon, because a disk that was full for a moment should not cost more than one leader
# election; later probes are rare enough not to burden a broken disk.
DISK_PROBE_MS_MIN = 250
DISK_PROBE_MS_MAX = 5_000

# A directory that fails again within this time of its return is probed after the last delay, not after the
# shortest one: a disk that fails intermittently must not move leaders back and forth every second.
DISK_RELAPSE_MS = 60_000

# Names become directories: 255 bytes less "-<partition>" and the suffix of a pending deletion.
TOPIC_NAME_CHARS_MAX = 249

# Partitions that one request may create; a typing error must not fill a disk with directories. Kafka's
# number.
PARTITIONS_PER_REQUEST_MAX = 10_000

# Record bytes in one fetch response beyond the first batch. A response stays in memory until the client
# reads it, so this number times the number of slow clients bounds their cost. Clients fetch again; none
# needs more.
FETCH_RESPONSE_BYTES_MAX = 8 * 1024 * 1024

# Bytes of responses that all slow clients together may keep in memory. Beyond it a fetch returns one batch
# at a time, so that a thousand stalled clients cost little more than a few do.
STALLED_BYTES_MAX = 256 * 1024 * 1024

# A column of byte strings has 32-bit offsets into its data; half of that range leaves space for one batch
# of the largest size.
COLUMN_BYTES_MAX = 1024 * 1024 * 1024

# A chunk of columns: large enough that its fixed cost is negligible, small enough for the CPU's caches and
# for tens of tasks on one machine.
COLUMN_CHUNK_BYTES = 64 * 1024 * 1024
COLUMN_CHUNK_ROWS = 64 * 1024

# The largest size of a batch after decompression; stops a small frame from becoming gigabytes.
DECOMPRESSED_BYTES_MAX = 512 * 1024 * 1024

# The same for a batch that a producer sends: a leader reads every record before it appends them. 64 times a
# message of the default size, or, where a topic accepts larger ones, this many times its max.message.bytes.
# That takes at most a fraction of a second, on a thread.
APPENDED_DECOMPRESSED_BYTES_MAX = 64 * 1024 * 1024
APPENDED_GROWTH_MAX = 16

# Bytes of one batch that are checked on the event loop itself; larger batches go to a thread. The limits
# are for uncompressed records and for the decompressed size: half a millisecond to one each; the way to a
# thread and back costs a tenth of it.
LOOP_RECORD_BYTES_MAX = 2 * 1024 * 1024
LOOP_DECOMPRESSED_BYTES_MAX = 256 * 1024
# Compressed records of this size become larger than that; trying them on the loop would be wasted work.
LOOP_COMPRESSED_BYTES_MAX = 128 * 1024
# Bytes that may be recompressed with a topic's own codec on the loop; gzip takes two milliseconds for it.
LOOP_RECOMPRESSED_BYTES_MAX = 32 * 1024

# The decompression buffer that each checking thread keeps; a larger batch takes separate memory.
BESIDE_ROOM_BYTES = 4 * 1024 * 1024

# Threads that check producers' batches; each holds at most one decompressed batch.
CHECKING_THREADS_MAX = 2

# Invalid records that an error response lists; a batch may have a hundred thousand.
RECORD_ERRORS_MAX = 1_000

# Records of one batch that are decoded into objects: by compaction, all of them at once (a larger batch for
# a compacted topic is refused; clients split a batch that is too large), and on the event loop for a search
# by time: half a second. That search ends with a larger batch.
LOOKED_AT_RECORDS_MAX = 200_000

# The largest decompressed size of a batch that is searched by time.
SEARCHED_DECOMPRESSED_BYTES_MAX = 16 * 1024 * 1024

# Open file descriptors of one log directory; beyond that, files are closed and reopened on demand.
OPEN_FILES_MAX = 4096

# Offset indexes of closed segments that stay in memory; a full one of a 1 GiB segment has 2 MiB.
INDEX_CACHE_BYTES_MAX = 64 * 1024 * 1024

# Keys that one pass of compaction remembers; a longer log takes several passes. About 200 bytes each.
COMPACTION_KEYS_MAX = 500_000

# Fetch sessions that one node caches. Kafka's max.incremental.fetch.session.cache.slots.
FETCH_SESSIONS_MAX = 1000

# Partitions of all fetch sessions together, existing or not; about 300 bytes each. Beyond it no new
# sessions are created; clients then send full fetches, which cost more.
FETCH_SESSION_PARTITIONS_MAX = 500_000

# Member ids that one group has assigned and that have not joined yet. Each is forgotten with its session
# time-out; a client that only requests ids must not fill the memory until then.
GROUP_PENDING_JOINS_MAX = 10_000

# Metadata and assignments of the members of all groups together. Ordinary members (some hundred bytes)
# always pass; the limit is for members with very large ones. The sum is computed at most this often.
GROUP_MEMBER_BYTES_MAX = 128 * 1024 * 1024
GROUP_MEMBER_LITTLE_BYTES = 4 * 1024
GROUP_MEMBER_COUNT_MS = 1_000

# A rebalance that waits only for absent static members checks for them again after their rebalance
# time-out, which the members choose themselves; at least this long apart.
GROUP_ABSENT_WAIT_MS_MIN = 1_000

# Names in group records have 16-bit lengths.
GROUP_ID_CHARS_MAX = 2**15 - 1

# Encoded prefixes of offset keys that are cached: pairs of a group and a topic that commit now.
OFFSET_KEYS_CACHED = 1_024

# Clients whose usage is counted separately, where quotas exist; a client with a made-up name evicts
# another.
QUOTA_METERS_MAX = 10_000

# Clients whose pushed metrics are kept separately; beyond it the client heard from longest ago is forgotten
# and must subscribe again. Kafka's number.
TELEMETRY_CLIENTS_MAX = 16_384

# The largest decompressed size of pushed metrics, decoded on the event loop: about ten milliseconds.
TELEMETRY_DECOMPRESSED_BYTES_MAX = 8 * 1024 * 1024

# A subscription pattern of a group's members (KIP-848). Names of topics have up to 249 characters; a
# pattern that lists a few dozen of them still fits.
GROUP_PATTERN_CHARS_MAX = 10_000

# Bytes of one compiled pattern, and how many are kept compiled: 64 MiB at worst.
GROUP_PATTERN_MEMORY_BYTES_MAX = 512 * 1024
GROUP_PATTERNS_CACHED_MAX = 128

# New topics are matched against a group's patterns at most this often, as in Kafka: many may be created at
# once.
GROUP_PATTERN_REFRESH_MS_MIN = 10_000

# Groups and transactional ids whose partition number is cached instead of computed: the active ones.
COORDINATED_KEYS_CACHED_MAX = 1_024

# An AMQP frame, RabbitMQ's default frame_max; before it is negotiated, no frame may be larger than the
# smallest size that both peers must accept, unless initial_frame_max says otherwise.
AMQP_FRAME_BYTES_MAX = 131_072
AMQP_FRAME_BYTES_MIN = 4_096

# Channels of one AMQP connection. RabbitMQ's default.
AMQP_CHANNELS_MAX = 2_047

# The body of an AMQP message. RabbitMQ's default max_message_size up to 3.13; since 4.0 it is 16 MiB.
AMQP_BODY_BYTES_MAX = 128 * 1024 * 1024

# A client that has not logged in and opened a virtual host by then is disconnected. RabbitMQ's default.
AMQP_HANDSHAKE_MS_MAX = 10_000

# Bytes of bodies that are incomplete on all channels of one AMQP connection. RabbitMQ has no such limit;
# with it, two thousand channels cannot take two thousand times the largest message.
AMQP_BEGUN_BYTES_MAX = AMQP_BODY_BYTES_MAX

# Bytes of bodies that one AMQP transaction may hold before it is committed. They are kept in memory, as in
# RabbitMQ, which has no such limit.
AMQP_TRANSACTION_BYTES_MAX = 2 * AMQP_BODY_BYTES_MAX

# Bytes that an AMQP client may still send after its connection is closed; they are discarded. A client that
# has not read connection.close yet finishes what it has begun: a message of the largest size. RabbitMQ has
# no limit.
AMQP_LATE_BYTES_MAX = AMQP_BODY_BYTES_MAX

# Seconds without a byte after which an AMQP peer sends a heartbeat. RabbitMQ's default.
AMQP_HEARTBEAT_S = 60

# The management API over HTTP: bytes of a request's first line and headers, of its body (RabbitMQ's limit
# is 20 MB, too), and seconds to send it, to answer it, and to stay idle between two requests.
MANAGEMENT_HEAD_BYTES_MAX = 64 * 1024
MANAGEMENT_BODY_BYTES_MAX = 20 * 1024 * 1024
# The largest body of an unauthenticated request.
MANAGEMENT_STRANGER_BYTES_MAX = 64 * 1024
MANAGEMENT_REQUEST_S = 30
MANAGEMENT_ANSWER_S = 30
# Seconds that a publish by HTTP waits for an alarm to end before it is refused with the alarm as the
# reason: less than the 15 s that the command line waits for a response, so that the reason arrives.
MANAGEMENT_BLOCKED_S = 12
MANAGEMENT_IDLE_S = 60
# Seconds that a client has to read an early refusal and to close its connection; what it sends meanwhile is
# discarded, up to the size of a body.
MANAGEMENT_LATE_S = 3
MANAGEMENT_LATE_BYTES_MAX = MANAGEMENT_BODY_BYTES_MAX
# How long a listing waits for another node's part of it.
MANAGEMENT_PEER_ANSWER_MS_MAX = 3_000

# OAuth 2 tokens: scopes in one token (RabbitMQ's limit), parsed scopes that are cached, bytes of a token.
OAUTH_SCOPES_MAX = 2_048
OAUTH_SCOPES_CACHED = 8_192
OAUTH_TOKEN_BYTES_MAX = 64 * 1024
# Fetching an issuer's signing keys: seconds for all of it, bytes of a response, keys in it, seconds before
# an unknown key id may cause another fetch, and seconds after which keys are fetched again, so that a
# withdrawn key stops working.
OAUTH_FETCH_S = 10
OAUTH_FETCH_BYTES_MAX = 1024 * 1024
OAUTH_KEYS_MAX = 256
OAUTH_FETCH_INTERVAL_S = 10
OAUTH_KEYS_AGE_S_MAX = 3_600

# Nested tables. Applications need a few levels; a hostile table must not exhaust the stack.
TABLE_DEPTH_MAX = 64

# Prefixes of publishes that one connection keeps decoded: pairs of an exchange and a routing key.
AMQP_ROUTES_CACHED = 1_024

# Queues that another node hosts: messages in flight to one consumer (some milliseconds' worth), bytes of
# one request or response, and bytes that may wait on this node for a client or a host.
QUEUE_CREDIT = 256
QUEUE_MESSAGE_BYTES_MAX = 4 * 1024 * 1024
QUEUE_WAITING_BYTES_MAX = 16 * 1024 * 1024
# A host that does not answer within this time is considered lost, and so is a remote node that has sent no
# request for this time.
QUEUE_POLL_MS = 2_000
QUEUE_HOST_ANSWER_MS_MAX = 6_000
QUEUE_REMOTE_SILENCE_MS_MAX = 10_000
# A host that leaves a request unanswered for this long, beyond the time that the request may wait, is
# contacted through a third node: as long as a follower waits before it reports a missing leader. This many
# third nodes are tried, and the direct connection is tried again at this interval.
QUEUE_WAY_ANSWER_MS_MAX = 2_000
QUEUE_DETOURS_MAX = 2
QUEUE_STRAIGHT_RETRY_MS = 5_000
# How long a client's request for a queue waits for a host, and how soon the host is looked up again.
QUEUE_HOST_WAIT_MS_MAX = 30_000
QUEUE_HOST_RETRY_MS_MIN = 20
QUEUE_HOST_RETRY_MS_MAX = 1_000
# How long a query of a queue waits for messages that are being appended to it; RabbitMQ waits as long for a
# quorum queue that has no majority.
QUEUE_SETTLE_MS_MAX = 5_000
# How soon a queue that could not append its decisions (a full disk) tries again.
QUEUE_TURN_RETRY_MS_MIN = 100
QUEUE_TURN_RETRY_MS_MAX = 5_000
# How soon a failed read (a failing disk, records under repair) is retried, and how long a basic.get waits
# for that.
QUEUE_READ_RETRY_MS_MIN = 100
QUEUE_READ_RETRY_MS_MAX = 5_000
QUEUE_READ_WAIT_MS_MAX = 2_000
# Messages that one consumer without a prefetch limit may hold while memory runs low: 2 MB of tags, and at
# worst (messages that arrived one by one) 34 MB of runs. And how often memory is checked again.
QUEUE_HELD_MAX = 100_000
QUEUE_HELD_LOOK_MS = 1_000
# Gaps between messages in one snapshot of a queue, two bytes each where messages came one by one. A
# snapshot is one batch; gaps beyond this number are found in the log when the queue is loaded.
QUEUE_SNAPSHOT_GAPS_MAX = 16_000_000
# Decompressed records that one read of a queue's log keeps beyond the requested message: small batches of a
# Kafka producer may grow a thousand times.
QUEUE_WINDOW_BYTES_MAX = 4 * 1024 * 1024
# Messages that one read decodes into objects; a batch of a few kilobytes may hold millions.
QUEUE_WINDOW_RECORDS_MAX = 10_000
# Direct replies in flight to channels of other nodes.
QUEUE_REPLIES_MAX = 1_000

# The length of a regular expression in a policy or a permission: a list of a few hundred names still fits.
NAME_PATTERN_CHARS_MAX = 10_000

# Cached routes of each virtual host: pairs of an exchange and a routing key.
ROUTES_REMEMBERED = 10_000

assert MANAGEMENT_BLOCKED_S < MANAGEMENT_ANSWER_S
assert MESSAGE_BYTES_MAX < REQUEST_BYTES_MAX
assert QUEUE_SETTLE_MS_MAX < QUEUE_HOST_WAIT_MS_MAX
assert QUEUE_POLL_MS + 2 * QUEUE_WAY_ANSWER_MS_MAX < QUEUE_REMOTE_SILENCE_MS_MAX
assert QUEUE_POLL_MS < QUEUE_HOST_ANSWER_MS_MAX < QUEUE_REMOTE_SILENCE_MS_MAX
assert APPENDED_DECOMPRESSED_BYTES_MAX <= DECOMPRESSED_BYTES_MAX
assert CONTROL_REQUEST_BYTES_MAX <= REQUEST_BYTES_MAX < RESPONSE_BYTES_MAX
assert SEGMENT_BYTES_MAX <= SEGMENT_POSITION_MAX
assert COLUMN_BYTES_MAX + DECOMPRESSED_BYTES_MAX < 2**31
assert COLUMN_CHUNK_BYTES <= COLUMN_BYTES_MAX

# How long a node tries to reach the controller for one request: longer than an election and a lost packet
# take.
CONTROLLER_WAIT_MS_MAX = 30_000
CONTROLLER_RETRY_MS_MIN = 20
CONTROLLER_RETRY_MS_MAX = 1_000

# How often a node checks whether its event loop keeps up; a check that comes later than this is a stall. It
# is well below every time-out for silent peers. This many stalls are remembered: more than can occur within
# the longest such time-out.
STALL_TICK_MS = 250
STALLS_KEPT_MAX = 256

# How long a node that stops waits for others to take over, in total and for one response. Whatever is left
# then is handed over when its session ends.
CONTROLLED_SHUTDOWN_MS_MAX = 15_000
CONTROLLED_SHUTDOWN_ANSWER_MS_MAX = 2_000
CONTROLLED_SHUTDOWN_RETRY_MS = 50

# Connections that the limits for clients refuse, and that are let in all the same to prove that they are a
# node's: more than an event loop accepts in the few steps that a proof takes. After this time without a proof
# they are closed; earlier, the oldest first, if others come. How many addresses of nodes are remembered,
# whose connections go first then: more than a cluster has.
NODE_TRIALS_MAX = 256
NODE_TRIAL_MS = 10_000
NODE_HOSTS_MAX = 1_000

# Log directories of one node: each has threads and open files of its own, and no machine has more disks.
LOG_DIRS_MAX = 64

# Future replicas for which administrators have chosen a log directory: tools choose for as many as one
# reassignment moves. The oldest choice is dropped first.
CHOSEN_DIRECTORIES_MAX = 10_000

# Replicas whose log directory a node reports in one request, about as many as Kafka's nodes do: one short
# step of the controller. The rest goes with the next request.
DIRECTORY_ASSIGNMENTS_AT_ONCE_MAX = 2_000

# Damaged ranges of one partition that DescribeLogDirs names: enough to see what the disk did. A disk that
# damages more of one partition than that is replaced, not repaired range by range.
DAMAGED_RANGES_TOLD_MAX = 16

# Partitions whose leaders change in one step of balancing; Kafka's number. The rest waits for the next
# step.
ELECTIONS_AT_ONCE_MAX = 1_000

# How soon the removal of files of deleted segments and logs is retried after a failure; each attempt writes
# a line to the log.
DELETE_AGAIN_MS = 60_000

# How soon the quorum's host retries to apply committed records after a failed disk read: soon, because the
# node is behind its cluster until then, and rarely enough for a disk that stays broken. How often it logs
# the failure. How many changes (mostly of leaders; committed records count as one, however many) may wait
# for it: an election a second for hours.
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
