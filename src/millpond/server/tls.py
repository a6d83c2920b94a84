"""TLS of listeners, and whom a client's certificate names. The settings are RabbitMQ's ``ssl_options.*``."""

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from millpond.server.failures import ExitCode, StartFailed

# How names of certificates are shortened (RFC 4514); others are written in full.
_SHORT = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}

_FILES = ("ssl_options.certfile", "ssl_options.keyfile", "ssl_options.cacertfile")


def server_context(settings: Mapping[str, Any]) -> ssl.SSLContext:
    """For a listener. Raises ``StartFailed`` if the settings do not make one."""
    certificate = settings["ssl_options.certfile"]
    if certificate is None:
        raise StartFailed(
            "A listener named AMQPS needs a certificate.",
            "set ssl_options.certfile and ssl_options.keyfile (PEM), or name the listener AMQP",
            code=ExitCode.SETTINGS,
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(
            certificate, settings["ssl_options.keyfile"], settings["ssl_options.password"] or ""
        )
        if settings["ssl_options.cacertfile"] is not None:
            context.load_verify_locations(settings["ssl_options.cacertfile"])
    except (OSError, ssl.SSLError) as error:
        missing = [
            f"{name} names {path}, which is no file"
            for name in _FILES
            if (path := settings[name]) is not None and not Path(path).is_file()
        ]
        raise StartFailed(
            f"The files of ssl_options cannot be used: {'; '.join(missing) or error}.",
            "they must be PEM, readable, and key and certificate must belong together",
            code=ExitCode.SETTINGS,
        ) from error
    if settings["ssl_options.verify"] == "verify_peer":
        is_strict = settings["ssl_options.fail_if_no_peer_cert"]
        context.verify_mode = ssl.CERT_REQUIRED if is_strict else ssl.CERT_OPTIONAL
    return context


def certified_name(stream: asyncio.BaseTransport, kind: str) -> str:
    """Whom the certificate names that a client has shown and that was believed; empty if there is none.

    ``kind`` is the setting ``ssl_cert_login_from``.
    """
    certificate = stream.get_extra_info("peercert")
    if not certificate:
        return ""
    parts = [pair for pairs in certificate["subject"] for pair in pairs]
    if kind == "distinguished_name":
        return ",".join(f"{_SHORT.get(name, name)}={value}" for name, value in reversed(parts))
    return next((str(value) for name, value in parts if name == "commonName"), "")
