import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Kafka's producer and consumer while nodes die around them. */
public class Chaos {
    /**
     * bootstrap, topic, partition, file: write numbered records, idempotently and with acks=all, until the file's
     * neighbour "stop" is there; the file gets a line "offset value time" for every acknowledged one as it comes.
     */
    public static void write(String[] args) throws IOException, InterruptedException {
        Path file = Path.of(args[3]);
        Path stop = file.resolveSibling("stop");
        AtomicInteger acknowledged = new AtomicInteger();
        AtomicInteger refused = new AtomicInteger();
        int sent = 0;
        try (PrintWriter lines = new PrintWriter(Files.newBufferedWriter(file));
                KafkaProducer<String, String> producer = new KafkaProducer<>(Words.settings(
                args[0], "acks", "all", "linger.ms", 1, "delivery.timeout.ms", 300_000,
                "request.timeout.ms", 5_000, "reconnect.backoff.max.ms", 100, "max.block.ms", 300_000))) {
            for (; !Files.exists(stop); sent++) {
                String value = "java " + sent;
                producer.send(new ProducerRecord<>(args[1], Integer.valueOf(args[2]), null, value), (at, error) -> {
                    if (error == null) {
                        lines.println(at.offset() + "\t" + value + "\t" + System.nanoTime() / 1_000_000);
                        lines.flush();
                        acknowledged.incrementAndGet();
                    } else {
                        refused.incrementAndGet();
                    }
                });
                Thread.sleep(5);
            }
            producer.flush();
        }
        Words.say("sent %d, acknowledged %d, refused %d", sent, acknowledged.get(), refused.get());
    }

    /** bootstrap, topic, partition, file: everything in the partition up to its end, as lines "offset value". */
    public static void read(String[] args) throws IOException {
        TopicPartition place = new TopicPartition(args[1], Integer.parseInt(args[2]));
        List<String> found = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(Words.settings(args[0]))) {
            consumer.assign(List.of(place));
            consumer.seekToBeginning(List.of(place));
            long end = consumer.endOffsets(List.of(place)).get(place);
            Words.until("the end", () -> {
                for (ConsumerRecord<String, String> one : consumer.poll(Duration.ofMillis(100))) {
                    found.add(one.offset() + "\t" + one.value());
                }
                return consumer.position(place) >= end;
            });
        }
        Files.write(Path.of(args[3]), found);
        Words.say("read %d", found.size());
    }
}
