import java.lang.reflect.Method;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/** Every method of Kafka's Admin, and one line of what came of it. */
public class Admins {
    /** For what is asked again until the time is over, because a client cannot know that it will never be. */
    private static final int SHORT_MS = 1500;

    private final Admin admin;
    private final String name;
    private final String directory;
    private final Set<String> called = new TreeSet<>();

    private Admins(Admin admin, String name, String directory) {
        this.admin = admin;
        this.name = name;
        this.directory = directory;
    }

    /** bootstrap, a name for topics and groups, the log directory. */
    public static void every(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("client.id", "matrix");
        settings.put("default.api.timeout.ms", "60000");
        settings.put("request.timeout.ms", "30000");
        try (Admin admin = Admin.create(settings)) {
            Admins matrix = new Admins(admin, args[1], args[2]);
            matrix.topics();
            matrix.settings();
            matrix.records();
            matrix.security();
            matrix.quotas();
            matrix.groups();
            matrix.transactions();
            matrix.cluster();
            matrix.metrics();
            matrix.end();
        }
    }

    private void topics() {
        TopicPartition first = new TopicPartition(name, 0);
        call("createTopics", () -> all(admin.createTopics(List.of(
                new NewTopic(name, 2, (short) 1).configs(Map.of("retention.ms", "1000000")),
                new NewTopic(name, 3, (short) 1).configs(Map.of()))).values()));
        call("createTopics", () -> all(admin.createTopics(List.of(
                new NewTopic(name, Optional.of(2), Optional.empty()), new NewTopic("a/b", 1, (short) 1),
                new NewTopic(name + "-f", 1, (short) 3))).values()));
        until("the topic is there", () -> admin.listTopics().names().get().contains(name));
        call("createTopics", () -> all(admin.createTopics(List.of(new NewTopic(name, 2, (short) 1))).values()));
        call("listTopics", () -> admin.listTopics().names().get().contains(name));
        call("describeTopics", () -> {
            TopicDescription found = admin.describeTopics(List.of(name)).allTopicNames().get().get(name);
            return found.name() + " " + found.partitions().size() + " " + found.isInternal();
        });
        call("describeTopics", () -> all(admin.describeTopics(List.of(name + "-no")).topicNameValues()));
        call("describeTopics", () -> all(admin.describeTopics(
                TopicCollection.ofTopicIds(List.of(new Uuid(7, 7)))).topicIdValues()));
        call("createPartitions", () -> all(admin.createPartitions(Map.of(
                name, NewPartitions.increaseTo(3), name + "-no", NewPartitions.increaseTo(3))).values()));
        until("it has grown", () -> admin.describeTopics(List.of(name)).allTopicNames().get()
                .get(name).partitions().size() == 3);
        call("electLeaders", () -> errors(admin.electLeaders(ElectionType.PREFERRED, Set.of(first)).partitions().get()));
        call("electLeaders", () -> errors(admin.electLeaders(ElectionType.UNCLEAN,
                Set.of(first, new TopicPartition(name, 99))).partitions().get()));
        call("alterPartitionReassignments", () -> all(admin.alterPartitionReassignments(Map.of(
                first, Optional.of(new NewPartitionReassignment(List.of(node()))),
                new TopicPartition(name, 1), Optional.empty(),
                new TopicPartition(name, 2), Optional.of(new NewPartitionReassignment(List.of(77))),
                new TopicPartition(name, 99), Optional.empty())).values()));
        call("listPartitionReassignments", () -> admin.listPartitionReassignments().reassignments().get());
        call("alterReplicaLogDirs", () -> all(admin.alterReplicaLogDirs(Map.of(
                new TopicPartitionReplica(name, 0, node()), directory,
                new TopicPartitionReplica(name, 1, node()), "/no/such/directory",
                new TopicPartitionReplica(name, 99, node()), directory)).values()));
        call("describeLogDirs", () -> {
            Map<String, LogDirDescription> found = admin.describeLogDirs(List.of(node())).allDescriptions()
                    .get().get(node());
            LogDirDescription one = found.get(directory);
            return found.size() + " " + one.error() + " " + one.replicaInfos().get(first)
                    + " " + one.totalBytes().isPresent() + " " + one.usableBytes().isPresent();
        });
        call("describeReplicaLogDirs", () -> {
            TopicPartitionReplica replica = new TopicPartitionReplica(name, 0, node());
            DescribeReplicaLogDirsResult.ReplicaLogDirInfo info =
                    admin.describeReplicaLogDirs(List.of(replica)).all().get().get(replica);
            return directory.equals(info.getCurrentReplicaLogDir()) + " " + info.getCurrentReplicaOffsetLag()
                    + " " + info.getFutureReplicaLogDir();
        });
    }

    private void settings() {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, name);
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, String.valueOf(node()));
        ConfigResource logger = new ConfigResource(ConfigResource.Type.BROKER_LOGGER, String.valueOf(node()));
        ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, name);
        ConfigResource metrics = new ConfigResource(ConfigResource.Type.CLIENT_METRICS, name);
        call("incrementalAlterConfigs", () -> alter(topic, "segment.bytes", "2000000"));
        call("incrementalAlterConfigs", () -> alter(topic, "segment.bytes", "many"));
        call("incrementalAlterConfigs", () -> alter(broker, "node.id", "9"));
        call("incrementalAlterConfigs", () -> alter(logger, "no.such.logger", "INFO"));
        call("incrementalAlterConfigs", () -> alter(group, "share.auto.offset.reset", "earliest"));
        call("incrementalAlterConfigs", () -> alter(group, "no.such", "1"));
        call("incrementalAlterConfigs", () -> alter(metrics, "interval.ms", "1000"));
        call("incrementalAlterConfigs", () -> alter(metrics, "interval.ms", "1"));
        until("it is told", () -> value(topic, "segment.bytes").contains("2000000")
                && value(metrics, "interval.ms").contains("1000 "));
        call("describeConfigs", () -> value(topic, "segment.bytes"));
        call("describeConfigs", () -> value(topic, "cleanup.policy"));
        call("describeConfigs", () -> value(broker, "node.id").endsWith(" true INT"));
        call("describeConfigs", () -> value(group, "share.auto.offset.reset"));
        call("describeConfigs", () -> value(metrics, "interval.ms"));
        call("describeConfigs", () -> admin.describeConfigs(List.of(logger)).all().get().get(logger).get("root") != null);
        call("describeConfigs", () -> all(admin.describeConfigs(List.of(
                new ConfigResource(ConfigResource.Type.TOPIC, name + "-no"))).values()));
        call("listConfigResources", () -> admin.listConfigResources(
                Set.of(ConfigResource.Type.CLIENT_METRICS), new ListConfigResourcesOptions()).all().get()
                .contains(metrics));
        call("listClientMetricsResources", () -> admin.listClientMetricsResources().all().get().stream()
                .map(ClientMetricsResourceListing::name).anyMatch(name::equals));
        call("incrementalAlterConfigs", () -> all(admin.incrementalAlterConfigs(Map.of(
                metrics, List.of(new AlterConfigOp(new ConfigEntry("interval.ms", null), AlterConfigOp.OpType.DELETE)),
                group, List.of(new AlterConfigOp(
                        new ConfigEntry("share.auto.offset.reset", null), AlterConfigOp.OpType.DELETE))))
                .values()));
    }

    private void records() throws Exception {
        Words.fill(kafka(), name, 1, 0, 10);
        TopicPartition first = new TopicPartition(name, 0);
        call("listOffsets", () -> {
            Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
            asked.put(new TopicPartition(name, 99), OffsetSpec.latest());
            return all(Map.of("99", admin.listOffsets(asked, new ListOffsetsOptions().timeoutMs(SHORT_MS))
                    .partitionResult(new TopicPartition(name, 99))));
        });
        call("listOffsets", () -> offset(first, OffsetSpec.earliest()));
        call("deleteRecords", () -> admin.deleteRecords(Map.of(first, RecordsToDelete.beforeOffset(0)))
                .lowWatermarks().get(first).get().lowWatermark());
        call("deleteRecords", () -> all(admin.deleteRecords(
                Map.of(first, RecordsToDelete.beforeOffset(1000))).lowWatermarks()));
        call("deleteRecords", () -> all(admin.deleteRecords(
                Map.of(new TopicPartition(name, 99), RecordsToDelete.beforeOffset(0)),
                new DeleteRecordsOptions().timeoutMs(SHORT_MS)).lowWatermarks()));
        call("describeProducers", () -> admin.describeProducers(List.of(first)).partitionResult(first).get()
                .activeProducers().size() <= 1);
    }

    private void security() {
        AclBinding binding = new AclBinding(
                new ResourcePattern(ResourceType.TOPIC, name, PatternType.LITERAL),
                new AccessControlEntry("User:x", "*", AclOperation.READ, AclPermissionType.ALLOW));
        call("createAcls", () -> admin.createAcls(List.of(binding)).all().get());
        call("describeAcls", () -> admin.describeAcls(AclBindingFilter.ANY).values().get());
        call("deleteAcls", () -> admin.deleteAcls(List.of(AclBindingFilter.ANY)).all().get());
        call("createDelegationToken", () -> admin.createDelegationToken().delegationToken().get());
        call("renewDelegationToken", () -> admin.renewDelegationToken(new byte[] {1}).expiryTimestamp().get());
        call("expireDelegationToken", () -> admin.expireDelegationToken(new byte[] {1}).expiryTimestamp().get());
        call("describeDelegationToken", () -> admin.describeDelegationToken().delegationTokens().get());
        ScramCredentialInfo info = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096);
        call("alterUserScramCredentials", () -> all(admin.alterUserScramCredentials(List.of(
                new UserScramCredentialUpsertion(name, info, "secret"),
                new UserScramCredentialDeletion(name + "-no", ScramMechanism.SCRAM_SHA_512))).values()));
        until("it is told", () -> admin.describeUserScramCredentials().users().get().contains(name));
        call("describeUserScramCredentials", () -> admin.describeUserScramCredentials(List.of(name))
                .description(name).get());
        call("describeUserScramCredentials", () -> admin.describeUserScramCredentials(List.of(name + "-no"))
                .description(name + "-no").get());
        call("alterUserScramCredentials", () -> all(admin.alterUserScramCredentials(List.of(
                new UserScramCredentialDeletion(name, ScramMechanism.SCRAM_SHA_256))).values()));
    }

    private void quotas() {
        ClientQuotaEntity entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, name));
        call("alterClientQuotas", () -> all(admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity,
                List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1e9))))).values()));
        call("alterClientQuotas", () -> all(admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity,
                List.of(new ClientQuotaAlteration.Op("no_such_rate", 1.0))))).values()));
        ClientQuotaFilter mine = ClientQuotaFilter.containsOnly(
                List.of(ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.USER, name)));
        until("it is told", () -> !admin.describeClientQuotas(mine).entities().get().isEmpty());
        call("describeClientQuotas", () -> admin.describeClientQuotas(mine).entities().get());
        call("alterClientQuotas", () -> all(admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity,
                List.of(new ClientQuotaAlteration.Op("producer_byte_rate", null))))).values()));
    }

    private void groups() {
        TopicPartition first = new TopicPartition(name, 0);
        Map<TopicPartition, OffsetAndMetadata> offsets = Map.of(first, new OffsetAndMetadata(0));
        until("there is a coordinator", () -> {
            admin.alterConsumerGroupOffsets(name, offsets).all().get();
            return true;
        });
        call("alterConsumerGroupOffsets", () -> admin.alterConsumerGroupOffsets(name, offsets).all().get());
        call("listConsumerGroupOffsets", () -> admin.listConsumerGroupOffsets(name)
                .partitionsToOffsetAndMetadata().get());
        call("listConsumerGroups", () -> admin.listConsumerGroups().all().get().stream()
                .anyMatch(one -> one.groupId().equals(name)));
        call("listGroups", () -> admin.listGroups().all().get().stream()
                .filter(one -> one.groupId().equals(name)).toList());
        call("describeConsumerGroups", () -> {
            ConsumerGroupDescription found = admin.describeConsumerGroups(List.of(name)).all().get().get(name);
            return found.groupState() + " " + found.members() + " " + found.partitionAssignor();
        });
        call("describeConsumerGroups", () -> all(admin.describeConsumerGroups(List.of(name + "-no")).describedGroups()));
        call("describeClassicGroups", () -> {
            ClassicGroupDescription found = admin.describeClassicGroups(List.of(name)).all().get().get(name);
            return found.state() + " " + found.members();
        });
        call("removeMembersFromConsumerGroup", () -> admin.removeMembersFromConsumerGroup(name,
                new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("nobody")))).all().get());
        call("deleteConsumerGroupOffsets", () -> admin.deleteConsumerGroupOffsets(name, Set.of(first)).all().get());
        call("deleteConsumerGroups", () -> all(admin.deleteConsumerGroups(List.of(name, name + "-no")).deletedGroups()));
        String share = name + "-share";
        call("describeShareGroups", () -> all(admin.describeShareGroups(List.of(share)).describedGroups()));
        call("alterShareGroupOffsets", () -> admin.alterShareGroupOffsets(share, Map.of(first, 0L)).all().get());
        call("listShareGroupOffsets", () -> admin.listShareGroupOffsets(
                Map.of(share, new ListShareGroupOffsetsSpec())).partitionsToOffsetInfo(share).get());
        call("deleteShareGroupOffsets", () -> admin.deleteShareGroupOffsets(share, Set.of(name)).all().get());
        call("deleteShareGroups", () -> all(admin.deleteShareGroups(List.of(share)).deletedGroups()));
        String streams = name + "-streams";
        call("describeStreamsGroups", () -> all(admin.describeStreamsGroups(List.of(streams)).describedGroups()));
        call("alterStreamsGroupOffsets", () -> admin.alterStreamsGroupOffsets(streams, offsets).all().get());
        call("listStreamsGroupOffsets", () -> admin.listStreamsGroupOffsets(
                Map.of(streams, new ListStreamsGroupOffsetsSpec())).partitionsToOffsetAndMetadata(streams).get());
        call("deleteStreamsGroupOffsets", () -> admin.deleteStreamsGroupOffsets(streams, Set.of(first)).all().get());
        call("deleteStreamsGroups", () -> all(admin.deleteStreamsGroups(List.of(streams)).deletedGroups()));
    }

    private void transactions() {
        TopicPartition first = new TopicPartition(name, 0);
        until("there is a coordinator", () -> {
            admin.fenceProducers(List.of(name)).all().get();
            return true;
        });
        call("fenceProducers", () -> admin.fenceProducers(List.of(name)).all().get());
        call("describeTransactions", () -> {
            TransactionDescription found = admin.describeTransactions(List.of(name)).all().get().get(name);
            return found.state() + " " + found.producerEpoch() + " " + found.topicPartitions();
        });
        call("describeTransactions", () -> admin.describeTransactions(List.of(name + "-no")).all().get());
        call("listTransactions", () -> admin.listTransactions().all().get().stream()
                .anyMatch(one -> one.transactionalId().equals(name)));
        call("listTransactions", () -> admin.listTransactions(
                new ListTransactionsOptions().filterOnTransactionalIdPattern(".*-nobody")).all().get());
        call("abortTransaction", () -> admin.abortTransaction(
                new AbortTransactionSpec(first, 987654321L, (short) 0, 0)).all().get());
        call("forceTerminateTransaction", () -> admin.forceTerminateTransaction(name).result().get());
        call("forceTerminateTransaction", () -> admin.forceTerminateTransaction(name + "-no").result().get());
    }

    private void cluster() {
        call("describeCluster", () -> admin.describeCluster().nodes().get().size()
                + " " + (admin.describeCluster().controller().get().id() == node())
                + " " + admin.describeCluster().authorizedOperations().get());
        call("describeCluster", () -> new TreeSet<>(admin.describeCluster(
                new DescribeClusterOptions().includeAuthorizedOperations(true)).authorizedOperations().get()));
        call("describeFeatures", () -> {
            FeatureMetadata found = admin.describeFeatures().featureMetadata().get();
            Map<String, Object> lines = new TreeMap<>(found.finalizedFeatures());
            lines.remove("streams.version");
            return lines + " " + found.supportedFeatures().get("metadata.version");
        });
        call("updateFeatures", () -> all(admin.updateFeatures(
                Map.of("share.version", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE)),
                new UpdateFeaturesOptions().validateOnly(true)).values()));
        call("updateFeatures", () -> all(admin.updateFeatures(
                Map.of("no.such", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE)),
                new UpdateFeaturesOptions().validateOnly(true)).values()));
        call("describeMetadataQuorum", () -> {
            QuorumInfo found = admin.describeMetadataQuorum().quorumInfo().get();
            return (found.leaderId() == node()) + " " + found.voters().size() + " " + found.observers().size()
                    + " " + (found.highWatermark() > 0);
        });
        call("unregisterBroker", () -> admin.unregisterBroker(77).all().get());
        call("addRaftVoter", () -> admin.addRaftVoter(77, new Uuid(7, 7),
                Set.of(new RaftVoterEndpoint("CONTROLLER", "127.0.0.1", 9))).all().get());
        call("removeRaftVoter", () -> admin.removeRaftVoter(77, new Uuid(7, 7)).all().get());
    }

    private void metrics() {
        call("clientInstanceId", () -> admin.clientInstanceId(Duration.ofSeconds(2)));
        KafkaMetric one = (KafkaMetric) admin.metrics().values().iterator().next();
        call("registerMetricForSubscription", () -> {
            admin.registerMetricForSubscription(one);
            return "done";
        });
        call("unregisterMetricFromSubscription", () -> {
            admin.unregisterMetricFromSubscription(one);
            return "done";
        });
        call("metrics", () -> !admin.metrics().isEmpty());
    }

    private void end() {
        call("deleteTopics", () -> all(admin.deleteTopics(List.of(name, name + "-no")).topicNameValues()));
        call("deleteTopics", () -> all(admin.deleteTopics(
                TopicCollection.ofTopicIds(List.of(new Uuid(7, 7)))).topicIdValues()));
        call("close", () -> "at the end");
        Set<String> missing = new TreeSet<>();
        for (Method method : Admin.class.getMethods()) {
            if (!called.contains(method.getName()) && !method.getName().equals("create")) {
                missing.add(method.getName());
            }
        }
        Words.say("never called: %s", missing);
    }

    // Small words

    /** Waits for what a broker does a moment after it has answered; an error counts as not yet. */
    private static void until(String what, Callable<Boolean> done) {
        Words.until(what, () -> {
            try {
                return done.call();
            } catch (Exception error) {
                return false;
            }
        });
    }

    private void call(String method, Callable<Object> question) {
        called.add(method);
        String answer;
        try {
            answer = String.valueOf(question.call());
        } catch (ExecutionException error) {
            answer = error.getCause().getClass().getSimpleName();
        } catch (Exception error) {
            answer = error.getClass().getSimpleName();
        }
        Words.say("%s: %s", method, answer.replace(name, "<name>").replace(directory, "<directory>"));
    }

    /** What became of each part, in the order of their names. */
    private static String all(Map<?, ? extends KafkaFuture<?>> parts) throws Exception {
        Map<String, String> answers = new TreeMap<>();
        for (Map.Entry<?, ? extends KafkaFuture<?>> part : parts.entrySet()) {
            String answer;
            try {
                part.getValue().get(30, TimeUnit.SECONDS);
                answer = "done";
            } catch (ExecutionException error) {
                answer = error.getCause().getClass().getSimpleName();
            }
            answers.put(String.valueOf(part.getKey()), answer);
        }
        return answers.toString();
    }

    private static String errors(Map<TopicPartition, Optional<Throwable>> parts) {
        Map<String, String> answers = new TreeMap<>();
        parts.forEach((part, error) ->
                answers.put(part.toString(), error.map(one -> one.getClass().getSimpleName()).orElse("done")));
        return answers.toString();
    }

    private String alter(ConfigResource resource, String setting, String value) throws Exception {
        Collection<AlterConfigOp> change =
                List.of(new AlterConfigOp(new ConfigEntry(setting, value), AlterConfigOp.OpType.SET));
        admin.incrementalAlterConfigs(Map.of(resource, change)).all().get();
        return resource.type() + " " + setting;
    }

    private String value(ConfigResource resource, String setting) throws Exception {
        ConfigEntry found = admin.describeConfigs(List.of(resource)).all().get().get(resource).get(setting);
        return found.value() + " " + found.source() + " " + found.isReadOnly() + " " + found.type();
    }

    private Object offset(TopicPartition partition, OffsetSpec spec) throws Exception {
        return admin.listOffsets(Map.of(partition, spec)).partitionResult(partition).get().offset();
    }

    private int node() {
        try {
            return admin.describeCluster().nodes().get().iterator().next().id();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private String kafka() throws Exception {
        org.apache.kafka.common.Node node = admin.describeCluster().nodes().get().iterator().next();
        return node.host() + ":" + node.port();
    }
}
