"""Which tokens are believed: signatures, kinds of keys, keys that come and go, settings without sense."""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import logging
import socket
import ssl
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from millpond.auth.claims import TokenRefused
from millpond.base import limits
from millpond.engine.runtime.threads import DaemonThread
from millpond.frontend.amqp.logins import KeysNeeded
from millpond.server.config import given_in_code, load_settings
from millpond.server.failures import StartFailed
from millpond.server.oauth import TokenVerifier, load_verifier
from tests.support.amqp.tokens import Issuer
from tests.support.processes.certificates import Authority


class HandClock:
    """Goes when it is told to."""

    def __init__(self) -> None:
        self.ms = 0

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


def verifier(clock: HandClock | None = None, /, **settings: Any) -> TokenVerifier:
    given = {
        "auth_backends": "oauth2,internal",
        "auth_oauth2.resource_server_id": "mill",
        **{f"auth_oauth2.{name}": str(value) for name, value in settings.items()},
    }
    found = load_verifier(
        load_settings(overrides=given_in_code(given)).values,
        clock=clock or HandClock(),
        thread=lambda: DaemonThread("keys"),
    )
    assert found is not None
    return found


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer("one", "two")


@pytest.fixture
def own(issuer: Issuer, tmp_path: Path) -> TokenVerifier:
    """Knows one key, from a file."""
    return verifier(**{"signing_keys.one": issuer.write_pem(tmp_path / "one.pem")})


def refused(found: TokenVerifier, token: str | bytes) -> str:
    with pytest.raises(TokenRefused) as refusal:
        found.claims(token.encode() if isinstance(token, str) else token)
    return str(refusal.value)


def part(table: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(table).encode()).rstrip(b"=").decode()


# --- signatures ------------------------------------------------------------------------------------------


def test_a_token_of_a_known_key_is_read(issuer: Issuer, own: TokenVerifier) -> None:
    assert own.claims(issuer.token().encode())["sub"] == "ann"


def test_a_token_of_another_key_is_not(issuer: Issuer, own: TokenVerifier) -> None:
    forged = jwt.encode({"sub": "ann"}, issuer.keys["two"], "RS256", headers={"kid": "one"})
    assert refused(own, forged) == "the token's signature is wrong"


def test_a_token_that_was_changed_is_not(issuer: Issuer, own: TokenVerifier) -> None:
    head, _body, signature = issuer.token().split(".")
    assert refused(own, f"{head}.{part({'sub': 'bob'})}.{signature}") == (
        "the token's signature is wrong"
    )


def test_a_key_that_nobody_knows(issuer: Issuer, own: TokenVerifier) -> None:
    assert refused(own, issuer.token(kid="two")) == "the token's key (kid) is not known"


@pytest.mark.parametrize("alg", ["none", "None", "", "HS256", ["RS256"], None, 7])
def test_no_signature_is_no_signature(alg: object, own: TokenVerifier) -> None:
    token = f"{part({'alg': alg, 'kid': 'one'})}.{part({'sub': 'ann'})}."
    assert "believed" in refused(own, token) or "not a token" in refused(own, token)


def test_what_is_public_of_a_key_is_no_secret(issuer: Issuer, own: TokenVerifier) -> None:
    """The oldest trick: a signature by HMAC with the public key, which anybody has."""
    signed = f"{part({'alg': 'HS256', 'kid': 'one'})}.{part({'sub': 'ann'})}"
    digest = hmac.digest(issuer.pem(), signed.encode(), hashlib.sha256)
    token = f"{signed}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"
    assert refused(own, token) == "the token's signature (alg) is not of a kind that is believed"


def test_a_token_may_bring_no_key_of_its_own(issuer: Issuer, own: TokenVerifier) -> None:
    row: Any = jwt.algorithms.RSAAlgorithm.to_jwk(issuer.keys["two"].public_key(), as_dict=True)
    token = jwt.encode(
        {"sub": "ann"}, issuer.keys["two"], "RS256", headers={"kid": "one", "jwk": row}
    )
    assert refused(own, token) == "the token's signature is wrong"


def test_only_algorithms_that_are_named(issuer: Issuer, tmp_path: Path) -> None:
    path = issuer.write_pem(tmp_path / "one.pem")
    strict = verifier(
        **{"signing_keys.one": path, "algorithms.1": "RS512", "algorithms.2": "ES256"}
    )
    assert "believed" in refused(strict, issuer.token())
    assert strict.claims(issuer.token(algorithm="RS512").encode())["sub"] == "ann"


@pytest.mark.parametrize(
    "token",
    [
        "",
        "guest",
        "a.b.c",
        "....",
        "ey.ey.ey",
        "\ud800".encode("utf-8", "surrogatepass"),
        b"\xff" * 9,
    ]
    + [f"{part({'alg': 'RS256', 'kid': kid})}.{part({})}.x" for kid in (7, ["one"], None)],
)
def test_what_is_no_token(token: str | bytes, own: TokenVerifier) -> None:
    refused(own, token)


def test_a_token_without_end(own: TokenVerifier) -> None:
    assert refused(own, b"x" * (limits.OAUTH_TOKEN_BYTES_MAX + 1)) == "the token is too large"


def test_a_token_whose_claims_are_none(issuer: Issuer, own: TokenVerifier) -> None:
    key = issuer.keys["one"]
    for payload, reason in ((b"[1]", "the token says nothing"), (b"no", "it is not a token")):
        token = jwt.PyJWS().encode(payload, key, "RS256", headers={"kid": "one"})
        assert refused(own, token) == reason


# --- keys ------------------------------------------------------------------------------------------------


def test_a_token_without_a_key_has_the_default_one(issuer: Issuer, tmp_path: Path) -> None:
    path = issuer.write_pem(tmp_path / "one.pem")
    found = verifier(**{"signing_keys.one": path, "default_key": "one"})
    assert found.claims(issuer.token(kid=None).encode())["sub"] == "ann"


def test_or_none(issuer: Issuer, own: TokenVerifier) -> None:
    assert refused(own, issuer.token(kid=None)) == (
        "the token names no key (kid), and there is no default_key"
    )


@pytest.mark.parametrize(
    ("private", "algorithm"),
    [
        (ec.generate_private_key(ec.SECP256R1()), "ES256"),
        (ec.generate_private_key(ec.SECP384R1()), "ES384"),
        (ed25519.Ed25519PrivateKey.generate(), "EdDSA"),
    ],
)
def test_other_kinds_of_keys(private: Any, algorithm: str, tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(
        private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    found = verifier(**{"signing_keys.k": path})
    token = jwt.encode({"sub": "ann"}, private, algorithm, headers={"kid": "k"})
    assert found.claims(token.encode()) == {"sub": "ann"}


def test_a_secret_is_a_web_key(tmp_path: Path) -> None:
    secret = b"0123456789abcdef0123456789abcdef"
    path = tmp_path / "secret.json"
    encoded = base64.urlsafe_b64encode(secret).rstrip(b"=").decode()
    path.write_text(json.dumps({"kty": "oct", "k": encoded, "alg": "HS256"}))
    found = verifier(**{"signing_keys.s": path})
    token = jwt.encode({"sub": "ann"}, secret, "HS256", headers={"kid": "s"})
    assert found.claims(token.encode()) == {"sub": "ann"}
    other = jwt.encode({"sub": "ann"}, secret * 2, "HS512", headers={"kid": "s"})
    assert "believed" in refused(found, other)


# --- keys that are fetched -------------------------------------------------------------------------------


def test_keys_are_fetched_when_one_is_missing_and_those_that_are_gone_go(
    issuer: Issuer, tmp_path: Path
) -> None:
    clock = HandClock()
    place = tmp_path / "keys.json"
    place.write_bytes(issuer.key_set("one"))
    found = verifier(clock, jwks_url=place.as_uri())

    async def story() -> None:
        with pytest.raises(KeysNeeded):
            found.claims(issuer.token().encode())
        await found.fetch()
        assert found.claims(issuer.token().encode())["sub"] == "ann"
        # The keys change. Whoever comes with a new one too soon waits until they may be fetched again.
        place.write_bytes(issuer.key_set("two"))
        assert refused(found, issuer.token(kid="two")) == "the token's key (kid) is not known"
        clock.ms += limits.OAUTH_FETCH_INTERVAL_S * 1000
        with pytest.raises(KeysNeeded):
            found.claims(issuer.token(kid="two").encode())
        await found.fetch()
        assert found.claims(issuer.token(kid="two").encode())["sub"] == "ann"
        assert refused(found, issuer.token(kid="one")) == "the token's key (kid) is not known"

    asyncio.run(story())


def test_who_comes_while_keys_are_fetched_waits_for_them(issuer: Issuer, tmp_path: Path) -> None:
    """All clients come at once when a broker starts: none is refused for not being the first."""
    place = tmp_path / "keys.json"
    place.write_bytes(issuer.key_set("one"))
    found = verifier(jwks_url=place.as_uri())

    async def log_in() -> str:
        with pytest.raises(KeysNeeded):
            found.claims(issuer.token().encode())
        await found.fetch()
        return str(found.claims(issuer.token().encode())["sub"])

    async def story() -> None:
        async with asyncio.TaskGroup() as group:
            logins = [group.create_task(log_in()) for _client in range(2)]
        assert [one.result() for one in logins] == ["ann", "ann"]

    asyncio.run(story())


def test_keys_that_are_known_are_fetched_again_after_a_while(
    issuer: Issuer, tmp_path: Path
) -> None:
    clock = HandClock()
    place = tmp_path / "keys.json"
    place.write_bytes(issuer.key_set("one"))
    found = verifier(clock, jwks_url=place.as_uri())

    async def story() -> None:
        await found.fetch()
        clock.ms += limits.OAUTH_KEYS_AGE_S_MAX * 1000
        place.unlink()
        with pytest.raises(KeysNeeded):
            found.claims(issuer.token().encode())
        # Who has them is not there: those of before stay.
        await found.fetch()
        assert found.claims(issuer.token().encode())["sub"] == "ann"

    asyncio.run(story())


class Place:
    """A web server that says what it is told to."""

    def __init__(
        self, pages: dict[str, Callable[[], bytes]], tls: ssl.SSLContext | None = None
    ) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page = pages.get(self.path)
                self.send_response(302 if page is None else 200)
                self.send_header("location", "/keys")
                self.end_headers()
                if page is not None:
                    self.wfile.write(page())

            def log_message(self, *_arguments: object) -> None: ...

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def test_an_issuer_says_where_its_keys_are(issuer: Issuer) -> None:
    place = Place(
        {
            "/realm/.well-known/openid-configuration": lambda: json.dumps(
                {"jwks_uri": f"{place.url}/keys"}
            ).encode(),
            "/keys": issuer.key_set,
        }
    )
    try:
        found = verifier(issuer=f"{place.url}/realm")
        asyncio.run(_fetch(found))
        assert found.claims(issuer.token(kid="two").encode())["sub"] == "ann"
    finally:
        place.close()


async def _fetch(found: TokenVerifier) -> None:
    await found.fetch()


@pytest.mark.parametrize(
    "page",
    [
        b"",
        b"[]",
        b'{"keys": 7}',
        b"[" * 100_000,
        b" " * (limits.OAUTH_FETCH_BYTES_MAX + 1),
        None,  # a redirection, which is not followed
    ],
)
def test_what_is_no_set_of_keys(
    page: bytes | None, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    pages: dict[str, Callable[[], bytes]] = {"/keys": issuer.key_set}
    if page is not None:
        pages["/set"] = lambda: page
    place = Place(pages)
    try:
        found = verifier(jwks_url=f"{place.url}/set")
        asyncio.run(_fetch(found))
    finally:
        place.close()
    assert "cannot be fetched" in caplog.text
    refused(found, issuer.token())


class Dripping:
    """A web server that never comes to the end of its headers."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/keys"
        self._is_over = Event()
        Thread(target=self._drip, daemon=True).start()

    def _drip(self) -> None:
        connected, _peer = self._listening.accept()
        with connected, contextlib.suppress(OSError):
            connected.sendall(b"HTTP/1.1 200 OK\r\nx-slow: ")
            while not self._is_over.wait(0.02):
                connected.sendall(b"z")

    def close(self) -> None:
        self._is_over.set()
        self._listening.close()


def test_an_answer_that_never_ends_is_given_up(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(limits, "OAUTH_FETCH_S", 0.2)
    place = Dripping()

    async def story() -> None:
        async with asyncio.timeout(10):
            await found.fetch()

    try:
        found = verifier(jwks_url=place.url)
        asyncio.run(story())
    finally:
        place.close()
    assert "cannot be fetched" in caplog.text
    refused(found, issuer.token())


def test_keys_come_over_tls(issuer: Issuer, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own = authority.sign("/CN=keys", host="127.0.0.1")
    context.load_cert_chain(own.certificate, own.key)
    place = Place({"/keys": issuer.key_set}, tls=context)
    try:
        url = f"{place.url.replace('http:', 'https:')}/keys"
        found = verifier(jwks_url=url, **{"https.cacertfile": authority.own.certificate})
        asyncio.run(_fetch(found))
        assert found.claims(issuer.token().encode())["sub"] == "ann"
    finally:
        place.close()


def test_keys_for_something_else_are_left_out(issuer: Issuer, tmp_path: Path) -> None:
    rows = json.loads(issuer.key_set())["keys"]
    rows[1]["use"] = "enc"
    secret = {"kty": "oct", "kid": "s", "k": "c2VjcmV0"}
    place = tmp_path / "keys.json"
    place.write_text(json.dumps({"keys": [*rows, secret, 7, {}, {"kid": "x", "kty": "RSA"}]}))
    found = verifier(jwks_url=place.as_uri())
    asyncio.run(_fetch(found))
    assert found.claims(issuer.token().encode())["sub"] == "ann"
    assert refused(found, issuer.token(kid="two")) == "the token's key (kid) is not known"
    forged = jwt.encode({"sub": "ann"}, b"secret" * 8, "HS256", headers={"kid": "s"})
    assert refused(found, forged) == "the token's key (kid) is not known"


# --- settings --------------------------------------------------------------------------------------------


def test_who_does_not_ask_for_tokens_needs_no_library() -> None:
    values = load_settings().values
    assert load_verifier(values, clock=HandClock(), thread=lambda: DaemonThread("keys")) is None


def test_without_the_library_the_start_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(StartFailed, match=r"pip install '.\[oauth\]' in a clone"):
        verifier(issuer="https://localhost")


def test_settings_that_make_no_sense(issuer: Issuer, tmp_path: Path) -> None:
    path = issuer.write_pem(tmp_path / "one.pem")
    private = tmp_path / "private.pem"
    private.write_bytes(
        issuer.keys["one"].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    junk = tmp_path / "junk"
    junk.write_text("secret")
    for settings, said in (
        ({"resource_server_id": "", "issuer": "https://localhost"}, "what tokens call this broker"),
        ({}, "there are no keys"),
        ({"signing_keys.one": tmp_path / "none.pem"}, "No such file"),
        ({"signing_keys.one": private}, "it is a private key"),
        ({"signing_keys.one": junk}, "neither PEM nor a JSON Web Key"),
        ({"signing_keys.one": path, "default_key": "two"}, "none of the signing_keys"),
        ({"jwks_url": "ftp://localhost/keys"}, "no URL that keys can come from"),
        ({"issuer": "file:///keys"}, "no URL that keys can come from"),
        ({"issuer": "https://localhost", "https.cacertfile": junk}, "cacertfile cannot be used"),
    ):
        with pytest.raises(StartFailed, match=said):
            verifier(**settings)


def test_nothing_of_a_token_is_logged(
    issuer: Issuer, own: TokenVerifier, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    token = issuer.token()
    own.claims(token.encode())
    refused(own, token[:-9] + "AAAAAAAAA")
    assert token.split(".")[1] not in caplog.text
