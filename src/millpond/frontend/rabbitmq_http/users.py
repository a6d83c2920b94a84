"""Users with their tags, passwords and permissions."""

from dataclasses import replace
from typing import Any

from millpond.auth.permissions import hash_password
from millpond.frontend.rabbitmq_http.context import Call
from millpond.frontend.rabbitmq_http.http import (
    Response,
    bad_request,
    done,
    integer,
    not_found,
    object_of,
    said,
    text,
)
from millpond.rabbit.records import (
    Permission,
    PermissionDeleted,
    TopicPermission,
    TopicPermissionDeleted,
    User,
    UserDeleted,
)
from millpond.rabbit.rows import permission_row, topic_permission_row, user_row

_LIMITS = ("max-connections", "max-channels")
_PATTERNS = ("configure", "write", "read")


async def whoami(call: Call) -> Response:
    user = call.visitor.user
    return call.show({"name": user.name, "tags": list(user.tags)})


async def list_users(call: Call) -> Response:
    return call.list(user_row(user) for _name, user in sorted(call.broker.users.items()))


async def list_without_permissions(call: Call) -> Response:
    known = {user for user, _vhost in call.broker.permissions}
    return call.list(
        user_row(user) for name, user in sorted(call.broker.users.items()) if name not in known
    )


async def show_user(call: Call) -> Response:
    return call.show(user_row(_user(call, call.name)))


async def put_user(call: Call) -> Response:
    wanted = object_of(call.request)
    known = call.broker.users.get(call.name)
    if "tags" not in wanted:
        raise bad_request("tags_not_present")
    if "password" in wanted and "password_hash" in wanted:
        raise bad_request("both_password_and_password_hash_are_provided")
    algorithm = User(name="").hashing_algorithm
    if "password_hash" in wanted:
        hashed = text(wanted, "password_hash")
        algorithm = text(wanted, "hashing_algorithm", algorithm)
    elif "password" in wanted:
        salt = call.context.frontend.engine.runtime.rng.uuid4().bytes[:4]
        hashed = hash_password(text(wanted, "password").encode(), salt)
    elif known is not None:
        hashed, algorithm = known.password_hash, known.hashing_algorithm
    else:
        hashed = ""
    user = User(
        name=call.name,
        password_hash=hashed,
        hashing_algorithm=algorithm,
        tags=tags_of(wanted["tags"]),
        limits={} if known is None else known.limits,
    )
    await call.context.store(user)
    return done(is_new=known is None)


async def delete_user(call: Call) -> Response:
    _user(call, call.name)
    await call.context.store(UserDeleted(name=call.name))
    return done()


async def delete_users(call: Call) -> Response:
    names = object_of(call.request, required=("users",))["users"]
    if not isinstance(names, list):
        raise bad_request(["not_list", names])
    for name in names:
        if not isinstance(name, str) or name not in call.broker.users:
            raise bad_request(["no_such_user", name])
    for name in names:
        await call.context.store(UserDeleted(name=name))
    return done()


async def list_limits(call: Call) -> Response:
    every = sorted(call.broker.users.items())
    return call.list(_limits(user) for _name, user in every if user.limits)


async def list_limits_of_user(call: Call) -> Response:
    user = _user(call, call.name)
    return call.list([_limits(user)] if user.limits else [])


async def put_limit(call: Call) -> Response:
    value = integer(object_of(call.request, required=("value",)), "value")
    name = call.place["limit"]
    if name not in _LIMITS:
        raise bad_request(f"Unrecognised user limit: {name}")
    user = _user(call, call.name)
    await call.context.store(replace(user, limits={**user.limits, name: value}))
    return done()


async def delete_limit(call: Call) -> Response:
    user = _user(call, call.name)
    kept = {name: one for name, one in user.limits.items() if name != call.place["limit"]}
    await call.context.store(replace(user, limits=kept))
    return done()


def _limits(user: User) -> dict[str, Any]:
    return {"user": user.name, "value": user.limits}


# --- permissions ----------------------------------------------------------------------------------------


async def list_permissions(call: Call) -> Response:
    return call.list(permission_row(one) for _key, one in sorted(call.broker.permissions.items()))


async def list_permissions_of_vhost(call: Call) -> Response:
    if call.name not in call.broker.vhosts:
        raise not_found()
    every = sorted(call.broker.permissions.items())
    return call.list(permission_row(one) for (_user, vhost), one in every if vhost == call.name)


async def list_permissions_of_user(call: Call) -> Response:
    _user(call, call.name)
    every = sorted(call.broker.permissions.items())
    return call.list(permission_row(one) for (user, _vhost), one in every if user == call.name)


async def show_permission(call: Call) -> Response:
    found = call.broker.permissions.get((call.place["user"], call.vhost))
    if found is None:
        raise not_found()
    return call.show(permission_row(found))


async def put_permission(call: Call) -> Response:
    wanted = object_of(call.request, required=_PATTERNS)
    user = _known(call)
    is_new = (user, call.vhost) not in call.broker.permissions
    configure, write, read = (text(wanted, name) for name in _PATTERNS)
    await call.context.store(
        Permission(user=user, vhost=call.vhost, configure=configure, write=write, read=read)
    )
    return done(is_new=is_new)


async def delete_permission(call: Call) -> Response:
    user = call.place["user"]
    if (user, call.vhost) not in call.broker.permissions:
        raise not_found()
    await call.context.store(PermissionDeleted(user=user, vhost=call.vhost))
    return done()


async def list_topic_permissions(call: Call) -> Response:
    every = sorted(call.broker.topic_permissions.items())
    return call.list(topic_permission_row(one) for _key, one in every)


async def list_topic_permissions_of_vhost(call: Call) -> Response:
    every = sorted(call.broker.topic_permissions.items())
    return call.list(topic_permission_row(one) for _key, one in every if one.vhost == call.name)


async def list_topic_permissions_of_user(call: Call) -> Response:
    every = sorted(call.broker.topic_permissions.items())
    return call.list(topic_permission_row(one) for _key, one in every if one.user == call.name)


async def show_topic_permission(call: Call) -> Response:
    found = _topic_permissions(call)
    if not found:
        raise not_found()
    return said([topic_permission_row(one) for one in found])


async def put_topic_permission(call: Call) -> Response:
    wanted = object_of(call.request, required=("exchange", "write", "read"))
    user = _known(call)
    is_new = not _topic_permissions(call)
    exchange, write, read = (text(wanted, name) for name in ("exchange", "write", "read"))
    await call.context.store(
        TopicPermission(user=user, vhost=call.vhost, exchange=exchange, write=write, read=read)
    )
    return done(is_new=is_new)


async def delete_topic_permission(call: Call) -> Response:
    found = _topic_permissions(call)
    if not found:
        raise not_found()
    for one in found:
        await call.context.store(
            TopicPermissionDeleted(user=one.user, vhost=one.vhost, exchange=one.exchange)
        )
    return done()


async def delete_one_topic_permission(call: Call) -> Response:
    """Of one exchange. As in RabbitMQ, 404 is for a user that has none in this virtual host at all."""
    found = _topic_permissions(call)
    if not found:
        raise not_found()
    for one in found:
        if one.exchange == call.place["exchange"]:
            await call.context.store(
                TopicPermissionDeleted(user=one.user, vhost=one.vhost, exchange=one.exchange)
            )
    return done()


def tags_of(value: object) -> tuple[str, ...]:
    """Return tags from a list, or from words separated by commas."""
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise bad_request(["not_tags", value])
    return tuple(word.strip() for word in words if word.strip())


async def hash_of_password(call: Call) -> Response:
    """Return the hash of a password."""
    salt = call.context.frontend.engine.runtime.rng.uuid4().bytes[:4]
    return said({"ok": hash_password(call.name.encode(), salt)})


def _known(call: Call) -> str:
    user = call.place["user"]
    if user not in call.broker.users or call.vhost not in call.broker.vhosts:
        raise bad_request("vhost_or_user_not_found")
    return user


def _user(call: Call, name: str) -> User:
    found = call.broker.users.get(name)
    if found is None:
        raise not_found()
    return found


def _topic_permissions(call: Call) -> list[TopicPermission]:
    place = call.place["user"], call.vhost
    every = sorted(call.broker.topic_permissions.items())
    return [one for (user, vhost, _exchange), one in every if (user, vhost) == place]
