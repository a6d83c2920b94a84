import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Small words that the scenarios use. */
final class Words {
    static final long PATIENCE_MS = 90_000;

    private Words() { }

    /** Settings from name, value, name, value ... */
    static Properties settings(String bootstrap, Object... pairs) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        for (int index = 0; index < pairs.length; index += 2) {
            settings.put((String) pairs[index], String.valueOf(pairs[index + 1]));
        }
        return settings;
    }

    /** Write numbered values, spread evenly over the partitions. */
    static void fill(String bootstrap, String topic, int partitions, int from, int until) {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings(bootstrap))) {
            for (int number = from; number < until; number++) {
                producer.send(new ProducerRecord<>(topic, number % partitions, "k" + number, "" + number));
            }
        }
    }

    /** Do something again and again until it has come about. */
    static void until(String what, BooleanSupplier done) {
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (!done.getAsBoolean()) {
            if (System.currentTimeMillis() > end) {
                throw new IllegalStateException("waited in vain: " + what);
            }
        }
    }

    /** Exactly so many values, or as many as come. */
    static List<String> take(KafkaConsumer<String, String> consumer, int count) {
        List<String> found = new ArrayList<>();
        until(count + " records", () -> {
            for (ConsumerRecord<String, String> one : consumer.poll(Duration.ofMillis(100))) {
                found.add(one.value());
            }
            return found.size() >= count;
        });
        return found;
    }

    static void say(String format, Object... values) {
        System.out.println(String.format(format, values));
    }
}
