"""The keys that tokens are signed with, and whether one is: by PyJWT, of the extra ``millpond[oauth]``.

Keys come from files (``auth_oauth2.signing_keys``) and, if there is a ``jwks_url`` or an ``issuer``, from the
network: when a token names a key that is not here, and every hour. A key is only used for the kinds of
signatures that it is made for: what is public of an RSA key is never taken for a secret. What the rest of a
token means is decided elsewhere (``auth/claims.py``); nothing of a token is ever logged.
"""

import asyncio
import http.client
import io
import json
import logging
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from millpond.auth.claims import TokenRefused, TokenRules
from millpond.base import limits
from millpond.base.clock import Clock
from millpond.engine.runtime.threads import WorkThread
from millpond.frontend.amqp.logins import BACKENDS, OAUTH, KeysNeeded
from millpond.metadata.amqp_configs import SIGNATURES
from millpond.server.failures import ExitCode, StartFailed

log = logging.getLogger(__name__)

_DISCOVERY = "/.well-known/openid-configuration"
_CHUNK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key, and the signatures that it is made for."""

    key: Any
    algorithms: frozenset[str]


class TokenVerifier:
    """One node's."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        *,
        clock: Clock,
        thread: Callable[[], WorkThread],
    ) -> None:
        self.rules = _rules(settings)
        self._clock = clock
        self._allowed = frozenset(settings["auth_oauth2.algorithms"] or SIGNATURES)
        self._default: str | None = settings["auth_oauth2.default_key"]
        self._own = _own_keys(settings)
        self._source = _source(settings)
        self._thread = thread
        self._fetched: dict[str, SigningKey] = {}
        # When keys were last fetched, and when a fetch was last tried.
        self._fetched_ms: int | None = None
        self._tried_ms: int | None = None
        self._fetching: asyncio.Future[None] | None = None

    # --- tokens ----------------------------------------------------------------------------------------

    def claims(self, token: bytes) -> Mapping[str, Any]:
        """Return the claims of a token. Raises ``TokenRefused``, and ``KeysNeeded`` if ``fetch`` may help."""
        import jwt

        if len(token) > limits.OAUTH_TOKEN_BYTES_MAX:
            raise TokenRefused("the token is too large")
        try:
            header = jwt.get_unverified_header(token)
            kid = header.get("kid", self._default)
            if kid is None:
                raise TokenRefused("the token names no key (kid), and there is no default_key")
            key = self._key(kid)
            algorithms = sorted(self._allowed & key.algorithms)
            if header.get("alg") not in algorithms:
                raise TokenRefused("the token's signature (alg) is not of a kind that is believed")
            payload = jwt.PyJWS().decode(token, key.key, algorithms=algorithms)
            claims = json.loads(payload)
        except jwt.InvalidSignatureError:
            raise TokenRefused("the token's signature is wrong") from None
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise TokenRefused("it is not a token") from None
        if not isinstance(claims, dict):
            raise TokenRefused("the token says nothing")
        return claims

    def _key(self, kid: str) -> SigningKey:
        found = self._own.get(kid)
        if found is not None:
            return found
        found = self._fetched.get(kid)
        # Those that are on their way may have it.
        is_awaited = found is None and self._fetching is not None
        may_fetch = self._source is not None and self._may_fetch(is_known=found is not None)
        if is_awaited or may_fetch:
            raise KeysNeeded("the token's key (kid) is not known")
        if found is None:
            raise TokenRefused("the token's key (kid) is not known")
        return found

    def _may_fetch(self, *, is_known: bool) -> bool:
        """Return whether to fetch keys now: tokens with invented keys must not cause fetches without end."""
        now_ms = self._clock.monotonic_ms()
        tried, fetched = self._tried_ms, self._fetched_ms
        if tried is not None and now_ms - tried < limits.OAUTH_FETCH_INTERVAL_S * 1000:
            return False
        if is_known and fetched is not None:
            return now_ms - fetched >= limits.OAUTH_KEYS_AGE_S_MAX * 1000
        return True

    # --- fetching --------------------------------------------------------------------------------------

    async def fetch(self) -> None:
        """Have the keys of today. Raises nothing if they cannot be had: those of yesterday stay."""
        if self._source is None:
            return
        if self._fetching is None:
            self._begin(self._source)
        assert self._fetching is not None
        await asyncio.shield(self._fetching)

    def _begin(self, source: "Source") -> None:
        loop = asyncio.get_running_loop()
        future = self._fetching = loop.create_future()
        self._tried_ms = self._clock.monotonic_ms()

        def done(found: dict[str, SigningKey] | None, error: BaseException | None) -> None:
            self._fetching = None
            if error is not None:
                log.warning("oauth2: keys of %s cannot be fetched: %s", source.url, error)
            elif found is not None:
                gone = sorted(self._fetched.keys() - found.keys())
                new = sorted(found.keys() - self._fetched.keys())
                self._fetched, self._fetched_ms = found, self._clock.monotonic_ms()
                if gone or new:
                    log.info("oauth2: keys of %s: %d new, %d gone", source.url, len(new), len(gone))
            if not future.done():
                future.set_result(None)

        thread = self._thread()
        thread.submit(source.keys, done)
        thread.stop(wait=False)


def load_verifier(
    settings: Mapping[str, Any], *, clock: Clock, thread: Callable[[], WorkThread]
) -> TokenVerifier | None:
    """If tokens are to be believed. Raises ``StartFailed``."""
    if OAUTH not in {BACKENDS[name] for name in settings["auth_backends"]}:
        return None
    try:
        import cryptography
        import jwt
    except ImportError as error:
        raise StartFailed(
            f"auth_backends names oauth2, which needs PyJWT: {error}.",
            "pip install '.[oauth]' in a clone, or leave oauth2 out of auth_backends",
            code=ExitCode.SETTINGS,
        ) from error
    log.debug("oauth2: PyJWT %s, cryptography %s", jwt.__version__, cryptography.__version__)
    return TokenVerifier(settings, clock=clock, thread=thread)


# --- settings ----------------------------------------------------------------------------------------------


def _rules(settings: Mapping[str, Any]) -> TokenRules:
    server = settings["auth_oauth2.resource_server_id"]
    if not server:
        raise _failed(
            "auth_backends names oauth2, but nothing says what tokens call this broker",
            "set auth_oauth2.resource_server_id to the audience (aud) of your tokens",
        )
    prefix = settings["auth_oauth2.scope_prefix"]
    aliases = (one.partition("=") for one in settings["auth_oauth2.scope_aliases"])
    return TokenRules(
        resource_server_id=server,
        scope_prefix=f"{server}." if prefix is None else prefix,
        verify_aud=settings["auth_oauth2.verify_aud"],
        additional_scopes=tuple((settings["auth_oauth2.additional_scopes_key"] or "").split()),
        aliases={name: tuple(scopes.split()) for name, _equals, scopes in aliases},
        name_claims=settings["auth_oauth2.preferred_username_claims"],
        leeway_s=settings["amqp.oauth2.leeway.seconds"],
    )


def _own_keys(settings: Mapping[str, Any]) -> dict[str, SigningKey]:
    found: dict[str, SigningKey] = {}
    for one in settings["auth_oauth2.signing_keys"]:
        kid, _equals, path = one.partition("=")
        try:
            found[kid] = _read_key(Path(path).expanduser().read_bytes())
        except (OSError, ValueError) as error:
            raise _failed(
                f"The key {kid} of auth_oauth2.signing_keys cannot be used: {error}",
                "name a file with a public key or a certificate (PEM), or with a JSON Web Key",
            ) from error
    default = settings["auth_oauth2.default_key"]
    source = settings["auth_oauth2.jwks_url"] or settings["auth_oauth2.issuer"]
    if not found and not source:
        raise _failed(
            "auth_backends names oauth2, but there are no keys",
            "name one by auth_oauth2.signing_keys.ID=FILE, or set auth_oauth2.jwks_url or "
            "auth_oauth2.issuer",
        )
    if default is not None and not source and default not in found:
        raise _failed(
            f"auth_oauth2.default_key names {default}, which is none of the signing_keys",
            f"there is {', '.join(sorted(found))}",
        )
    return found


def _failed(what: str, advice: str) -> StartFailed:
    return StartFailed(f"{what}.", advice, code=ExitCode.SETTINGS)


# --- keys --------------------------------------------------------------------------------------------------


def _read_key(data: bytes) -> SigningKey:
    """Of a file. Raises ``ValueError``."""
    if data.lstrip().startswith(b"{"):
        return _web_key(json.loads(data))
    if b"-----BEGIN" not in data:
        raise ValueError("it is neither PEM nor a JSON Web Key")
    if b"PRIVATE KEY" in data:
        raise ValueError("it is a private key, which stays with who signs")
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from cryptography.x509 import load_pem_x509_certificate

    if b"BEGIN CERTIFICATE" in data:
        return _public(load_pem_x509_certificate(data).public_key())
    return _public(load_pem_public_key(data))


def _public(key: Any) -> SigningKey:
    from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa

    if isinstance(key, rsa.RSAPublicKey):
        return SigningKey(key, frozenset(one for one in SIGNATURES if one[:2] in {"RS", "PS"}))
    if isinstance(key, ec.EllipticCurvePublicKey):
        name = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}.get(
            key.curve.name
        )
        if name is not None:
            return SigningKey(key, frozenset((name,)))
    if isinstance(key, (ed25519.Ed25519PublicKey, ed448.Ed448PublicKey)):
        return SigningKey(key, frozenset(("EdDSA",)))
    raise ValueError("no tokens are signed with a key of this kind")


def _web_key(table: Any) -> SigningKey:
    """A JSON Web Key (RFC 7517). Raises ``ValueError``."""
    import jwt

    if not isinstance(table, dict) or table.get("use", "sig") != "sig":
        raise ValueError("it is not a key for signatures")
    if "d" in table:
        raise ValueError("it is a private key, which stays with who signs")
    named = table.get("alg")
    try:
        # Without its alg the library would guess one; what a key may be used for follows from its kind.
        if table.get("kty") == "oct":
            secret = jwt.PyJWK({**table, "alg": named or "HS256"}).key
            key = SigningKey(secret, frozenset(("HS256", "HS384", "HS512")))
        else:
            key = _public(jwt.PyJWK(table).key)
    except (jwt.PyJWTError, KeyError, TypeError) as error:
        raise ValueError(f"it is not a key: {type(error).__name__}") from None
    return key if named is None else SigningKey(key.key, key.algorithms & {named})


class _Punctual(io.RawIOBase):
    """Reads from a socket until a deadline, however slowly the bytes come."""

    def __init__(self, raw: io.RawIOBase, connected: socket.socket, deadline: float) -> None:
        self._raw = raw
        self._socket = connected
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer takes too long")
        self._socket.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    """An answer that is read up to a time, its headers, too."""

    def __init__(
        self, connected: socket.socket, *arguments: Any, deadline: float, **how: Any
    ) -> None:
        super().__init__(connected, *arguments, **how)
        raw = self.fp.detach()
        self.fp = io.BufferedReader(_Punctual(raw, connected, deadline))


def _punctual(connect: Callable[..., http.client.HTTPConnection], deadline: float) -> Any:
    """Connections as ``connect`` makes them, whose answers are read up to a time."""

    def connection(*arguments: Any, **how: Any) -> http.client.HTTPConnection:
        made = connect(*arguments, **how)
        made.response_class = partial(_Answer, deadline=deadline)  # type: ignore[assignment]
        return made

    return connection


class _Http(urllib.request.HTTPHandler):
    deadline = 0.0

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_punctual(http.client.HTTPConnection, self.deadline), req)


class _Https(urllib.request.HTTPSHandler):
    deadline = 0.0

    def __init__(self, context: ssl.SSLContext | None) -> None:
        super().__init__(context=context)
        self._tls = context

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        connect = _punctual(http.client.HTTPSConnection, self.deadline)
        return self.do_open(connect, req, context=self._tls)


class Source:
    """Fetches keys. Runs in a thread; bounded in time and size."""

    def __init__(self, url: str, *, is_issuer: bool, tls: ssl.SSLContext | None) -> None:
        self.url = url
        self._is_issuer = is_issuer
        # Neither proxies nor redirections: keys come from where they were said to be.
        self._opener = urllib.request.OpenerDirector()
        self._timed = _Http(), _Https(tls)
        for handler in (
            *self._timed,
            urllib.request.HTTPErrorProcessor(),
            urllib.request.HTTPDefaultErrorHandler(),
            urllib.request.UnknownHandler(),
        ):
            self._opener.add_handler(handler)

    def keys(self) -> dict[str, SigningKey]:
        """By their ids. Raises ``OSError`` and ``ValueError``."""
        deadline = time.monotonic() + limits.OAUTH_FETCH_S
        for handler in self._timed:
            handler.deadline = deadline
        url = self.url
        if self._is_issuer:
            told = _table(self._read(url.rstrip("/") + _DISCOVERY)).get("jwks_uri")
            if not isinstance(told, str) or urlsplit(told).scheme not in {"http", "https"}:
                raise ValueError("the issuer does not say where its keys are (jwks_uri)")
            if urlsplit(url).scheme == "https" and urlsplit(told).scheme != "https":
                raise ValueError("the issuer's keys are not behind TLS")
            url = told
        listed = _table(self._read(url)).get("keys")
        if not isinstance(listed, list):
            raise ValueError("it is no JSON Web Key Set")
        found: dict[str, SigningKey] = {}
        for one in listed[: limits.OAUTH_KEYS_MAX]:
            kid = one.get("kid") if isinstance(one, dict) else None
            # Secrets are not published, and a set may hold keys that are for something else.
            if not isinstance(kid, str) or one.get("kty") == "oct":
                continue
            try:
                found[kid] = _web_key(one)
            except ValueError as error:
                log.debug("oauth2: a key of %s is left out: %s", self.url, error)
        return found

    def _read(self, url: str) -> bytes:
        if urlsplit(url).scheme == "file":
            with Path(urlsplit(url).path).open("rb") as file:
                data = file.read(limits.OAUTH_FETCH_BYTES_MAX + 1)
        else:
            data = self._download(url)
        if len(data) > limits.OAUTH_FETCH_BYTES_MAX:
            raise ValueError("the answer is too large")
        return data

    def _download(self, url: str) -> bytes:
        request = urllib.request.Request(url, headers={"accept": "application/json"})  # noqa: S310
        data = bytearray()
        try:
            answer = self._opener.open(request, timeout=limits.OAUTH_FETCH_S)
        except urllib.error.HTTPError as error:
            error.close()
            raise OSError(f"the answer is {error.code} {error.reason}") from None
        with answer:
            while chunk := answer.read1(_CHUNK_BYTES):
                data += chunk
                if len(data) > limits.OAUTH_FETCH_BYTES_MAX:
                    break
        return bytes(data)


def _table(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError("the answer is not JSON")
    return found


def _source(settings: Mapping[str, Any]) -> Source | None:
    url, issuer = settings["auth_oauth2.jwks_url"], settings["auth_oauth2.issuer"]
    place = url or issuer
    if not place:
        return None
    schemes = {"https", "http", "file"} if url else {"https", "http"}
    name = "auth_oauth2.jwks_url" if url else "auth_oauth2.issuer"
    if urlsplit(place).scheme not in schemes:
        raise _failed(f"{name} is no URL that keys can come from", "write https://HOST/PATH")
    if urlsplit(place).scheme == "http":
        log.warning("%s is not behind TLS: an attacker between can replace the keys", name)
    return Source(place, is_issuer=not url, tls=_tls(settings))


def _tls(settings: Mapping[str, Any]) -> ssl.SSLContext:
    authorities = settings["auth_oauth2.https.cacertfile"]
    try:
        context = ssl.create_default_context(cafile=authorities)
    except (OSError, ssl.SSLError) as error:
        raise _failed(
            f"auth_oauth2.https.cacertfile cannot be used: {error}", "name a file with PEM"
        ) from error
    is_strict = settings["auth_oauth2.https.peer_verification"] == "verify_peer"
    if not is_strict or settings["auth_oauth2.https.hostname_verification"] == "none":
        context.check_hostname = False
    if not is_strict:
        log.warning(
            "auth_oauth2.https.peer_verification is off: an attacker between can replace the keys"
        )
        context.verify_mode = ssl.CERT_NONE
    return context
