"""The parts of one node and how they are joined: composition only.

Each part is given the services that it uses, never the node. Parts are made from the bottom up; where two
need each other the lower one gets a callback, written here as a lambda.
"""

from millpond.base.clock import Clock
from millpond.base.ids import NodeId
from millpond.base.rng import Rng
from millpond.engine.cluster.admin import ClusterAdmin
from millpond.engine.cluster.commands import ControllerCommands
from millpond.engine.cluster.controller_host import ControllerHost, ControllerParts
from millpond.engine.cluster.controller_link import ControllerLink
from millpond.engine.cluster.disk_history import DiskHistory
from millpond.engine.cluster.membership import MemberParts, Membership
from millpond.engine.cluster.metadata_view import MetadataView
from millpond.engine.cluster.min_isr import OwnMinIsr
from millpond.engine.cluster.node_info import NodeInfo
from millpond.engine.cluster.node_settings import NodeSettings
from millpond.engine.cluster.process_watch import NodeWatch
from millpond.engine.cluster.producer_ids import ProducerIds
from millpond.engine.cluster.settings_admin import SettingsAdmin
from millpond.engine.cluster.topic_admin import TopicAdmin
from millpond.engine.coordinators.groups import Groups
from millpond.engine.coordinators.services import CoordinatorServices
from millpond.engine.coordinators.transactions import Transactions
from millpond.engine.limits.quotas import Quotas
from millpond.engine.limits.telemetry import Telemetry
from millpond.engine.partitions.deletions import Deletions
from millpond.engine.partitions.directory_assignments import DirectoryAssignments
from millpond.engine.partitions.disk_health import DiskHealth, DiskParts
from millpond.engine.partitions.disk_view import DiskView
from millpond.engine.partitions.maintenance import Maintenance
from millpond.engine.partitions.partition_calls import PartitionCalls
from millpond.engine.partitions.partitions import Partitions
from millpond.engine.partitions.publish import Publisher
from millpond.engine.partitions.repairs import Repairs
from millpond.engine.partitions.topic_table import TopicTable
from millpond.engine.peers import PeerHandlers, PeerProof, Peers
from millpond.engine.replication.replicas import Replicas
from millpond.engine.runtime.flusher import Flusher
from millpond.engine.runtime.runtime import Runtime
from millpond.engine.runtime.threads import Threads
from millpond.engine.share.services import ShareServices
from millpond.engine.share.share_groups import ShareGroups
from millpond.engine.timers.forwarding import TimerForwarding
from millpond.engine.timers.timers import Timers
from millpond.log.log_dirs import LogDirs
from millpond.metadata.configs import BrokerConfig
from millpond.metadata.families import Families


class NodeServices:
    """The services of one node, by name. ``Node`` adds its start and its stop."""

    # Callbacks that earlier parts are given look these up.
    membership: Membership
    directory_assignments: DirectoryAssignments
    disk: DiskHealth
    replicas: Replicas
    transactions: Transactions
    share: ShareGroups
    timer_forwarding: TimerForwarding

    def __init__(
        self,
        *,
        log_dirs: LogDirs,
        node_id: NodeId,
        cluster_id: str | None,
        broker: BrokerConfig,
        clock: Clock,
        rng: Rng,
        families: Families,
        rack: str | None = None,
        peers: Peers | None = None,
        watch: NodeWatch | None = None,
        proof: PeerProof | None = None,
        threads: Threads | None = None,
    ) -> None:
        """``families`` are those of all records that nodes of this release may have written to the metadata.
        ``peers`` are the other nodes; a node that is alone has none. ``watch`` sees their processes end,
        ``proof`` checks that they have the cluster's secret. ``threads`` are real ones by default.
        """
        self.log_dirs = log_dirs
        self.families = families
        self.peers = peers
        self.runtime = Runtime(clock, rng, threads)
        self.info = NodeInfo(
            node_id=node_id, incarnation_id=rng.uuid4(), cluster_id=cluster_id or "", rack=rack
        )
        self.settings = NodeSettings(broker, node_id)
        self.metadata = MetadataView(self.settings, clock)
        self.peer_handlers = PeerHandlers()
        self.peer_handlers.serve_quorum(self.metadata.answer_quorum)
        self.flusher = Flusher(self.runtime.threads, on_failure=log_dirs.doubt)
        self.topics = TopicTable(
            log_dirs,
            node_id,
            self.settings,
            clock,
            on_change=lambda partition, change: self.replicas.on_change(partition, change),
            is_replaced=lambda: self.membership.is_replaced,
        )
        self._make_cluster(watch, proof)
        self._make_partitions()
        self._make_coordinators()
        self.quotas = Quotas(self.settings.get)
        self.own_min_isr = OwnMinIsr(node_id, lambda: self.settings.broker)
        self.telemetry = Telemetry(
            lambda: self.metadata.image,
            bytes_max=lambda: int(self.settings.get("telemetry.max.bytes")),
        )
        for observer in (
            self.controller.on_change,
            self.membership.on_change,
            self.directory_assignments.on_change,
            self.quotas.on_change,
            self.own_min_isr.on_change,
        ):
            self.metadata.observe(observer)

    def _make_cluster(self, watch: NodeWatch | None, proof: PeerProof | None) -> None:
        """This node's place in the cluster, and the controller, which is active on one of the nodes."""
        info, runtime, metadata, settings = self.info, self.runtime, self.metadata, self.settings
        self.controller_link = ControllerLink(
            info.node_id,
            self.peer_handlers,
            self.peers,
            lambda: metadata.controller_id,
            metadata.leader_changed,
        )
        self.commands = ControllerCommands(metadata, self.controller_link)
        self.topic_admin = TopicAdmin(
            runtime=runtime,
            metadata=metadata,
            settings=settings,
            commands=self.commands,
            open_new_partitions=self.topics.open_waiting,
        )
        self.settings_admin = SettingsAdmin(
            runtime=runtime, metadata=metadata, settings=settings, info=info
        )
        self.admin = ClusterAdmin(
            lambda: metadata.quorum,
            info.node_id,
            settings.rules,
            proof,
            fencings=lambda: self.controller.fencings(),
        )
        self.disk_history = DiskHistory(
            info=info,
            log_dirs=self.log_dirs,
            metadata=metadata,
            broker_epoch=lambda: self.membership.broker_epoch,
            has_registered=lambda: self.membership.has_registered,
        )
        self.controller = ControllerHost(
            ControllerParts(
                node_id=info.node_id,
                host=lambda: metadata.quorum,
                setting=settings.get,
                rules=settings.rules,
                cluster_id=lambda: info.cluster_id,
                own_incarnation=lambda: info.incarnation_id,
                make_topics=self.topic_admin.create_topics,
                handlers=self.peer_handlers,
                tasks=runtime.tasks,
                clock=runtime.clock,
                stalls=runtime.stalls,
                watch=watch,
            )
        )
        self.membership = Membership(
            MemberParts(
                node_id=info.node_id,
                rack=info.rack,
                host=lambda: metadata.quorum,
                setting=settings.get,
                cluster_id=lambda: info.cluster_id,
                directory_ids=lambda: self.log_dirs.ids,
                incarnation_id=lambda: info.incarnation_id,
                kept_registrations=self.disk_history.kept_registrations,
                note_registrations=self.log_dirs.record_incarnation,
                lost_replicas=self.disk_history.lost_replicas,
                on_registered=self.log_dirs.forget_shortened,
                link=self.controller_link,
                tasks=runtime.tasks,
                clock=runtime.clock,
                loop_watch=runtime.loop_watch,
                silent_leaders=lambda: self.replicas.fetchers.silent_leaders(),
                silent_followers=lambda: self.replicas.silent_followers(),
                on_cut_off=lambda: self.replicas.send_clients_away(),
                watch=watch,
                is_offline=lambda: self.disk.is_offline,
                offline_dirs=lambda: self.disk.offline_dirs,
            )
        )
        self.producer_ids = ProducerIds(
            info=info, membership=self.membership, controller_link=self.controller_link
        )

    def _make_partitions(self) -> None:
        """The replicas on this node, their disks, and the way to those that other nodes lead."""
        info, runtime, metadata, topics = self.info, self.runtime, self.metadata, self.topics
        self.disk_view = DiskView(topics, self.log_dirs)
        self.deletions = Deletions(metadata=metadata)
        self.partitions = Partitions(
            node_id=info.node_id,
            runtime=runtime,
            log_dirs=self.log_dirs,
            topics=topics,
            publisher=Publisher(
                self.flusher,
                runtime.clock,
                lambda *args, **names: self.transactions.admit(*args, **names),
                runtime.offload,
                lambda: self.timer_forwarding,
            ),
            deletions=self.deletions,
            is_cut_off=lambda: self.membership.is_cut_off,
        )
        self.directory_assignments = DirectoryAssignments(
            runtime=runtime,
            info=info,
            log_dirs=self.log_dirs,
            topics=topics,
            metadata=metadata,
            membership=self.membership,
            controller_link=self.controller_link,
        )
        self.disk = DiskHealth(
            DiskParts(
                info=info,
                runtime=runtime,
                log_dirs=self.log_dirs,
                topics=topics,
                flusher=self.flusher,
                metadata=metadata,
                membership=self.membership,
                disk_history=self.disk_history,
                on_offline=lambda log_dir: self.replicas.on_directory_offline(log_dir),
                on_online=lambda log_dir: self.replicas.on_directory_online(log_dir),
            )
        )
        self.replicas = Replicas(
            info=info,
            runtime=runtime,
            settings=self.settings,
            log_dirs=self.log_dirs,
            topics=topics,
            flusher=self.flusher,
            metadata=metadata,
            membership=self.membership,
            peer_handlers=self.peer_handlers,
            peers=self.peers,
            partitions=self.partitions,
            deletions=self.deletions,
            directory_assignments=self.directory_assignments,
            disk=self.disk,
            controller_link=self.controller_link,
        )
        self.maintenance = Maintenance(
            runtime=runtime,
            settings=self.settings,
            log_dirs=self.log_dirs,
            topics=topics,
            flusher=self.flusher,
            partitions=self.partitions,
            on_start_moved=self.replicas.on_start_moved,
        )
        self.partition_calls = PartitionCalls(
            info=info,
            metadata=metadata,
            partitions=self.partitions,
            peer_handlers=self.peer_handlers,
            peers=self.peers,
        )
        self.repairs = Repairs(
            runtime=runtime,
            log_dirs=self.log_dirs,
            topics=topics,
            partitions=self.partitions,
            peer_handlers=self.peer_handlers,
            peers=self.peers,
        )

    def _make_coordinators(self) -> None:
        """Consumer groups, transactions and share groups."""
        services = CoordinatorServices(
            info=self.info,
            runtime=self.runtime,
            metadata=self.metadata,
            settings=self.settings,
            membership=self.membership,
            topic_admin=self.topic_admin,
            producer_ids=self.producer_ids,
            topics=self.topics,
            partitions=self.partitions,
            repairs=self.repairs,
            peer_handlers=self.peer_handlers,
            peers=self.peers,
        )
        self.groups = Groups(
            services,
            has_share_group=lambda group_id: self.share.has_group(group_id),
            drop_share_groups=lambda index, count: self.share.drop_groups(index, count),
        )
        self.transactions = Transactions(services, self.groups)
        share_services = ShareServices.of(
            services, groups=self.groups, partition_calls=self.partition_calls
        )
        self.share = ShareGroups(share_services)
        self.timers = Timers(services, self.partition_calls)
        self.timer_forwarding = TimerForwarding(services, self.timers)
