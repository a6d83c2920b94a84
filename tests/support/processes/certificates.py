"""Certificates for tests: an authority of their own, and what it signs. Made by the openssl command."""

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


class Authority:
    """Signs for whoever asks."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.own = Certificate(directory / "authority.pem", directory / "authority.key")
        _openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-days", "2", "-subj", "/CN=authority",
            "-keyout", self.own.key, "-out", self.own.certificate,
        )  # fmt: skip

    def sign(self, subject: str, *, host: str | None = None) -> Certificate:
        """For a subject such as ``/O=mill/CN=miller``."""
        name = subject.replace("/", "_").replace("=", "-")
        made = Certificate(self._directory / f"{name}.pem", self._directory / f"{name}.key")
        request = self._directory / f"{name}.csr"
        _openssl(
            "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-subj", subject, "-keyout", made.key, "-out", request,
        )  # fmt: skip
        extensions = self._directory / f"{name}.ext"
        extensions.write_text("" if host is None else f"subjectAltName=IP:{host}\n")
        _openssl(
            "x509", "-req", "-in", request, "-days", "2", "-extfile", extensions,
            "-CA", self.own.certificate, "-CAkey", self.own.key, "-CAcreateserial",
            "-out", made.certificate,
        )  # fmt: skip
        return made


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=60)
