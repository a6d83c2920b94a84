"""Which handler a request is for: a table of methods, paths and the rank that each needs.

A segment in braces is a name. Of several paths that fit, the first counts.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from millpond.frontend.rabbitmq_http import (
    bindings,
    connections,
    definitions,
    exchanges,
    features,
    messages,
    overview,
    policies,
    queues,
    vhosts,
)
from millpond.frontend.rabbitmq_http import (
    users as people,
)
from millpond.frontend.rabbitmq_http.access import Rank
from millpond.frontend.rabbitmq_http.context import Handler

_N, _M, _P = Rank.NONE, Rank.MANAGEMENT, Rank.POLICYMAKER
_W, _A = Rank.MONITORING, Rank.ADMINISTRATOR
_BETWEEN = "bindings/{vhost}/e/{source}/{kind}/{destination}"
_TOPIC_RIGHT = "topic-permissions/{vhost}/{user}/{exchange}"
_HEALTH = "health/checks"

# Path, method, rank, handler.
_TABLE: Final[tuple[tuple[str, str, Rank, Handler], ...]] = (
    ("overview", "GET", _M, overview.overview),
    ("nodes", "GET", _W, overview.list_nodes),
    ("nodes/{name}", "GET", _W, overview.show_node),
    ("nodes/{name}/memory", "GET", _W, overview.show_memory),
    ("nodes/{name}/memory/relative", "GET", _W, overview.show_relative_memory),
    ("cluster-name", "GET", _M, overview.show_cluster_name),
    ("cluster-name", "PUT", _A, overview.put_cluster_name),
    ("feature-flags", "GET", _A, features.list_flags),
    ("feature-flags/{name}/enable", "PUT", _A, features.enable),
    ("deprecated-features", "GET", _W, features.list_deprecated),
    ("deprecated-features/used", "GET", _W, features.list_deprecated_used),
    ("auth", "GET", _N, overview.auth),
    ("auth/attempts/{name}", "GET", _W, overview.auth_attempts),
    ("auth/attempts/{name}", "DELETE", _W, overview.reset_auth_attempts),
    ("auth/attempts/{name}/source", "GET", _W, overview.auth_attempts_by_source),
    ("auth/attempts/{name}/source", "DELETE", _W, overview.reset_auth_attempts),
    ("reset", "DELETE", _A, overview.reset),
    ("reset/{name}", "DELETE", _A, overview.reset),
    ("rebalance/queues", "POST", _A, overview.rebalance),
    ("extensions", "GET", _M, overview.extensions),
    ("whoami", "GET", _M, people.whoami),
    ("vhosts", "GET", _M, vhosts.list_vhosts),
    ("vhosts/{name}", "GET", _A, vhosts.show),
    ("vhosts/{name}", "PUT", _A, vhosts.put),
    ("vhosts/{name}", "DELETE", _A, vhosts.delete),
    ("vhosts/{name}/permissions", "GET", _A, people.list_permissions_of_vhost),
    ("vhosts/{name}/topic-permissions", "GET", _A, people.list_topic_permissions_of_vhost),
    ("vhosts/{vhost}/start/{name}", "POST", _A, vhosts.start),
    ("vhosts/{vhost}/connections", "GET", _M, connections.list_connections_of_vhost),
    ("vhosts/{vhost}/channels", "GET", _M, connections.list_channels_of_vhost),
    ("vhost-limits", "GET", _M, vhosts.list_limits),
    ("vhost-limits/{name}", "GET", _M, vhosts.list_limits_of_vhost),
    ("vhost-limits/{name}/{limit}", "PUT", _A, vhosts.put_limit),
    ("vhost-limits/{name}/{limit}", "DELETE", _A, vhosts.delete_limit),
    ("users", "GET", _A, people.list_users),
    ("users/without-permissions", "GET", _A, people.list_without_permissions),
    ("users/bulk-delete", "POST", _A, people.delete_users),
    ("users/{name}", "GET", _A, people.show_user),
    ("users/{name}", "PUT", _A, people.put_user),
    ("users/{name}", "DELETE", _A, people.delete_user),
    ("users/{name}/permissions", "GET", _A, people.list_permissions_of_user),
    ("users/{name}/topic-permissions", "GET", _A, people.list_topic_permissions_of_user),
    ("user-limits", "GET", _A, people.list_limits),
    ("user-limits/{name}", "GET", _A, people.list_limits_of_user),
    ("user-limits/{name}/{limit}", "PUT", _A, people.put_limit),
    ("user-limits/{name}/{limit}", "DELETE", _A, people.delete_limit),
    ("permissions", "GET", _A, people.list_permissions),
    ("permissions/{vhost}/{user}", "GET", _A, people.show_permission),
    ("permissions/{vhost}/{user}", "PUT", _A, people.put_permission),
    ("permissions/{vhost}/{user}", "DELETE", _A, people.delete_permission),
    ("topic-permissions", "GET", _A, people.list_topic_permissions),
    ("topic-permissions/{vhost}/{user}", "GET", _A, people.show_topic_permission),
    ("topic-permissions/{vhost}/{user}", "PUT", _A, people.put_topic_permission),
    ("topic-permissions/{vhost}/{user}", "DELETE", _A, people.delete_topic_permission),
    (_TOPIC_RIGHT, "GET", _A, people.show_topic_permission),
    (_TOPIC_RIGHT, "PUT", _A, people.put_topic_permission),
    (_TOPIC_RIGHT, "DELETE", _A, people.delete_one_topic_permission),
    ("auth/hash_password/{name}", "GET", _A, people.hash_of_password),
    ("exchanges", "GET", _M, exchanges.list_all),
    ("exchanges/{vhost}", "GET", _M, exchanges.list_of_vhost),
    ("exchanges/{vhost}/{name}", "GET", _M, exchanges.show),
    ("exchanges/{vhost}/{name}", "PUT", _M, exchanges.declare),
    ("exchanges/{vhost}/{name}", "DELETE", _M, exchanges.delete),
    ("exchanges/{vhost}/{name}/publish", "POST", _M, messages.publish),
    ("exchanges/{vhost}/{name}/bindings/source", "GET", _M, bindings.list_from_exchange),
    ("exchanges/{vhost}/{name}/bindings/destination", "GET", _M, bindings.list_to_exchange),
    ("queues", "GET", _M, queues.list_all),
    ("queues/{vhost}", "GET", _M, queues.list_of_vhost),
    ("queues/{vhost}/{name}", "GET", _M, queues.show),
    ("queues/{vhost}/{name}", "PUT", _M, queues.declare),
    ("queues/{vhost}/{name}", "DELETE", _M, queues.delete),
    ("queues/{vhost}/{name}/contents", "DELETE", _M, queues.purge),
    ("queues/{vhost}/{name}/get", "POST", _M, messages.get),
    ("queues/{vhost}/{name}/bindings", "GET", _M, bindings.list_of_queue),
    ("queues/{vhost}/{name}/actions", "POST", _M, queues.act),
    ("bindings", "GET", _M, bindings.list_all),
    ("bindings/{vhost}", "GET", _M, bindings.list_of_vhost),
    (_BETWEEN, "GET", _M, bindings.list_between),
    (_BETWEEN, "POST", _M, bindings.bind),
    (f"{_BETWEEN}/{{properties_key}}", "GET", _M, bindings.show),
    (f"{_BETWEEN}/{{properties_key}}", "DELETE", _M, bindings.unbind),
    ("policies", "GET", _M, policies.list_all),
    ("policies/{vhost}", "GET", _M, policies.list_of_vhost),
    ("policies/{vhost}/{name}", "GET", _M, policies.show),
    ("policies/{vhost}/{name}", "PUT", _P, policies.put),
    ("policies/{vhost}/{name}", "DELETE", _P, policies.delete),
    ("operator-policies", "GET", _M, policies.list_all),
    ("operator-policies/{vhost}", "GET", _M, policies.list_of_vhost),
    ("operator-policies/{vhost}/{name}", "GET", _M, policies.show),
    ("operator-policies/{vhost}/{name}", "PUT", _A, policies.put),
    ("operator-policies/{vhost}/{name}", "DELETE", _A, policies.delete),
    ("parameters", "GET", _P, policies.list_parameters),
    ("parameters/{component}", "GET", _P, policies.list_parameters),
    ("parameters/{component}/{vhost}", "GET", _P, policies.list_parameters),
    ("parameters/{component}/{vhost}/{name}", "GET", _P, policies.show_parameter),
    ("parameters/{component}/{vhost}/{name}", "PUT", _P, policies.put_parameter),
    ("parameters/{component}/{vhost}/{name}", "DELETE", _P, policies.delete_parameter),
    ("global-parameters", "GET", _P, policies.list_global_parameters),
    ("global-parameters/{name}", "GET", _P, policies.show_global_parameter),
    ("global-parameters/{name}", "PUT", _P, policies.put_global_parameter),
    ("global-parameters/{name}", "DELETE", _P, policies.delete_global_parameter),
    ("all-configuration", "GET", _A, definitions.export_all),
    ("all-configuration", "POST", _A, definitions.import_all),
    ("definitions", "GET", _A, definitions.export_all),
    ("definitions", "POST", _A, definitions.import_all),
    ("definitions/{vhost}", "GET", _A, definitions.export_vhost),
    ("definitions/{vhost}", "POST", _A, definitions.import_vhost),
    ("connections", "GET", _M, connections.list_connections),
    ("connections/{name}", "GET", _M, connections.show_connection),
    ("connections/{name}", "DELETE", _M, connections.close_connection),
    ("connections/username/{name}", "GET", _M, connections.list_connections_of_user),
    ("connections/username/{name}", "DELETE", _M, connections.close_connections_of_user),
    ("connections/{name}/channels", "GET", _M, connections.list_channels_of_connection),
    ("channels", "GET", _M, connections.list_channels),
    ("channels/{name}", "GET", _M, connections.show_channel),
    ("consumers", "GET", _M, connections.list_consumers),
    ("consumers/{vhost}", "GET", _M, connections.list_consumers_of_vhost),
    ("aliveness-test/{vhost}", "GET", _M, messages.test_aliveness),
    ("healthchecks/node", "GET", _M, overview.healthy),
    ("healthchecks/node/{name}", "GET", _M, overview.healthy),
    (f"{_HEALTH}/alarms", "GET", _M, overview.alarms),
    (f"{_HEALTH}/local-alarms", "GET", _M, overview.local_alarms),
    (f"{_HEALTH}/virtual-hosts", "GET", _M, overview.healthy),
    (f"{_HEALTH}/node-is-quorum-critical", "GET", _M, overview.critical),
    (f"{_HEALTH}/node-is-mirror-sync-critical", "GET", _M, overview.critical),
    (f"{_HEALTH}/certificate-expiration/{{within}}/{{unit}}", "GET", _M, overview.healthy),
    (f"{_HEALTH}/port-listener/{{port}}", "GET", _M, overview.port_listener),
    (f"{_HEALTH}/protocol-listener/{{protocol}}", "GET", _M, overview.protocol_listener),
)


class Found(NamedTuple):
    """A path's handlers by method, and the names in it."""

    handlers: Mapping[str, tuple[Rank, Handler]]
    place: Mapping[str, str]


def _index() -> dict[tuple[int, str], dict[tuple[str, ...], dict[str, tuple[Rank, Handler]]]]:
    """By the number of segments and the first of them, so that few are compared."""
    index: dict[tuple[int, str], dict[tuple[str, ...], dict[str, tuple[Rank, Handler]]]] = {}
    for path, method, rank, handler in _TABLE:
        segments = tuple(path.split("/"))
        paths = index.setdefault((len(segments), segments[0]), {})
        paths.setdefault(segments, {})[method] = rank, handler
    return index


_INDEX: Final = _index()


def find(segments: tuple[str, ...]) -> Found | None:
    """What there is at a path (without ``api``); None if there is nothing."""
    if not segments:
        return None
    for pattern, handlers in _INDEX.get((len(segments), segments[0]), {}).items():
        place = _place(pattern, segments)
        if place is not None:
            return Found(handlers, place)
    return None


def _place(pattern: tuple[str, ...], segments: tuple[str, ...]) -> dict[str, str] | None:
    place: dict[str, str] = {}
    for wanted, given in zip(pattern, segments, strict=True):
        if wanted.startswith("{"):
            place[wanted[1:-1]] = given
        elif wanted != given:
            return None
    if place.get("kind", "q") not in {"q", "e"}:
        return None
    return place


def paths() -> Iterator[tuple[str, str]]:
    """Every method and path that is served."""
    return ((method, path) for path, method, _rank, _handler in _TABLE)
