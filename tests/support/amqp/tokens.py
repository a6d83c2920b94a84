"""Who signs tokens in tests: keys that are made when they are needed, and tokens with them."""

import json
import time
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

EVERYTHING = "mill.read:*/* mill.write:*/* mill.configure:*/*"


class Issuer:
    """Signs with RSA keys of its own, each with an id."""

    def __init__(self, *kids: str) -> None:
        self.keys = {kid: rsa.generate_private_key(65537, 2048) for kid in kids or ("one",)}

    def pem(self, kid: str = "one") -> bytes:
        return (
            self.keys[kid]
            .public_key()
            .public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        )

    def write_pem(self, path: Path, kid: str = "one") -> Path:
        path.write_bytes(self.pem(kid))
        return path

    def key_set(self, *kids: str) -> bytes:
        """As it is published."""
        rows = []
        for kid in kids or self.keys:
            row: Any = jwt.algorithms.RSAAlgorithm.to_jwk(self.keys[kid].public_key(), as_dict=True)
            rows.append({**row, "kid": kid, "use": "sig", "alg": "RS256"})
        return json.dumps({"keys": rows}).encode()

    def token(
        self,
        scope: Any = EVERYTHING,
        *,
        kid: str | None = "one",
        seconds: int = 300,
        algorithm: str = "RS256",
        **claims: Any,
    ) -> str:
        """A token; claims that are None are left out."""
        said = {
            "sub": "ann",
            "aud": "mill",
            "scope": scope,
            "exp": time.time_ns() // 10**9 + seconds,
            **claims,
        }
        return jwt.encode(
            {name: value for name, value in said.items() if value is not None},
            self.keys[kid or "one"],
            algorithm=algorithm,
            headers={} if kid is None else {"kid": kid},
        )
