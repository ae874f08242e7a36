"""TLS of a process that listens: files of a certificate, read again when they have changed."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import structlog

from lakequeue.errors import InvalidSetting
from lakequeue.settings import TlsSettings
from queue_access.doors import Certificate

log = structlog.get_logger(__name__)

HANDSHAKE_S = 10.0


class Tls:
    """A context for a server, made anew when its files change. Connections keep theirs."""

    def __init__(self, settings: TlsSettings) -> None:
        """Raises `InvalidSetting` for files that cannot be used."""
        if settings.cert is None:
            raise InvalidSetting(
                "tls.client_ca or tls.key without tls.cert", hint="name the file of the certificate"
            )
        self._cert, self._key, self._client_ca = settings.cert, settings.key, settings.client_ca
        self._seen = self._state()
        try:
            self.context = self._made()
        except (OSError, ValueError) as error:
            raise InvalidSetting(
                f"the files for TLS cannot be used: {error}",
                hint="see tls.cert, tls.key and tls.client_ca; all in PEM form",
            ) from error

    def _made(self) -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        made.load_cert_chain(self._cert, self._key)
        if self._client_ca is not None:
            made.load_verify_locations(self._client_ca)
            # Whoever shows none can still show a key.
            made.verify_mode = ssl.CERT_OPTIONAL
        return made

    def _state(self) -> tuple[tuple[int, int] | None, ...]:
        files = (self._cert, self._key or self._cert, self._client_ca or self._cert)
        return tuple(map(_state_of, files))

    def wrapped(self, link: socket.socket) -> ssl.SSLSocket:
        """A connection that has come, for a thread of its own: its handshake comes with the first
        read, so it may take as long as it likes.
        """
        return self.context.wrap_socket(link, server_side=True, do_handshake_on_connect=False)

    def look(self) -> bool:
        """Take files that have changed, unless they cannot be used; whether it did."""
        now = self._state()
        if now == self._seen or None in now:
            return False
        self._seen = now
        try:
            self.context = self._made()
        except (OSError, ValueError) as error:
            log.warning("tls.reload_failed", cert=str(self._cert), why=str(error))
            return False
        log.info("tls.reloaded", cert=str(self._cert))
        return True


def tls_of(settings: TlsSettings) -> Tls | None:
    """None: plain HTTP. Raises `InvalidSetting`."""
    given = settings.cert or settings.key or settings.client_ca
    return None if given is None else Tls(settings)


def trusting(ca: Path | None) -> ssl.SSLContext:
    """For a client of an issuer: it is often not of the authority that signs the queue's own
    certificates (`ca`), so those of the system are trusted, too. Raises `OSError`.
    """
    made = ssl.create_default_context()
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca is not None:
        made.load_verify_locations(ca)
    return made


def _state_of(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino


def certificate_of(shown: Mapping[str, Any] | None) -> Certificate | None:
    """A client's certificate, which was verified, as `ssl` tells it; None: there is none."""
    subject: Sequence[Sequence[tuple[str, str]]] = (shown or {}).get("subject", ())
    names = [value for part in subject for name, value in part if name == "commonName"]
    if not shown or len(names) != 1 or not names[0]:
        return None
    return Certificate(names[0], ssl.cert_time_to_seconds(shown["notAfter"]))
