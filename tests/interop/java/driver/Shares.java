import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.config.ConfigResource;

/** Kafka's share consumer, with both ways to acknowledge. */
public class Shares {
    /** bootstrap, topic (also the group): what was given is accepted by the next poll. */
    public static void implicit(String[] args) throws Exception {
        begin(args);
        Words.fill(args[0], args[1], 1, 0, 30);
        TreeSet<Integer> seen = new TreeSet<>();
        int[] count = {0};
        try (KafkaShareConsumer<String, String> ann = consumer(args, "implicit");
                KafkaShareConsumer<String, String> bob = consumer(args, "implicit")) {
            Words.until("all is read", () -> {
                for (KafkaShareConsumer<String, String> one : List.of(ann, bob)) {
                    one.poll(Duration.ofMillis(100)).forEach(record -> {
                        seen.add(Integer.parseInt(record.value()));
                        count[0]++;
                    });
                }
                return seen.size() == 30;
            });
            ann.poll(Duration.ofMillis(50));
            bob.poll(Duration.ofMillis(50));
            try {
                ann.acknowledge(null);
                Words.say("explicit is accepted");
            } catch (IllegalStateException | NullPointerException refused) {
                Words.say("explicit: refused");
            }
        }
        Words.say("seen %d, each once: %s", seen.size(), count[0] == 30);
        try (KafkaShareConsumer<String, String> eve = consumer(args, "implicit")) {
            Words.fill(args[0], args[1], 1, 30, 31);
            List<String> rest = new ArrayList<>();
            Words.until("the last", () -> {
                eve.poll(Duration.ofMillis(100)).forEach(record -> rest.add(record.value()));
                return !rest.isEmpty();
            });
            Words.say("after that: %s", rest);
        }
    }

    /** bootstrap, topic (also the group): accept, release, reject and renew, each record by itself. */
    public static void explicit(String[] args) throws Exception {
        begin(args);
        Words.fill(args[0], args[1], 1, 0, 12);
        Map<Integer, Integer> deliveries = new TreeMap<>();
        Map<Long, String> told = new TreeMap<>();
        try (KafkaShareConsumer<String, String> ann = consumer(args, "explicit")) {
            ann.setAcknowledgementCommitCallback((offsets, error) -> offsets.forEach((place, set) ->
                    set.forEach(offset -> told.put(offset, error == null ? "ok" : error.getClass().getSimpleName()))));
            Words.until("every record has had its end", () -> {
                for (ConsumerRecord<String, String> one : ann.poll(Duration.ofMillis(100))) {
                    int number = Integer.parseInt(one.value());
                    int before = deliveries.merge(number, 1, Integer::sum) - 1;
                    if (one.deliveryCount().orElse((short) 0) != before + 1) {
                        Words.say("record %d says delivery %s", number, one.deliveryCount());
                    }
                    ann.acknowledge(one, before > 0 ? AcknowledgeType.ACCEPT : switch (number % 3) {
                        case 0 -> AcknowledgeType.ACCEPT;
                        case 1 -> AcknowledgeType.RELEASE;
                        default -> AcknowledgeType.REJECT;
                    });
                }
                ann.commitSync().forEach((place, error) -> error.ifPresent(one -> Words.say("commit: %s", one)));
                return deliveries.values().stream().mapToInt(count -> count).sum() >= 16;
            });
            Words.say("deliveries %s", deliveries.values());
            ann.poll(Duration.ofMillis(50));
        }
        Words.say("told %s", new TreeSet<>(told.values()));
        renew(args);
    }

    private static void renew(String[] args) {
        try (KafkaShareConsumer<String, String> ann = consumer(args, "explicit")) {
            Words.fill(args[0], args[1], 1, 12, 13);
            List<ConsumerRecord<String, String>> held = new ArrayList<>();
            Words.until("one more", () -> {
                ann.poll(Duration.ofMillis(100)).forEach(held::add);
                return !held.isEmpty();
            });
            Words.say("one more: %s", held.get(0).value());
            ann.acknowledge(held.get(0), AcknowledgeType.RENEW);
            ann.commitSync().forEach((place, error) -> Words.say("renewed: %s", error.isEmpty()));
            List<ConsumerRecord<String, String>> again = new ArrayList<>();
            Words.until("it is mine still", () -> {
                ann.poll(Duration.ofMillis(100)).forEach(again::add);
                return !again.isEmpty();
            });
            Words.say("mine still: %s", again.get(0).value());
            ann.acknowledge(again.get(0), AcknowledgeType.ACCEPT);
            ann.commitSync().forEach((place, error) -> Words.say("accepted: %s", error.isEmpty()));
        }
    }

    /** bootstrap, topic (also the group): the topic is deleted under a member, and made again. */
    public static void deleted(String[] args) throws Exception {
        begin(args);
        try (Admin admin = Admin.create(Words.settings(args[0]));
                KafkaShareConsumer<String, String> ann = consumer(args, "explicit")) {
            admin.createTopics(List.of(new NewTopic(args[1], 1, (short) 1))).all().get();
            Words.fill(args[0], args[1], 1, 0, 3);
            List<ConsumerRecord<String, String>> held = take(ann, 3);
            Words.say("held %s", held.stream().map(ConsumerRecord::value).toList());
            admin.deleteTopics(List.of(args[1])).all().get();
            Words.until("the topic is gone", () -> isGone(admin, args[1]));
            commit(ann, held);
            admin.createTopics(List.of(new NewTopic(args[1], 1, (short) 1))).all().get();
            Words.fill(args[0], args[1], 1, 10, 13);
            List<ConsumerRecord<String, String>> anew = take(ann, 3);
            Words.say("given of the new topic: %s", anew.stream().map(ConsumerRecord::value).toList());
            commit(ann, anew);
        }
    }

    private static List<ConsumerRecord<String, String>> take(KafkaShareConsumer<String, String> ann, int count) {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        Words.until(count + " records", () -> {
            // All of one poll have to be acknowledged before the next.
            found.forEach(one -> ann.acknowledge(one, AcknowledgeType.RELEASE));
            found.clear();
            ann.poll(Duration.ofMillis(200)).forEach(found::add);
            return found.size() == count;
        });
        return found;
    }

    private static void commit(
            KafkaShareConsumer<String, String> ann, List<ConsumerRecord<String, String>> records) {
        records.forEach(one -> ann.acknowledge(one, AcknowledgeType.ACCEPT));
        ann.commitSync().values().forEach(error -> Words.say("commit: %s",
                error.map(one -> one.getClass().getSimpleName()).orElse("accepted")));
    }

    private static boolean isGone(Admin admin, String topic) {
        try {
            return !admin.listTopics().names().get().contains(topic);
        } catch (Exception failed) {
            throw new IllegalStateException(failed);
        }
    }

    private static void begin(String[] args) throws Exception {
        try (Admin admin = Admin.create(Words.settings(args[0]))) {
            ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, args[1]);
            AlterConfigOp earliest = new AlterConfigOp(
                    new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(new HashMap<>(Map.of(group, List.of(earliest)))).all().get();
        }
    }

    private static KafkaShareConsumer<String, String> consumer(String[] args, String mode) {
        Properties settings = Words.settings(args[0], "group.id", args[1], "share.acknowledgement.mode", mode,
                "allow.auto.create.topics", "false");
        KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings);
        consumer.subscribe(List.of(args[1]));
        return consumer;
    }
}
