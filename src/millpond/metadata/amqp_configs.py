"""The settings of AMQP 0-9-1, with the names that they have in RabbitMQ's ``rabbitmq.conf``.

They lie in the same table as Kafka's, so they come the same ways (file, environment, command line, and while
the broker runs for those that can be altered). Defaults are RabbitMQ's but where the text says otherwise.
"""

from typing import Final

from millpond.base import limits
from millpond.base.errors import InvalidConfig
from millpond.base.sizes import parse_size
from millpond.metadata.config_def import ConfigDef, ConfigType, Members, Value

_STRING, _INT, _LONG, _DOUBLE, _LIST, _BOOLEAN, _PASSWORD = (
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
    ConfigType.BOOLEAN,
    ConfigType.PASSWORD,
)


# Signatures of tokens. Never "none".
SIGNATURES: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
    *("HS256", "HS384", "HS512"),
)


class SizeDef(ConfigDef):
    """Text that says a number of bytes."""

    __slots__ = ()

    def check(self, value: Value) -> None:
        """Raise ``InvalidConfig`` unless it is a size."""
        if isinstance(value, str):
            try:
                parse_size(value)
            except InvalidConfig as error:
                raise InvalidConfig(f"{self.name}: {error}") from None


AMQP_CONFIGS: Final[dict[str, ConfigDef]] = {
    row.name: row
    for row in (
        # --- alarms ----------------------------------------------------------------------------
        ConfigDef(
            name="vm_memory_high_watermark.relative", type=_DOUBLE, default=0.6,
            doc="AMQP: the share of the machine's memory (or of its container's) at which publishers are "
            "blocked. 0 blocks them at once. RabbitMQ's default since 4.0.",
            minimum=0, maximum=1, dynamic=True,
        ),
        SizeDef(
            name="vm_memory_high_watermark.absolute", type=_STRING, default=None,
            doc="AMQP: the same as a size, such as 2GB; goes before the share.",
            dynamic=True,
        ),
        ConfigDef(
            name="vm_memory_high_watermark_paging_ratio", type=_DOUBLE, default=0.5,
            doc="AMQP: the share of the watermark at which messages are not kept in memory any more. They "
            "are in their logs anyway; consumers then read them there.",
            minimum=0, maximum=1, dynamic=True,
        ),
        SizeDef(
            name="disk_free_limit.absolute", type=_STRING, default="50MB",
            doc="AMQP: the free space of the data's disk below which publishers are blocked.",
            dynamic=True,
        ),
        ConfigDef(
            name="disk_free_limit.relative", type=_DOUBLE, default=None,
            doc="AMQP: the same as a multiple of the machine's memory; goes before the size.",
            minimum=0, dynamic=True,
        ),
        # --- exchanges -------------------------------------------------------------------------
        ConfigDef(
            name="amqp.exchange.types", type=ConfigType.LIST, default=(),
            doc="AMQP: exchange types of one's own, as package.module:Name; on a cluster the same on every "
            "node. Types of installed packages (entry points of the group millpond.exchange_types) are "
            "there without being named.",
        ),
        # --- connections -----------------------------------------------------------------------
        ConfigDef(
            name="channel_max", type=_INT, default=limits.AMQP_CHANNELS_MAX,
            doc="AMQP: channels of one connection; 0 is any number.",
            minimum=0, maximum=65_535,
        ),
        ConfigDef(
            name="frame_max", type=_INT, default=limits.AMQP_FRAME_BYTES_MAX,
            doc="AMQP: the largest frame.",
            minimum=limits.AMQP_FRAME_BYTES_MIN, maximum=16 * 1024 * 1024,
        ),
        ConfigDef(
            name="initial_frame_max", type=_INT, default=limits.AMQP_FRAME_BYTES_MIN,
            doc="AMQP: the largest frame of a client that has not agreed on frame_max yet, its login among "
            "them; larger ones are needed for large tokens. RabbitMQ's default; 8192 since its version 4.1.",
            minimum=limits.AMQP_FRAME_BYTES_MIN, maximum=16 * 1024 * 1024,
        ),
        ConfigDef(
            name="heartbeat", type=_INT, default=limits.AMQP_HEARTBEAT_S,
            doc="AMQP: seconds without a byte after which a peer sends a heartbeat; 0 is never.",
            minimum=0, maximum=65_535,
        ),
        ConfigDef(
            name="handshake_timeout", type=_INT, default=limits.AMQP_HANDSHAKE_MS_MAX,
            doc="AMQP: milliseconds that a client has to be logged in and to open its virtual host.",
            minimum=1,
        ),
        ConfigDef(
            name="max_message_size", type=_INT, default=limits.AMQP_BODY_BYTES_MAX,
            doc="AMQP: the largest body of a message. RabbitMQ's default; 16 MiB since its version 4.0.",
            minimum=1, maximum=512 * 1024 * 1024,
        ),
        ConfigDef(
            name="auth_mechanisms", type=_LIST, default=("PLAIN", "AMQPLAIN", "EXTERNAL"),
            doc="AMQP: ways to log in. EXTERNAL is offered to clients that have shown a certificate.",
            choices=("PLAIN", "AMQPLAIN", "EXTERNAL"),
        ),
        ConfigDef(
            name="auth_backends", type=_LIST, default=("internal",),
            doc="AMQP: who says who a client is, asked in this order: internal (users and passwords), oauth2 "
            "(tokens; needs the extra millpond[oauth]). The first that lets a client in says what it may.",
            choices=(
                "internal", "oauth2", "rabbit_auth_backend_internal", "rabbit_auth_backend_oauth2",
            ),
            members=Members.NUMBERED,
        ),
        # --- OAuth 2 ---------------------------------------------------------------------------
        ConfigDef(
            name="auth_oauth2.resource_server_id", type=_STRING, default=None,
            doc="AMQP: what tokens call this broker: one of their audiences (aud), and the prefix of scopes.",
        ),
        ConfigDef(
            name="auth_oauth2.scope_prefix", type=_STRING, default=None,
            doc="AMQP: another prefix of scopes, instead of the resource server's id and a dot.",
        ),
        ConfigDef(
            name="auth_oauth2.verify_aud", type=_BOOLEAN, default=True,
            doc="AMQP: whether a token must have the resource server's id among its audiences.",
        ),
        ConfigDef(
            name="auth_oauth2.additional_scopes_key", type=_STRING, default=None,
            doc="AMQP: claims that hold scopes, too, as paths with dots and with spaces between them.",
        ),
        ConfigDef(
            name="auth_oauth2.scope_aliases", type=_LIST, default=(),
            doc="AMQP: scopes (with their prefix, spaces between them) that a scope of this name stands for.",
            members=Members.NAMED,
        ),
        ConfigDef(
            name="auth_oauth2.preferred_username_claims", type=_LIST, default=(),
            doc="AMQP: claims that name the user, before sub and client_id.",
            members=Members.NUMBERED,
        ),
        ConfigDef(
            name="auth_oauth2.signing_keys", type=_LIST, default=(),
            doc="AMQP: keys by their ids (kid): files with a public key or a certificate (PEM), or with a "
            "JSON Web Key; secrets for HMAC are such keys (kty oct).",
            members=Members.NAMED,
        ),
        ConfigDef(
            name="auth_oauth2.default_key", type=_STRING, default=None,
            doc="AMQP: the id of the key of tokens that name none.",
        ),
        ConfigDef(
            name="auth_oauth2.algorithms", type=_LIST, default=(),
            doc="AMQP: signatures that are believed; default: all below that the key is made for.",
            choices=SIGNATURES, members=Members.NUMBERED,
        ),
        ConfigDef(
            name="auth_oauth2.jwks_url", type=_STRING, default=None,
            doc="AMQP: where the keys of today are (a JSON Web Key Set): https, http, or file.",
        ),
        ConfigDef(
            name="auth_oauth2.issuer", type=_STRING, default=None,
            doc="AMQP: an OpenID provider that says where its keys are, instead of jwks_url.",
        ),
        ConfigDef(
            name="auth_oauth2.https.peer_verification", type=_STRING, default="verify_peer",
            doc="AMQP: whether the certificate of who has the keys is looked at.",
            choices=("verify_peer", "verify_none"),
        ),
        ConfigDef(
            name="auth_oauth2.https.cacertfile", type=_STRING, default=None,
            doc="AMQP: the authorities (PEM) that are believed there; default: the system's.",
        ),
        ConfigDef(
            name="auth_oauth2.https.hostname_verification", type=_STRING, default="wildcard",
            doc="AMQP: whether the certificate must be for the host's name.",
            choices=("wildcard", "none"),
        ),
        ConfigDef(
            name="amqp.oauth2.leeway.seconds", type=_INT, default=5,
            doc="AMQP: by how much the clocks of who signs tokens and of this node may differ. RabbitMQ: 0.",
            minimum=0, maximum=300,
        ),
        # --- TLS -------------------------------------------------------------------------------
        ConfigDef(
            name="ssl_options.certfile", type=_STRING, default=None,
            doc="AMQP: the certificate (PEM, with those between it and its authority) of a listener "
            "named AMQPS.",
        ),
        ConfigDef(
            name="ssl_options.keyfile", type=_STRING, default=None,
            doc="AMQP: the certificate's private key (PEM).",
        ),
        ConfigDef(
            name="ssl_options.password", type=_PASSWORD, default=None,
            doc="AMQP: the private key's password.",
            sensitive=True,
        ),
        ConfigDef(
            name="ssl_options.cacertfile", type=_STRING, default=None,
            doc="AMQP: the authorities (PEM) whose clients' certificates are believed.",
        ),
        ConfigDef(
            name="ssl_options.verify", type=_STRING, default="verify_none",
            doc="AMQP: whether clients are asked for a certificate.",
            choices=("verify_none", "verify_peer"),
        ),
        ConfigDef(
            name="ssl_options.fail_if_no_peer_cert", type=_BOOLEAN, default=False,
            doc="AMQP: whether a client that is asked and shows none is turned away.",
        ),
        ConfigDef(
            name="ssl_cert_login_from", type=_STRING, default="common_name",
            doc="AMQP: what of a certificate is the user's name for EXTERNAL. RabbitMQ's default is the "
            "whole distinguished name.",
            choices=("common_name", "distinguished_name"),
        ),
    )
}  # fmt: skip
