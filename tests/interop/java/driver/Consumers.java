import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;

/** Kafka's consumer in groups of both protocols. What is printed does not depend on time or chance. */
public class Consumers {
    /** A consumer that counts what happens to its partitions and what it reads. */
    static final class Member implements ConsumerRebalanceListener {
        final KafkaConsumer<String, String> consumer;
        final List<String> values = new ArrayList<>();
        int revoked;
        int lost;
        int assignments;

        Member(Properties settings) {
            consumer = new KafkaConsumer<>(settings);
        }

        Member on(String... topics) {
            consumer.subscribe(List.of(topics), this);
            return this;
        }

        int size() {
            return consumer.assignment().size();
        }

        void poll() {
            for (ConsumerRecord<String, String> one : consumer.poll(Duration.ofMillis(30))) {
                values.add(one.value());
            }
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            revoked += partitions.size();
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            assignments += partitions.isEmpty() ? 0 : 1;
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            lost += partitions.size();
        }
    }

    /** bootstrap, topic (1 partition), protocol, strategy, rack: read from the replica in that rack (KIP-392). */
    public static void rack(String[] args) {
        Member ann = new Member(settings(args, "client.rack", args[4])).on(args[1]);
        pollUntil("there is one nearer than the leader", () -> nearest(ann) >= 0, ann);
        Words.say("reads from %d", nearest(ann));
        Words.fill(args[0], args[1], 1, 0, 100);
        pollUntil("all is read", () -> ann.values.size() == 100, ann);
        Words.say("read %d, still from %d", ann.values.size(), nearest(ann));
        ann.consumer.close();
    }

    private static int nearest(Member member) {
        for (Map.Entry<MetricName, ? extends Metric> one : member.consumer.metrics().entrySet()) {
            if (one.getKey().name().equals("preferred-read-replica")) {
                return ((Number) one.getValue().metricValue()).intValue();
            }
        }
        return -1;
    }

    /** bootstrap, topic (4 partitions), protocol, strategy: join, share, read, leave, go on. */
    public static void life(String[] args) {
        String topic = args[1];
        Member ann = new Member(settings(args, "client.id", "ann")).on(topic);
        pollUntil("ann has all", () -> ann.size() == 4, ann);
        Words.say("ann alone: %d", ann.size());
        Member bob = new Member(settings(args, "client.id", "bob")).on(topic);
        pollUntil("they share", () -> ann.size() == 2 && bob.size() == 2, ann, bob);
        Words.say("shared: %d and %d, disjoint %s", ann.size(), bob.size(), disjoint(ann, bob));
        Words.say("ann gave up %d, lost %d", ann.revoked, ann.lost);
        Words.fill(args[0], topic, 4, 0, 100);
        pollUntil("all is read", () -> ann.values.size() + bob.values.size() == 100, ann, bob);
        Set<String> distinct = new HashSet<>(ann.values);
        distinct.addAll(bob.values);
        Words.say("read: %d, distinct %d, each %d", ann.values.size() + bob.values.size(),
                distinct.size(), ann.values.size());
        ann.consumer.commitSync();
        bob.consumer.commitSync();
        bob.consumer.close();
        pollUntil("ann takes over", () -> ann.size() == 4, ann);
        Words.say("ann alone again: %d, read again %d", ann.size(), ann.values.size() - 50);
        ann.consumer.close();
        Words.fill(args[0], topic, 4, 100, 104);
        Member eve = new Member(settings(args, "client.id", "eve")).on(topic);
        pollUntil("eve goes on", () -> eve.values.size() == 4, eve);
        Words.say("eve goes on with %s", new TreeSet<>(eve.values));
        Words.say("committed: %s", offsets(eve.consumer.committed(partitions(topic, 4)).values()));
        eve.consumer.close();
    }

    /** bootstrap, topic (4 partitions), protocol, strategy: one that comes back keeps what it had. */
    public static void still(String[] args) {
        String topic = args[1];
        Member ann = new Member(settings(args, "group.instance.id", "ann")).on(topic);
        pollUntil("ann has all", () -> ann.size() == 4, ann);
        Member bob = new Member(settings(args, "group.instance.id", "bob")).on(topic);
        pollUntil("they share", () -> ann.size() == 2 && bob.size() == 2, ann, bob);
        Set<TopicPartition> had = bob.consumer.assignment();
        int revoked = ann.revoked;
        int assignments = ann.assignments;
        bob.consumer.close();
        Member again = new Member(settings(args, "group.instance.id", "bob")).on(topic);
        pollUntil("bob is back", () -> again.size() == 2, ann, again);
        Words.say("bob has what he had: %s", again.consumer.assignment().equals(had));
        Words.say("ann noticed: %d revoked, %d assigned", ann.revoked - revoked, ann.assignments - assignments);
        again.consumer.close(CloseOptions.groupMembershipOperation(
                CloseOptions.GroupMembershipOperation.LEAVE_GROUP));
        pollUntil("bob has left", () -> ann.size() == 4, ann);
        Words.say("bob has left: ann has %d", ann.size());
        ann.consumer.close(CloseOptions.groupMembershipOperation(
                CloseOptions.GroupMembershipOperation.LEAVE_GROUP));
    }

    /** bootstrap, topic (2 partitions), protocol, strategy: more partitions, more topics, patterns. */
    public static void growth(String[] args) throws Exception {
        String topic = args[1];
        Member ann = new Member(settings(args, "metadata.max.age.ms", 300));
        if (args[2].equals("consumer")) {
            // Matched by the broker, which looks again only after a while: so this is no way to see growth.
            ann.consumer.subscribe(new SubscriptionPattern(topic + ".*"), ann);
            pollUntil("a topic", () -> ann.size() == 2, ann);
            ann.consumer.unsubscribe();
        }
        ann.consumer.subscribe(Pattern.compile(topic + ".*"), ann);
        pollUntil("a topic", () -> ann.size() == 2, ann);
        Words.say("by pattern: %d", ann.size());
        try (Admin admin = Admin.create(Words.settings(args[0]))) {
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
            pollUntil("a partition more", () -> ann.size() == 3, ann);
            Words.say("grown: %d", ann.size());
            admin.createTopics(List.of(new NewTopic(topic + "-too", 2, (short) 1))).all().get();
            pollUntil("a topic more", () -> ann.size() == 5, ann);
            Words.say("another topic: %d", ann.size());
            admin.deleteTopics(List.of(topic + "-too")).all().get();
            pollUntil("a topic less", () -> ann.size() == 3, ann);
            Words.say("and gone: %d", ann.size());
        }
        ann.consumer.unsubscribe();
        ann.consumer.subscribe(List.of(topic), ann);
        pollUntil("by name", () -> ann.size() == 3, ann);
        ann.consumer.unsubscribe();
        Words.say("unsubscribed: %d", ann.size());
        ann.consumer.close();
    }

    /** bootstrap, topic (1 partition), protocol, strategy: one that sleeps is put out and told so. */
    public static void sleeper(String[] args) throws Exception {
        String topic = args[1];
        Words.fill(args[0], topic, 1, 0, 10);
        Member ann = new Member(settings(args, "max.poll.interval.ms", 700, "max.poll.records", 3)).on(topic);
        pollUntil("ann reads", () -> !ann.values.isEmpty(), ann);
        // On a busy machine she may have been too late before.
        int before = ann.lost;
        Member bob = new Member(settings(args)).on(topic);
        pollUntil("bob takes over", () -> bob.values.size() >= 10, bob);
        Words.say("bob reads %d", bob.values.size());
        bob.consumer.commitSync();
        try {
            ann.consumer.commitSync();
            Words.say("ann commits");
        } catch (Exception refused) {
            Words.say("ann: %s", refused.getClass().getSimpleName());
        }
        pollUntil("ann is told", () -> ann.lost > before, ann);
        Words.say("ann lost %d", ann.lost - before);
        // A member in the middle of a join would wait for the other one.
        ann.consumer.close(CloseOptions.timeout(Duration.ofMillis(200)));
        bob.consumer.close(CloseOptions.timeout(Duration.ofMillis(200)));
    }

    /** bootstrap, topic (2 partitions), protocol, strategy: everything a consumer can ask. */
    public static void questions(String[] args) {
        String topic = args[1];
        Words.fill(args[0], topic, 2, 0, 20);
        TopicPartition zero = new TopicPartition(topic, 0);
        TopicPartition one = new TopicPartition(topic, 1);
        Member ann = new Member(settings(args, "max.poll.records", 4)).on(topic);
        pollUntil("ann reads", () -> ann.values.size() == 20, ann);
        KafkaConsumer<String, String> consumer = ann.consumer;
        Words.say("positions %d %d, ends %s, beginnings %s", consumer.position(zero),
                consumer.position(one), sorted(consumer.endOffsets(List.of(zero, one))),
                sorted(consumer.beginningOffsets(List.of(zero, one))));
        consumer.commitSync(Map.of(zero, new OffsetAndMetadata(7, "seven"), one, new OffsetAndMetadata(3)));
        OffsetAndMetadata seven = consumer.committed(Set.of(zero)).get(zero);
        Words.say("committed %d %s", seven.offset(), seven.metadata());
        consumer.pause(List.of(one));
        consumer.seekToBeginning(List.of(zero, one));
        ann.values.clear();
        pollUntil("half again", () -> ann.values.size() == 10, ann);
        Words.say("paused: %s", ann.values);
        consumer.resume(List.of(one));
        pollUntil("the rest again", () -> ann.values.size() == 20, ann);
        consumer.seekToEnd(List.of(zero));
        Words.say("at the end %d", consumer.position(zero));
        consumer.seek(zero, 9);
        ann.values.clear();
        pollUntil("the last", () -> ann.values.size() == 1, ann);
        Words.say("sought: %s", ann.values);
        Words.say("at time 0: %d", consumer.offsetsForTimes(Map.of(zero, 0L)).get(zero).offset());
        Words.say("ever after: %s", consumer.offsetsForTimes(Map.of(zero, Long.MAX_VALUE - 1)).get(zero));
        Words.say("partitions %d, listed %s", consumer.partitionsFor(topic).size(),
                consumer.listTopics().containsKey(topic));
        Words.say("group %s, static %s", consumer.groupMetadata().groupId().equals(topic),
                consumer.groupMetadata().groupInstanceId().isPresent());
        consumer.commitAsync(Map.of(zero, new OffsetAndMetadata(8)),
                (offsets, error) -> Words.say("async %s", error == null ? "done" : error));
        consumer.commitSync(Map.of(one, new OffsetAndMetadata(4)));
        Words.say("committed %s", offsets(consumer.committed(Set.of(zero, one)).values()));
        consumer.close();
        Properties none = settings(args);
        none.put("auto.offset.reset", "none");
        none.put("group.id", topic + "-none");
        try (KafkaConsumer<String, String> lost = new KafkaConsumer<>(none)) {
            lost.assign(List.of(zero));
            lost.poll(Duration.ofSeconds(60));
            Words.say("no position, and yet it reads");
        } catch (Exception refused) {
            Words.say("no position: %s", refused.getClass().getSimpleName());
        }
    }

    /** bootstrap, topic (4 partitions): a group moves from the classic protocol to KIP-848 and back. */
    public static void upgrade(String[] args) {
        String topic = args[1];
        Words.fill(args[0], topic, 4, 0, 40);
        String[] classic = {args[0], topic, "classic", "cooperative-sticky"};
        String[] modern = {args[0], topic, "consumer", "uniform"};
        Member ann = new Member(settings(classic)).on(topic);
        pollUntil("ann reads", () -> ann.values.size() == 40, ann);
        ann.consumer.commitSync();
        Member bob = new Member(settings(modern)).on(topic);
        pollUntil("both protocols", () -> ann.size() == 2 && bob.size() == 2, ann, bob);
        Words.say("both protocols: %d and %d, disjoint %s", ann.size(), bob.size(), disjoint(ann, bob));
        Words.fill(args[0], topic, 4, 40, 80);
        pollUntil("all is read", () -> ann.values.size() + bob.values.size() == 80, ann, bob);
        ann.consumer.commitSync();
        bob.consumer.commitSync();
        ann.consumer.close();
        pollUntil("bob alone", () -> bob.size() == 4, bob);
        Words.say("bob alone: %d, read again %d", bob.size(), ann.values.size() + bob.values.size() - 80);
        Member eve = new Member(settings(classic)).on(topic);
        pollUntil("back again", () -> eve.size() == 2 && bob.size() == 2, eve, bob);
        bob.consumer.close();
        pollUntil("eve alone", () -> eve.size() == 4, eve);
        Words.say("eve alone: %d, read %d", eve.size(), eve.values.size());
        eve.consumer.close();
    }

    /** bootstrap, topic (1 partition), protocol, strategy, first offset behind lost records, last value. */
    public static void lost(String[] args) {
        TopicPartition zero = new TopicPartition(args[1], 0);
        Member ann = new Member(settings(args, "group.id", args[1] + "-" + args[2])).on(args[1]);
        int[] errors = {0};
        Words.until("the last record is read", () -> {
            try {
                ann.poll();
            } catch (KafkaException refused) {
                Words.say("%s: %s", refused.getClass().getSimpleName(), refused.getMessage());
                Words.say("position %d", ann.consumer.position(zero));
                if (++errors[0] == 2) {
                    ann.consumer.seek(zero, Long.parseLong(args[4]));
                }
            }
            return ann.values.contains(args[5]);
        });
        Words.say("read %s", String.join(" ", ann.values));
        ann.consumer.commitSync();
        Words.say("committed %s", offsets(ann.consumer.committed(Set.of(zero)).values()));
        ann.consumer.close();
    }

    /** bootstrap, topic (1 partition, also the group), protocol, strategy, count: go on from what is committed. */
    public static void resume(String[] args) {
        TopicPartition zero = new TopicPartition(args[1], 0);
        Member ann = new Member(settings(args)).on(args[1]);
        pollUntil("enough is read", () -> ann.values.size() == Integer.parseInt(args[4]), ann);
        Words.say("read %s", String.join(" ", ann.values));
        ann.consumer.commitSync();
        Words.say("committed %s", offsets(ann.consumer.committed(Set.of(zero)).values()));
        ann.consumer.close();
    }

    private static void pollUntil(String what, java.util.function.BooleanSupplier done, Member... members) {
        Words.until(what, () -> {
            for (Member one : members) {
                one.poll();
            }
            return done.getAsBoolean();
        });
    }

    private static boolean disjoint(Member one, Member other) {
        Set<TopicPartition> both = new HashSet<>(one.consumer.assignment());
        both.retainAll(other.consumer.assignment());
        return both.isEmpty();
    }

    private static Set<TopicPartition> partitions(String topic, int count) {
        Set<TopicPartition> all = new HashSet<>();
        for (int number = 0; number < count; number++) {
            all.add(new TopicPartition(topic, number));
        }
        return all;
    }

    private static List<Long> offsets(Collection<OffsetAndMetadata> committed) {
        return committed.stream().map(OffsetAndMetadata::offset).sorted().toList();
    }

    private static Map<String, Long> sorted(Map<TopicPartition, Long> offsets) {
        Map<String, Long> shown = new java.util.TreeMap<>();
        offsets.forEach((partition, offset) -> shown.put("" + partition.partition(), offset));
        return shown;
    }

    /** args: bootstrap, topic (also the group), protocol, strategy (an assignor's short name). */
    private static Properties settings(String[] args, Object... more) {
        Properties settings = Words.settings(args[0], "group.id", args[1], "group.protocol", args[2],
                "auto.offset.reset", "earliest", "enable.auto.commit", "false");
        if (args[2].equals("consumer")) {
            settings.put("group.remote.assignor", args[3]);
        } else {
            String type = new HashMap<>(Map.of("range", "Range", "roundrobin", "RoundRobin", "sticky",
                    "Sticky", "cooperative-sticky", "CooperativeSticky")).get(args[3]);
            settings.put("partition.assignment.strategy",
                    "org.apache.kafka.clients.consumer." + type + "Assignor");
            settings.put("heartbeat.interval.ms", "100");
            settings.put("session.timeout.ms", "10000");
        }
        for (int index = 0; index < more.length; index += 2) {
            settings.put((String) more[index], String.valueOf(more[index + 1]));
        }
        return settings;
    }
}
