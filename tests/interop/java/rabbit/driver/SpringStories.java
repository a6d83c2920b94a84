import com.rabbitmq.client.Channel;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.springframework.amqp.AmqpRejectAndDontRequeueException;
import org.springframework.amqp.core.AcknowledgeMode;
import org.springframework.amqp.core.Binding;
import org.springframework.amqp.core.BindingBuilder;
import org.springframework.amqp.core.DirectExchange;
import org.springframework.amqp.core.Message;
import org.springframework.amqp.core.MessageListener;
import org.springframework.amqp.core.Queue;
import org.springframework.amqp.core.QueueBuilder;
import org.springframework.amqp.rabbit.annotation.EnableRabbit;
import org.springframework.amqp.rabbit.annotation.Exchange;
import org.springframework.amqp.rabbit.annotation.QueueBinding;
import org.springframework.amqp.rabbit.annotation.RabbitHandler;
import org.springframework.amqp.rabbit.annotation.RabbitListener;
import org.springframework.amqp.rabbit.config.SimpleRabbitListenerContainerFactory;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory;
import org.springframework.amqp.rabbit.connection.ConnectionFactory;
import org.springframework.amqp.rabbit.connection.CorrelationData;
import org.springframework.amqp.rabbit.core.RabbitAdmin;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.amqp.rabbit.listener.AbstractMessageListenerContainer;
import org.springframework.amqp.rabbit.listener.DirectMessageListenerContainer;
import org.springframework.amqp.rabbit.listener.SimpleMessageListenerContainer;
import org.springframework.amqp.rabbit.listener.api.ChannelAwareMessageListener;
import org.springframework.amqp.rabbit.transaction.RabbitTransactionManager;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.messaging.handler.annotation.SendTo;
import org.springframework.stereotype.Component;
import org.springframework.transaction.support.TransactionTemplate;

/** Spring's template with its callbacks, and its listeners with every way to acknowledge. */
final class SpringStories {
    private SpringStories() {
    }

    static void addTo(Map<String, Stories.Story> stories) {
        stories.put("spring_application", SpringStories::application);
        stories.put("spring_confirm_callback", SpringStories::confirmCallback);
        stories.put("spring_return_callback", SpringStories::returnCallback);
        stories.put("spring_ack_modes", SpringStories::ackModes);
        stories.put("spring_manual_acks", SpringStories::manualAcks);
        stories.put("spring_send_and_receive", SpringStories::sendAndReceive);
        stories.put("spring_transactions", SpringStories::transactions);
    }

    private static CachingConnectionFactory factory(int port) {
        CachingConnectionFactory factory = new CachingConnectionFactory("127.0.0.1", port);
        factory.setPublisherConfirmType(CachingConnectionFactory.ConfirmType.CORRELATED);
        factory.setPublisherReturns(true);
        factory.getRabbitConnectionFactory().setHandshakeTimeout(60_000);
        return factory;
    }

    private static String body(Message message) {
        return new String(message.getBody(), java.nio.charset.StandardCharsets.UTF_8);
    }

    // --- an application as people write it: a producer with two callbacks, a consumer that acknowledges ----

    static Stories.Heard heard;
    static int brokerPort;

    @Component
    static class ConfirmCallbackService implements RabbitTemplate.ConfirmCallback {
        @Override
        public void confirm(CorrelationData correlationData, boolean ack, String cause) {
            heard.say("confirm: ack=" + ack + " cause=" + cause + " of "
                    + (correlationData == null ? null : correlationData.getId()));
        }
    }

    @Component
    @SuppressWarnings("deprecation")
    static class ReturnCallbackService implements RabbitTemplate.ReturnCallback {
        @Override
        public void returnedMessage(Message message, int replyCode, String replyText, String exchange,
                String routingKey) {
            heard.say("returned: " + body(message) + " " + replyCode + " " + replyText + " " + exchange + " "
                    + routingKey);
        }
    }

    @Component
    @RabbitListener(queues = "confirm_test_queue")
    static class Consumer {
        @RabbitHandler
        public void processHandler(String text, Channel channel, Message message) throws IOException {
            long deliveryTag = message.getMessageProperties().getDeliveryTag();
            boolean again = message.getMessageProperties().isRedelivered();
            if (text.startsWith("bad") && !again) {
                heard.say("consumer: refused " + text);
                channel.basicNack(deliveryTag, true, true);
            } else {
                heard.say("consumer: " + text + " redelivered=" + again);
                channel.basicAck(deliveryTag, true);
            }
        }

        @RabbitHandler
        public void processNumbers(byte[] bytes, Channel channel, Message message) throws IOException {
            heard.say("consumer: " + bytes.length + " bytes");
            channel.basicAck(message.getMessageProperties().getDeliveryTag(), false);
        }
    }

    @Component
    static class Shouter {
        @RabbitListener(bindings = @QueueBinding(
                value = @org.springframework.amqp.rabbit.annotation.Queue("spring.shout"),
                exchange = @Exchange(value = "spring.calls", type = "topic"), key = "shout.*"), ackMode = "AUTO")
        @SendTo("spring.echoes")
        public String shout(String words) {
            return words.toUpperCase(java.util.Locale.ROOT);
        }
    }

    @Configuration
    @EnableRabbit
    static class Application {
        @Bean
        CachingConnectionFactory connectionFactory() {
            return factory(brokerPort);
        }

        @Bean
        RabbitTemplate rabbitTemplate(ConnectionFactory connections) {
            return new RabbitTemplate(connections);
        }

        @Bean
        RabbitAdmin rabbitAdmin(ConnectionFactory connections) {
            return new RabbitAdmin(connections);
        }

        @Bean
        SimpleRabbitListenerContainerFactory rabbitListenerContainerFactory(ConnectionFactory connections) {
            SimpleRabbitListenerContainerFactory made = new SimpleRabbitListenerContainerFactory();
            made.setConnectionFactory(connections);
            made.setAcknowledgeMode(AcknowledgeMode.MANUAL);
            made.setPrefetchCount(1);
            return made;
        }

        @Bean
        Queue queue() {
            return QueueBuilder.durable("confirm_test_queue").build();
        }

        @Bean
        Queue echoes() {
            return QueueBuilder.durable("spring.echoes").build();
        }

        @Bean
        DirectExchange exchange() {
            return new DirectExchange("confirmTestExchange");
        }

        @Bean
        Binding binding() {
            return BindingBuilder.bind(queue()).to(exchange()).with("info");
        }
    }

    @SuppressWarnings("deprecation")
    private static void application(int port, List<String> lines) throws Exception {
        heard = new Stories.Heard();
        brokerPort = port;
        try (AnnotationConfigApplicationContext context = new AnnotationConfigApplicationContext(Application.class,
                ConfirmCallbackService.class, ReturnCallbackService.class, Consumer.class, Shouter.class)) {
            RabbitTemplate template = context.getBean(RabbitTemplate.class);
            template.setMandatory(true);
            template.setReturnCallback(context.getBean(ReturnCallbackService.class));
            template.setConfirmCallback(context.getBean(ConfirmCallbackService.class));
            template.convertAndSend("confirmTestExchange", "info", "hello,ConfirmCallback你好");
            sorted(lines, heard.next(2));
            template.convertAndSend("confirmTestExchange", "info", "bad one", new CorrelationData("order-2"));
            sorted(lines, heard.next(3));
            template.convertAndSend("confirmTestExchange", "info", new byte[] {1, 2, 3});
            sorted(lines, heard.next(2));
            template.convertAndSend("confirmTestExchange", "warning", "nobody hears this");
            sorted(lines, heard.next(2));
            template.convertAndSend("spring.calls", "shout.loud", "hear me");
            lines.add("echo " + template.receiveAndConvert("spring.echoes", 60_000));
            lines.add(heard.next());
        }
    }

    /** Callbacks come from more than one thread: what belongs to one message is put in order. */
    private static void sorted(List<String> lines, List<String> found) {
        found.sort(null);
        lines.addAll(found);
    }

    // --- confirms and returns --------------------------------------------------------------------------

    private static void confirmCallback(int port, List<String> lines) throws Exception {
        CachingConnectionFactory connections = factory(port);
        Stories.Heard told = new Stories.Heard();
        try {
            RabbitAdmin admin = new RabbitAdmin(connections);
            admin.declareQueue(QueueBuilder.durable("spring.small").maxLength(2)
                    .overflow(QueueBuilder.Overflow.rejectPublish).build());
            RabbitTemplate template = new RabbitTemplate(connections);
            template.setConfirmCallback((data, ack, cause) -> told.say(data.getId() + " ack=" + ack + " cause=" + cause));
            template.convertAndSend("", "spring.small", "first", new CorrelationData("1"));
            lines.add(told.next());
            template.convertAndSend("", "spring.small", "second", new CorrelationData("2"));
            lines.add(told.next());
            template.convertAndSend("", "spring.small", "too much", new CorrelationData("3"));
            lines.add(told.next());
            // The application makes room and sends it again.
            lines.add("taken " + template.receiveAndConvert("spring.small", 60_000));
            template.convertAndSend("", "spring.small", "too much", new CorrelationData("3 again"));
            lines.add(told.next());
            template.convertAndSend("spring.no-exchange", "k", "lost", new CorrelationData("4"));
            lines.add(told.next());
            CorrelationData promise = new CorrelationData("5");
            template.convertAndSend("amq.fanout", "", "to nobody", promise);
            lines.add("future ack=" + promise.getFuture().get(60, TimeUnit.SECONDS).isAck());
            lines.add(told.next());
            lines.add("sum " + template.invoke(one -> {
                one.convertAndSend("amq.fanout", "", "a");
                return "invoked";
            }));
            admin.deleteQueue("spring.small");
        } finally {
            connections.destroy();
        }
    }

    private static void returnCallback(int port, List<String> lines) throws Exception {
        CachingConnectionFactory connections = factory(port);
        Stories.Heard told = new Stories.Heard();
        try {
            RabbitTemplate template = new RabbitTemplate(connections);
            template.setMandatory(true);
            template.setReturnsCallback(back -> told.say("returned " + back.getReplyCode() + " " + back.getReplyText()
                    + " '" + back.getExchange() + "' '" + back.getRoutingKey() + "' " + body(back.getMessage())
                    + " " + back.getMessage().getMessageProperties().getHeader("kind")));
            CorrelationData data = new CorrelationData("r-1");
            template.convertAndSend("amq.direct", "no.such.key", "come back", message -> {
                message.getMessageProperties().setHeader("kind", "parcel");
                return message;
            }, data);
            boolean ack = data.getFuture().get(60, TimeUnit.SECONDS).isAck();
            lines.add(told.next());
            lines.add("then ack=" + ack + ", and it has been returned: " + (data.getReturned() != null));
        } finally {
            connections.destroy();
        }
    }

    // --- listeners -------------------------------------------------------------------------------------

    private static void ackModes(int port, List<String> lines) throws Exception {
        for (boolean direct : new boolean[] {false, true}) {
            for (AcknowledgeMode mode : List.of(AcknowledgeMode.NONE, AcknowledgeMode.AUTO)) {
                CachingConnectionFactory connections = factory(port);
                try {
                    ackMode(connections, direct, mode, lines);
                } finally {
                    connections.destroy();
                }
            }
        }
    }

    private static void ackMode(CachingConnectionFactory connections, boolean direct, AcknowledgeMode mode,
            List<String> lines) throws Exception {
        RabbitAdmin admin = new RabbitAdmin(connections);
        admin.declareQueue(QueueBuilder.durable("spring.dead").build());
        admin.declareQueue(QueueBuilder.durable("spring.modes").deadLetterExchange("")
                .deadLetterRoutingKey("spring.dead").build());
        RabbitTemplate template = new RabbitTemplate(connections);
        Stories.Heard told = new Stories.Heard();
        AbstractMessageListenerContainer container = direct
                ? new DirectMessageListenerContainer(connections) : new SimpleMessageListenerContainer(connections);
        container.setQueueNames("spring.modes");
        container.setAcknowledgeMode(mode);
        container.setPrefetchCount(1);
        container.setErrorHandler(error -> {
            if (error.getCause() instanceof AmqpRejectAndDontRequeueException rejected) {
                throw rejected;
            }
        });
        container.setMessageListener((MessageListener) message -> {
            boolean again = message.getMessageProperties().isRedelivered();
            String text = body(message);
            told.say(text + (again ? "*" : ""));
            if (text.equals("fails once") && !again) {
                throw new IllegalStateException("once");
            }
            if (text.equals("fails for good")) {
                throw new AmqpRejectAndDontRequeueException("for good");
            }
        });
        container.afterPropertiesSet();
        container.start();
        List<String> found = new ArrayList<>();
        for (String text : List.of("fine", "fails once", "fails for good", "last")) {
            template.convertAndSend("", "spring.modes", text);
            found.addAll(told.next(mode == AcknowledgeMode.AUTO && text.equals("fails once") ? 2 : 1));
        }
        container.stop();
        lines.add((direct ? "direct " : "simple ") + mode + " " + found + " dead "
                + template.receiveAndConvert("spring.dead", mode == AcknowledgeMode.AUTO ? 60_000 : 0) + " left "
                + admin.getQueueInfo("spring.modes").getMessageCount());
        admin.deleteQueue("spring.modes");
        admin.deleteQueue("spring.dead");
    }

    /** basicAck(tag, multiple) and basicNack(tag, multiple, requeue), as listeners call them. */
    private static void manualAcks(int port, List<String> lines) throws Exception {
        CachingConnectionFactory connections = factory(port);
        try {
            RabbitAdmin admin = new RabbitAdmin(connections);
            admin.declareQueue(QueueBuilder.durable("spring.manual").build());
            RabbitTemplate template = new RabbitTemplate(connections);
            // On one channel: those of the template's cache have no order among them.
            template.invoke(one -> {
                for (int i = 0; i < 9; i++) {
                    one.convertAndSend("", "spring.manual", "m" + i);
                }
                return null;
            });
            Stories.Heard told = new Stories.Heard();
            SimpleMessageListenerContainer container = new SimpleMessageListenerContainer(connections);
            container.setQueueNames("spring.manual");
            container.setAcknowledgeMode(AcknowledgeMode.MANUAL);
            container.setPrefetchCount(9);
            container.setMessageListener((ChannelAwareMessageListener) (message, channel) -> {
                long tag = message.getMessageProperties().getDeliveryTag();
                boolean again = message.getMessageProperties().isRedelivered();
                told.say(tag + ":" + body(message) + (again ? "*" : ""));
                if (tag == 3) {
                    channel.basicAck(3, true);
                } else if (tag == 6) {
                    channel.basicNack(6, true, true);
                } else if (tag == 9) {
                    channel.basicNack(9, true, false);
                } else if (tag == 12) {
                    channel.basicAck(12, true);
                }
            });
            container.afterPropertiesSet();
            container.start();
            lines.add(told.next(12).toString());
            container.stop();
            lines.add("left " + admin.getQueueInfo("spring.manual").getMessageCount());
            admin.deleteQueue("spring.manual");
        } finally {
            connections.destroy();
        }
    }

    // --- calls and transactions ------------------------------------------------------------------------

    private static void sendAndReceive(int port, List<String> lines) throws Exception {
        CachingConnectionFactory connections = factory(port);
        try {
            RabbitAdmin admin = new RabbitAdmin(connections);
            admin.declareQueue(QueueBuilder.durable("spring.rpc").build());
            SimpleMessageListenerContainer container = new SimpleMessageListenerContainer(connections);
            container.setQueueNames("spring.rpc");
            container.setMessageListener(new org.springframework.amqp.rabbit.listener.adapter.MessageListenerAdapter(
                    new Object() {
                        @SuppressWarnings("unused")
                        public String handleMessage(String question) {
                            return question + "? yes";
                        }
                    }));
            container.afterPropertiesSet();
            container.start();
            RabbitTemplate template = new RabbitTemplate(connections);
            template.setReplyTimeout(60_000);
            lines.add("straight " + template.convertSendAndReceive("", "spring.rpc", "one"));
            RabbitTemplate queued = new RabbitTemplate(connections);
            queued.setReplyTimeout(60_000);
            queued.setUseTemporaryReplyQueues(true);
            lines.add("by a queue " + queued.convertSendAndReceive("", "spring.rpc", "two"));
            container.stop();
            admin.deleteQueue("spring.rpc");
        } finally {
            connections.destroy();
        }
    }

    private static void transactions(int port, List<String> lines) throws Exception {
        CachingConnectionFactory connections = new CachingConnectionFactory("127.0.0.1", port);
        try {
            RabbitAdmin admin = new RabbitAdmin(connections);
            admin.declareQueue(QueueBuilder.durable("spring.tx").build());
            RabbitTemplate template = new RabbitTemplate(connections);
            template.setChannelTransacted(true);
            TransactionTemplate work = new TransactionTemplate(new RabbitTransactionManager(connections));
            work.execute(status -> {
                template.convertAndSend("", "spring.tx", "kept");
                return null;
            });
            work.execute(status -> {
                template.convertAndSend("", "spring.tx", "never");
                status.setRollbackOnly();
                return null;
            });
            lines.add("committed " + admin.getQueueInfo("spring.tx").getMessageCount());
            work.execute(status -> {
                lines.add("received " + template.receiveAndConvert("spring.tx", 60_000));
                status.setRollbackOnly();
                return null;
            });
            Message again = template.receive("spring.tx", 60_000);
            lines.add("again " + body(again) + " redelivered=" + again.getMessageProperties().isRedelivered());
            lines.add("left " + admin.getQueueInfo("spring.tx").getMessageCount());
            admin.deleteQueue("spring.tx");
        } finally {
            connections.destroy();
        }
    }
}
