"""The secret by which nodes of a cluster know each other: where it comes from and where it is kept.

First of these that is there: ``cluster.secret``, the file of ``cluster.secret.file``, the file
``cluster.secret`` in the data directory. A node whose settings name no others makes one at its first start
and keeps it there, in a file that only its user can read; nodes that join it later are given the same one.
"""

import contextlib
import logging
import os
import secrets
from pathlib import Path

from millpond.base.errors import InvalidConfig
from millpond.metadata.configs import BrokerConfig
from millpond.peer.proof import SECRET_CHARACTERS_MAX, ClusterSecret
from millpond.server.failures import ExitCode, StartFailed

log = logging.getLogger(__name__)

SECRET_FILE = "cluster.secret"  # noqa: S105 - a name, not the secret
# What `millpond up --nodes` writes into the directory that holds those of its nodes.
PLAN_FILE = "cluster.json"
_SECRET_BYTES = 32
_OTHERS = 0o077


def new_secret() -> ClusterSecret:
    """A secret that cannot be guessed."""
    return ClusterSecret(secrets.token_urlsafe(_SECRET_BYTES))


def given_secret(values: BrokerConfig, data: Path) -> ClusterSecret | None:
    """Return the secret of the settings or the data directory, or None. Raises ``StartFailed``."""
    text, path = values["cluster.secret"], values["cluster.secret.file"]
    if text is not None and path is not None:
        raise StartFailed(
            "cluster.secret and cluster.secret.file are both set.",
            "keep one of them",
            code=ExitCode.SETTINGS,
        )
    if text is not None:
        return _checked(text, "cluster.secret")
    if path is not None:
        return _read(Path(path).expanduser())
    kept = data / SECRET_FILE
    if not kept.exists() and (data.parent / PLAN_FILE).exists():
        # A node of `millpond up --nodes`: all of them have one secret, beside their directories.
        kept = data.parent / SECRET_FILE
    return _read(kept) if kept.exists() else None


def kept_secret(values: BrokerConfig, data: Path) -> ClusterSecret:
    """The secret as above; if there is none, one is made and kept in the data directory."""
    found = given_secret(values, data)
    if found is None:
        found = write_secret(data / SECRET_FILE, new_secret())
    return found


def write_secret(path: Path, secret: ClusterSecret) -> ClusterSecret:
    """Write a secret to a file that only this user can read, all of it or nothing; the secret that is there
    afterwards: another process may have been first. Raises ``StartFailed``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(descriptor, f"{secret.text}\n".encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        try:
            os.link(unfinished, path)
        except FileExistsError:
            return _read(path)
        finally:
            unfinished.unlink()
        _sync_directory(path.parent)
    except OSError as error:
        raise StartFailed(
            f"Cannot write the cluster's secret to {path}: {error.strerror}.",
            "make the directory writable, or give the secret by cluster.secret.file",
            code=ExitCode.DATA,
        ) from None
    return secret


def missing_secret(node_id: int) -> StartFailed:
    """Why a node among others does not start without one, and what to do."""
    return StartFailed(
        f"Node {node_id} has other nodes in its settings and no cluster secret to prove to them that it is "
        "one of them.",
        "make a secret once with `millpond node secret --new`, or show the one of a node that runs with "
        "`millpond node secret --data DIR`, and copy it to every node",
        "name the file in cluster.secret.file, or put it into the data directory as "
        f"{SECRET_FILE}, readable by the node's user only",
        code=ExitCode.SETTINGS,
    )


def _read(path: Path) -> ClusterSecret:
    try:
        with path.open("rb") as file:
            data = file.read(4 * SECRET_CHARACTERS_MAX + 2)
            mode = os.fstat(file.fileno()).st_mode
        text = data.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise StartFailed(
            f"Cannot read the cluster's secret from {path}: {reason}.",
            "copy it from another node, where `millpond node secret --data DIR` shows it",
            code=ExitCode.SETTINGS,
        ) from None
    if mode & _OTHERS:
        log.warning(
            "%s holds the cluster's secret and other users of this machine can read it: chmod 600 %s",
            path,
            path,
        )
    return _checked(text, str(path))


def _checked(text: str, where: str) -> ClusterSecret:
    try:
        return ClusterSecret(text)
    except InvalidConfig as error:
        raise StartFailed(f"{where}: {error}.", code=ExitCode.SETTINGS) from None


def _sync_directory(path: Path) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
