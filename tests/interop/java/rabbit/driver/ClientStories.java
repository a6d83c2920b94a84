import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.BuiltinExchangeType;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.Envelope;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.MessageProperties;
import com.rabbitmq.client.RpcClient;
import com.rabbitmq.client.RpcClientParams;
import com.rabbitmq.client.RpcServer;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentSkipListSet;

/** RabbitMQ's Java client by itself. */
final class ClientStories {
    private ClientStories() {
    }

    static void addTo(Map<String, Stories.Story> stories) {
        stories.put("java_greeting", ClientStories::greeting);
        stories.put("java_confirms_and_returns", ClientStories::confirmsAndReturns);
        stories.put("java_acks_and_tags", ClientStories::acksAndTags);
        stories.put("java_dead_letters", ClientStories::deadLetters);
        stories.put("java_routing", ClientStories::routing);
        stories.put("java_shutdown_signals", ClientStories::shutdownSignals);
        stories.put("java_recovers", ClientStories::recovers);
        stories.put("java_transactions", ClientStories::transactions);
        stories.put("java_remote_calls", ClientStories::remoteCalls);
    }

    static ConnectionFactory factory(int port) {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setHost("127.0.0.1");
        factory.setPort(port);
        factory.setAutomaticRecoveryEnabled(false);
        factory.setHandshakeTimeout(60_000);
        return factory;
    }

    private static byte[] bytes(Object text) {
        return String.valueOf(text).getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] body) {
        return new String(body, StandardCharsets.UTF_8);
    }

    private static void greeting(int port, List<String> lines) throws Exception {
        try (Connection connection = factory(port).newConnection("greeting")) {
            lines.add("frame max " + connection.getFrameMax());
            lines.add("channel max " + connection.getChannelMax());
            lines.add("heartbeat " + connection.getHeartbeat());
            Map<?, ?> capabilities = (Map<?, ?>) connection.getServerProperties().get("capabilities");
            Map<String, Object> sorted = new TreeMap<>();
            capabilities.forEach((name, value) -> sorted.put(name.toString(), value));
            lines.add("capabilities " + sorted);
            Channel one = connection.createChannel(7);
            lines.add("channel " + one.getChannelNumber());
        }
    }

    private static void confirmsAndReturns(int port, List<String> lines) throws Exception {
        try (Connection connection = factory(port).newConnection(); Channel channel = connection.createChannel()) {
            Set<Long> acked = new ConcurrentSkipListSet<>();
            Set<Long> nacked = new ConcurrentSkipListSet<>();
            Set<Long> open = new ConcurrentSkipListSet<>();
            Stories.Heard heard = new Stories.Heard();
            channel.confirmSelect();
            channel.addConfirmListener(
                    (tag, multiple) -> settle(open, acked, tag, multiple),
                    (tag, multiple) -> settle(open, nacked, tag, multiple));
            channel.addReturnListener(back -> heard.say("returned " + back.getReplyCode() + " " + back.getReplyText()
                    + " '" + back.getExchange() + "' '" + back.getRoutingKey() + "' " + text(back.getBody())
                    + " correlation=" + back.getProperties().getCorrelationId()
                    + " before its confirm: " + !open.isEmpty()));
            channel.queueDeclare("java.confirms", true, false, false, null);
            for (int i = 0; i < 300; i++) {
                open.add(channel.getNextPublishSeqNo());
                channel.basicPublish("", "java.confirms", MessageProperties.PERSISTENT_BASIC, bytes(i));
            }
            channel.waitForConfirmsOrDie(60_000);
            lines.add("acked " + acked.size() + " nacked " + nacked.size() + " open " + open.size());
            open.add(channel.getNextPublishSeqNo());
            AMQP.BasicProperties named = new AMQP.BasicProperties.Builder().correlationId("c-1").build();
            channel.basicPublish("amq.topic", "nobody.listens", true, named, bytes("lost"));
            lines.add(heard.next());
            lines.add("confirmed all the same: " + channel.waitForConfirms(60_000));
            channel.queueDeclare("java.full", false, true, false,
                    Map.of("x-max-length", 2, "x-overflow", "reject-publish"));
            for (int i = 0; i < 4; i++) {
                channel.basicPublish("", "java.full", null, bytes(i));
                lines.add("into a queue of two: " + channel.waitForConfirms(60_000));
            }
            lines.add("purged " + channel.queuePurge("java.confirms").getMessageCount());
        }
    }

    private static void settle(Set<Long> open, Set<Long> into, long tag, boolean multiple) {
        Set<Long> about = new TreeSet<>(open);
        about.removeIf(one -> multiple ? one > tag : one != tag);
        into.addAll(about);
        open.removeAll(about);
    }

    private static void acksAndTags(int port, List<String> lines) throws Exception {
        try (Connection connection = factory(port).newConnection(); Channel channel = connection.createChannel()) {
            channel.queueDeclare("java.acks", true, false, false, null);
            for (int i = 0; i < 12; i++) {
                channel.basicPublish("", "java.acks", MessageProperties.PERSISTENT_TEXT_PLAIN, bytes(i));
            }
            Stories.Heard heard = new Stories.Heard();
            channel.basicQos(6);
            String tag = channel.basicConsume("java.acks", false, (consumer, delivery) -> heard.say(shown(delivery)),
                    consumer -> heard.say("cancelled"));
            lines.add("first " + heard.next(6));
            channel.basicAck(3, true);
            lines.add("after basicAck(3, true) " + heard.next(3));
            channel.basicNack(5, true, true);
            lines.add("after basicNack(5, true, true) " + heard.next(2));
            channel.basicReject(6, false);
            lines.add("after basicReject(6, false) " + heard.next(1));
            channel.basicNack(7, false, false);
            lines.add("after basicNack(7, false, false) " + heard.next(1));
            channel.basicCancel(tag);
            lines.add("ready " + channel.messageCount("java.acks") + " consumers " + channel.consumerCount("java.acks"));
            channel.basicRecover(true);
            lines.add("recovered " + channel.messageCount("java.acks") + " more " + heard.waiting());
            for (GetResponse got = channel.basicGet("java.acks", true); got != null;
                    got = channel.basicGet("java.acks", true)) {
                lines.add("get " + text(got.getBody()) + " redelivered=" + got.getEnvelope().isRedeliver()
                        + " left=" + got.getMessageCount() + " mode=" + got.getProps().getDeliveryMode());
            }
            lines.add("deleted with " + channel.queueDelete("java.acks").getMessageCount());
        }
    }

    private static String shown(Delivery delivery) {
        Envelope envelope = delivery.getEnvelope();
        return envelope.getDeliveryTag() + ":" + text(delivery.getBody()) + (envelope.isRedeliver() ? "*" : "");
    }

    private static void deadLetters(int port, List<String> lines) throws Exception {
        try (Connection connection = factory(port).newConnection(); Channel channel = connection.createChannel()) {
            channel.exchangeDeclare("java.dlx", BuiltinExchangeType.TOPIC);
            channel.queueDeclare("java.graves", false, true, false, null);
            channel.queueBind("java.graves", "java.dlx", "#");
            Map<String, Map<String, Object>> queues = new TreeMap<>();
            queues.put("java.rejects", Map.of("x-dead-letter-exchange", "java.dlx"));
            queues.put("java.short", Map.of("x-dead-letter-exchange", "java.dlx", "x-max-length", 1));
            queues.put("java.stale", Map.of("x-dead-letter-exchange", "java.dlx", "x-message-ttl", 50,
                    "x-dead-letter-routing-key", "was.stale"));
            Stories.Heard heard = new Stories.Heard();
            channel.basicConsume("java.graves", true, (consumer, delivery) -> heard.say(buried(delivery)),
                    consumer -> { });
            for (Map.Entry<String, Map<String, Object>> queue : queues.entrySet()) {
                channel.queueDeclare(queue.getKey(), false, true, false, queue.getValue());
                channel.basicPublish("", queue.getKey(), null, bytes("one for " + queue.getKey()));
                if (queue.getKey().equals("java.rejects")) {
                    GetResponse got = channel.basicGet("java.rejects", false);
                    channel.basicReject(got.getEnvelope().getDeliveryTag(), false);
                } else if (queue.getKey().equals("java.short")) {
                    channel.basicPublish("", "java.short", null, bytes("one too many"));
                }
                lines.add(heard.next());
            }
            channel.exchangeDelete("java.dlx");
        }
    }

    private static String buried(Delivery delivery) {
        Map<String, Object> headers = delivery.getProperties().getHeaders();
        Map<?, ?> death = (Map<?, ?>) ((List<?>) headers.get("x-death")).get(0);
        Map<String, String> told = new TreeMap<>();
        death.forEach((name, value) -> {
            if (!name.toString().equals("time")) {
                told.put(name.toString(), value.toString());
            }
        });
        return text(delivery.getBody()) + " key=" + delivery.getEnvelope().getRoutingKey() + " " + told
                + " first " + headers.get("x-first-death-reason") + " in " + headers.get("x-first-death-queue");
    }

    private static void routing(int port, List<String> lines) throws Exception {
        try (Connection connection = factory(port).newConnection(); Channel channel = connection.createChannel()) {
            channel.exchangeDeclare("java.front", "topic", false, true, Map.of("alternate-exchange", "java.rest"));
            channel.exchangeDeclare("java.rest", "fanout", false, true, null);
            channel.exchangeDeclare("java.second", "headers", false, true, true, null);
            channel.exchangeBind("java.second", "java.front", "orders.#");
            Map<String, String> queues = new TreeMap<>();
            for (String name : List.of("all-red", "any", "direct", "rest")) {
                queues.put(name, channel.queueDeclare().getQueue());
            }
            channel.queueBind(queues.get("all-red"), "java.second", "",
                    Map.of("x-match", "all", "colour", "red", "size", 3));
            channel.queueBind(queues.get("any"), "java.second", "",
                    Map.of("x-match", "any", "colour", "red", "size", 3));
            channel.queueBind(queues.get("direct"), "java.front", "*.eu");
            channel.queueBind(queues.get("rest"), "java.rest", "");
            publish(channel, "orders.eu", Map.of("colour", "red", "size", 3));
            publish(channel, "orders.us.east", Map.of("colour", "red", "size", 4));
            publish(channel, "orders", Map.of("colour", "blue"));
            publish(channel, "bills.eu", Map.of());
            publish(channel, "nothing.of.that", Map.of());
            publish(channel, "copied", Map.of("CC", List.of("bills.eu"), "BCC", List.of("orders.eu"), "colour", "red"));
            for (Map.Entry<String, String> queue : queues.entrySet()) {
                List<String> found = new ArrayList<>();
                for (GetResponse got = channel.basicGet(queue.getValue(), true); got != null;
                        got = channel.basicGet(queue.getValue(), true)) {
                    Map<String, Object> headers = new TreeMap<>(got.getProps().getHeaders());
                    found.add(got.getEnvelope().getExchange() + "/" + got.getEnvelope().getRoutingKey() + headers);
                }
                lines.add(queue.getKey() + " " + found);
            }
        }
    }

    private static void publish(Channel channel, String key, Map<String, Object> headers) throws IOException {
        AMQP.BasicProperties properties = new AMQP.BasicProperties.Builder().headers(headers).build();
        channel.basicPublish("java.front", key, properties, bytes(key));
    }

    interface Act {
        void on(Channel channel) throws Exception;
    }

    private static void shutdownSignals(int port, List<String> lines) throws Exception {
        Connection connection = factory(port).newConnection();
        connection.createChannel().queueDeclare("java.mine", false, true, false, null);
        List<Act> acts = List.of(
                channel -> channel.queueDeclare("java.mine", true, true, false, null),
                channel -> channel.queueDeclarePassive("java.nowhere"),
                channel -> channel.basicConsume("java.nowhere", new DefaultConsumer(channel)),
                channel -> channel.exchangeDeclare("amq.new", "direct"),
                channel -> channel.exchangeDeclare("amq.direct", "topic", true),
                channel -> channel.queueDeclare("java.bad", false, false, false, Map.of("x-message-ttl", "soon")),
                channel -> {
                    channel.confirmSelect();
                    channel.txSelect();
                },
                channel -> {
                    channel.basicPublish("java.nowhere", "k", null, bytes("x"));
                    channel.queueDeclarePassive("java.mine");
                },
                channel -> {
                    channel.basicAck(99, false);
                    channel.queueDeclarePassive("java.mine");
                });
        for (Act act : acts) {
            lines.add(signal(connection.createChannel(), act));
        }
        try (Connection other = factory(port).newConnection()) {
            lines.add(signal(other.createChannel(), one -> one.basicConsume("java.mine", new DefaultConsumer(one))));
            lines.add(signal(other.createChannel(), one -> one.queueDelete("java.mine")));
        }
        lines.add("still open: " + connection.isOpen());
        lines.add(signal(connection.createChannel(), one -> one.exchangeDeclare("java.x", "no-such-type")));
        lines.add("open after a hard error: " + connection.isOpen());
        ConnectionFactory wrong = factory(port);
        wrong.setPassword("wrong");
        try {
            wrong.newConnection();
        } catch (IOException error) {
            lines.add(error.getClass().getSimpleName() + " " + error.getMessage());
        }
        ConnectionFactory elsewhere = factory(port);
        elsewhere.setVirtualHost("elsewhere");
        try {
            elsewhere.newConnection();
        } catch (IOException error) {
            lines.add(error.getCause().getMessage());
        }
    }

    private static String signal(Channel channel, Act act) throws Exception {
        try {
            act.on(channel);
            channel.abort();
            return "no signal";
        } catch (ShutdownSignalException signal) {
            // Of what came before: whether it is heard of before the next call or in it is chance.
            return told(signal);
        } catch (IOException error) {
            if (error.getCause() instanceof ShutdownSignalException signal) {
                return told(signal);
            }
            throw error;
        }
    }

    private static String told(ShutdownSignalException signal) {
        return signal.isHardError() + " " + signal.getReason();
    }

    private static void recovers(int port, List<String> lines) throws Exception {
        try (Cable cable = new Cable(port)) {
            ConnectionFactory factory = factory(cable.port());
            factory.setAutomaticRecoveryEnabled(true);
            factory.setNetworkRecoveryInterval(100);
            Stories.Heard recovered = new Stories.Heard();
            try (Connection connection = factory.newConnection()) {
                ((com.rabbitmq.client.Recoverable) connection).addRecoveryListener(
                        new com.rabbitmq.client.RecoveryListener() {
                            @Override
                            public void handleRecovery(com.rabbitmq.client.Recoverable one) {
                                recovered.say("recovered");
                            }

                            @Override
                            public void handleRecoveryStarted(com.rabbitmq.client.Recoverable one) {
                            }
                        });
                Channel channel = connection.createChannel();
                channel.exchangeDeclare("java.robust", "direct", false, true, null);
                String queue = channel.queueDeclare().getQueue();
                channel.queueBind(queue, "java.robust", "k");
                Stories.Heard heard = new Stories.Heard();
                channel.basicConsume(queue, false, (consumer, delivery) -> {
                    channel.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
                    heard.say(shown(delivery));
                }, consumer -> { });
                for (int life = 0; life < 3; life++) {
                    channel.basicPublish("java.robust", "k", null, bytes("life " + life));
                    lines.add(heard.next());
                    if (life < 2) {
                        cable.cut();
                        lines.add(recovered.next());
                    }
                }
            }
        }
    }

    private static void transactions(int port, List<String> lines) throws Exception {
        try (Connection connection = factory(port).newConnection(); Channel channel = connection.createChannel();
                Channel watch = connection.createChannel()) {
            channel.queueDeclare("java.tx", false, true, false, null);
            channel.txSelect();
            channel.basicPublish("", "java.tx", null, bytes("kept"));
            channel.basicPublish("", "java.tx", null, bytes("kept, too"));
            lines.add("before the commit " + watch.messageCount("java.tx"));
            channel.txCommit();
            lines.add("after it " + watch.messageCount("java.tx"));
            channel.basicPublish("", "java.tx", null, bytes("never"));
            GetResponse got = channel.basicGet("java.tx", false);
            channel.basicAck(got.getEnvelope().getDeliveryTag(), false);
            channel.txRollback();
            channel.basicRecover(true);
            lines.add("after a rollback " + watch.messageCount("java.tx"));
            got = channel.basicGet("java.tx", false);
            lines.add(text(got.getBody()) + " " + got.getEnvelope().isRedeliver());
            channel.basicAck(got.getEnvelope().getDeliveryTag(), false);
            channel.txCommit();
            lines.add("after an ack is committed " + watch.messageCount("java.tx"));
        }
    }

    /** Answers come straight to the channel that asked, without a queue. */
    private static void remoteCalls(int port, List<String> lines) throws Exception {
        try (Connection connection = factory(port).newConnection(); Channel serving = connection.createChannel();
                Channel asking = connection.createChannel()) {
            String queue = serving.queueDeclare("java.rpc", false, true, false, null).getQueue();
            Stories.Heard heard = new Stories.Heard();
            RpcServer server = new RpcServer(serving, queue) {
                @Override
                public byte[] handleCall(Delivery request, AMQP.BasicProperties replyProperties) {
                    String replyTo = request.getProperties().getReplyTo();
                    heard.say("reply to " + replyTo.substring(0, "amq.rabbitmq.reply-to.".length()) + "…");
                    return bytes(text(request.getBody()) + "!");
                }
            };
            Thread loop = new Thread(() -> {
                try {
                    server.mainloop();
                } catch (IOException | ShutdownSignalException error) {
                    heard.say("the server ended: " + error);
                }
            });
            loop.setDaemon(true);
            loop.start();
            RpcClient client = new RpcClient(new RpcClientParams().channel(asking).exchange("").routingKey(queue)
                    .timeout(60_000));
            List<String> answers = new ArrayList<>();
            for (String question : List.of("one", "two", "three")) {
                answers.add(text(client.primitiveCall(bytes(question))));
            }
            lines.add("answers " + answers);
            lines.add(String.join(" ", new TreeSet<>(heard.next(3))));
            server.terminateMainloop();
        }
    }
}
