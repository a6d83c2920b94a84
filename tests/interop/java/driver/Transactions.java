import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

/** Kafka's producer with transactions and with idempotence alone. */
public class Transactions {
    /** bootstrap, source, target, protocol: consume, transform, produce; some rounds abort, some are abandoned. */
    public static void copy(String[] args) {
        String source = args[1];
        String target = args[2];
        Words.fill(args[0], source, 2, 0, 200);
        int aborted = 0;
        int abandoned = 0;
        int copied = 0;
        List<KafkaProducer<String, String>> zombies = new ArrayList<>();
        KafkaProducer<String, String> producer = producer(args[0], source);
        KafkaConsumer<String, String> consumer = reader(args, source);
        for (int round = 1; copied < 200; round++) {
            ConsumerRecords<String, String> records = some(consumer);
            producer.beginTransaction();
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (ConsumerRecord<String, String> one : records) {
                producer.send(new ProducerRecord<>(target, one.partition(), one.key(), "copy of " + one.value()));
                offsets.put(new TopicPartition(source, one.partition()), new OffsetAndMetadata(one.offset() + 1));
            }
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            if (round % 4 == 0) {
                producer.abortTransaction();
                aborted++;
                rewind(consumer);
            } else if (round % 5 == 0) {
                // The copier is gone with its transaction open; the next one takes its place in the group.
                producer.flush();
                zombies.add(producer);
                consumer.close();
                producer = producer(args[0], source);
                consumer = reader(args, source);
                abandoned++;
            } else {
                producer.commitTransaction();
                copied += records.count();
            }
        }
        producer.close();
        consumer.close();
        Words.say("copied %d; aborted some: %s, abandoned some: %s", copied, aborted > 0, abandoned > 0);
        for (KafkaProducer<String, String> zombie : zombies) {
            try {
                zombie.commitTransaction();
                Words.say("a zombie commits");
            } catch (Exception refused) {
                Words.say("a zombie: %s", refused.getClass().getSimpleName());
            }
            zombie.close(Duration.ZERO);
        }
        for (int partition = 0; partition < 2; partition++) {
            List<String> found = committed(args[0], new TopicPartition(target, partition), 100);
            boolean ordered = true;
            for (int index = 0; index < found.size(); index++) {
                ordered &= found.get(index).equals("copy of " + (2 * index + partition));
            }
            Words.say("partition %d: %d copies, each once and in order: %s", partition, found.size(), ordered);
        }
    }

    /** bootstrap, topic (1 partition): what readers of each kind may see of an open transaction. */
    public static void isolation(String[] args) throws Exception {
        TopicPartition place = new TopicPartition(args[1], 0);
        KafkaProducer<String, String> producer = producer(args[0], args[1]);
        Words.fill(args[0], args[1], 1, 0, 3);
        producer.beginTransaction();
        Future<RecordMetadata> sent = producer.send(new ProducerRecord<>(args[1], 0, "k", "open"));
        producer.flush();
        Words.say("open at %d", sent.get().offset());
        Words.fill(args[0], args[1], 1, 3, 5);
        try (Admin admin = Admin.create(Words.settings(args[0]))) {
            Words.say("ends: %d uncommitted, %d committed", end(admin, place, false), end(admin, place, true));
            Words.say("seen: %s", committed(args[0], place, 3));
            producer.abortTransaction();
            Words.until("the marker", () -> end(admin, place, true) == 7);
            Words.say("ends: %d uncommitted, %d committed", end(admin, place, false), end(admin, place, true));
            Words.say("seen: %s", committed(args[0], place, 5));
        }
        producer.beginTransaction();
        producer.commitTransaction();
        producer.beginTransaction();
        producer.abortTransaction();
        Words.say("empty transactions are fine");
        KafkaProducer<String, String> next = producer(args[0], args[1]);
        try {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(args[1], 0, "k", "fenced")).get();
            Words.say("an old producer writes");
        } catch (ExecutionException refused) {
            Words.say("the old one: %s", refused.getCause().getClass().getSimpleName());
        }
        producer.close(Duration.ZERO);
        next.close();
    }

    /** bootstrap, topic (1 partition): refusals that a program must be able to tell apart. */
    public static void refusals(String[] args) throws Exception {
        Properties tooLong = Words.settings(args[0], "transactional.id", args[1], "transaction.timeout.ms", 90_000_000);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(tooLong)) {
            producer.initTransactions();
            Words.say("a day is fine");
        } catch (Exception refused) {
            Words.say("a day: %s", refused.getMessage());
        }
        try (KafkaProducer<String, String> producer = producer(args[0], args[1])) {
            producer.beginTransaction();
            TopicPartition place = new TopicPartition(args[1], 0);
            try {
                producer.sendOffsetsToTransaction(Map.of(place, new OffsetAndMetadata(1)),
                        new ConsumerGroupMetadata(args[1], 7, "nobody", java.util.Optional.empty()));
                Words.say("nobody commits");
            } catch (Exception refused) {
                Words.say("nobody: %s", refused.getClass().getSimpleName());
            }
            producer.abortTransaction();
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(Map.of(place, new OffsetAndMetadata(5, "five")),
                    new ConsumerGroupMetadata(args[1]));
            producer.commitTransaction();
        }
        try (Admin admin = Admin.create(Words.settings(args[0]))) {
            OffsetAndMetadata stored = admin.listConsumerGroupOffsets(args[1]).partitionsToOffsetAndMetadata()
                    .get().get(new TopicPartition(args[1], 0));
            Words.say("stored %d %s", stored.offset(), stored.metadata());
            Words.until("it is complete", () -> state(admin, args[1]) != TransactionState.PREPARE_COMMIT);
            Words.say("state %s", state(admin, args[1]));
            admin.fenceProducers(List.of(args[1])).all().get();
            Words.say("fenced: state %s", state(admin, args[1]));
        }
    }

    /** bootstrap, topic (3 partitions): an idempotent producer with five requests in flight keeps the order. */
    public static void idempotent(String[] args) {
        Properties settings = Words.settings(args[0], "enable.idempotence", "true", "acks", "all",
                "max.in.flight.requests.per.connection", 5, "batch.size", 300, "linger.ms", 0);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            for (int number = 0; number < 6_000; number++) {
                producer.send(new ProducerRecord<>(args[1], number % 3, null, "" + number / 3));
            }
        }
        for (int partition = 0; partition < 3; partition++) {
            List<String> found = committed(args[0], new TopicPartition(args[1], partition), 2_000);
            boolean ordered = true;
            for (int index = 0; index < found.size(); index++) {
                ordered &= found.get(index).equals("" + index);
            }
            Words.say("partition %d: %d in order: %s", partition, found.size(), ordered);
        }
    }

    private static KafkaProducer<String, String> producer(String bootstrap, String transactionalId) {
        KafkaProducer<String, String> producer = new KafkaProducer<>(
                Words.settings(bootstrap, "transactional.id", transactionalId));
        producer.initTransactions();
        return producer;
    }

    private static KafkaConsumer<String, String> reader(String[] args, String topic) {
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(Words.settings(args[0],
                "group.id", topic, "group.protocol", args[3], "auto.offset.reset", "earliest",
                "enable.auto.commit", "false", "isolation.level", "read_committed", "max.poll.records", 17));
        consumer.subscribe(List.of(topic));
        return consumer;
    }

    private static ConsumerRecords<String, String> some(KafkaConsumer<String, String> consumer) {
        List<ConsumerRecords<String, String>> found = new ArrayList<>();
        Words.until("something to copy", () -> {
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
            if (!records.isEmpty()) {
                found.add(records);
            }
            return !found.isEmpty();
        });
        return found.get(0);
    }

    private static void rewind(KafkaConsumer<String, String> consumer) {
        consumer.committed(consumer.assignment()).forEach((place, offset) ->
                consumer.seek(place, offset == null ? 0 : offset.offset()));
    }

    private static TransactionState state(Admin admin, String name) {
        try {
            return admin.describeTransactions(List.of(name)).description(name).get().state();
        } catch (InterruptedException | ExecutionException error) {
            throw new IllegalStateException(error);
        }
    }

    private static long end(Admin admin, TopicPartition place, boolean committed) {
        try {
            ListOffsetsResult listed = admin.listOffsets(Map.of(place, OffsetSpec.latest()),
                    new org.apache.kafka.clients.admin.ListOffsetsOptions(committed
                            ? org.apache.kafka.common.IsolationLevel.READ_COMMITTED
                            : org.apache.kafka.common.IsolationLevel.READ_UNCOMMITTED));
            return listed.partitionResult(place).get().offset();
        } catch (InterruptedException | ExecutionException error) {
            throw new IllegalStateException(error);
        }
    }

    /** What a reader of committed data finds in a partition: so much, and then nothing. */
    private static List<String> committed(String bootstrap, TopicPartition place, int count) {
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(Words.settings(bootstrap,
                "isolation.level", "read_committed", "auto.offset.reset", "earliest",
                "group.id", place.topic() + "-unused", "enable.auto.commit", "false"))) {
            consumer.assign(List.of(place));
            List<String> found = Words.take(consumer, count);
            consumer.poll(Duration.ofMillis(200)).forEach(more -> found.add(more.value()));
            return found;
        }
    }
}
