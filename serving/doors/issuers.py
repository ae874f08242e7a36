"""Fetches the keys of issuers, beside the requests that use them."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import structlog

from queue_access.doors import Doors
from queue_access.issuer_keys import IssuerKeys, Look
from queue_access.tokens import Issuer, PublicKeys
from serving.tls import trusting

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 0.5
TIMEOUT_S = 5.0
_MOST_BYTES = 1 << 20


class Issuers:
    """A thread. What it finds is put where the gate looks, whole."""

    def __init__(
        self, doors: Doors, ca: Path | None = None, look_every_s: float = LOOK_EVERY_S
    ) -> None:
        """`ca`: authorities that are trusted beside those of the system."""
        self._doors = doors
        self._ca = ca
        self._look_every_s = look_every_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="issuers", daemon=True)

    def start(self) -> Issuers:
        """Begin."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """End."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.wait(self._look_every_s):
            for issuer in list(self._doors.registry.issuers.values()):
                known = self._doors.issuer_keys.setdefault(issuer.jwks_url, IssuerKeys())
                if known.look(time.time()) is Look.FETCH:
                    self._fetch(issuer, known)

    def _fetch(self, issuer: Issuer, known: IssuerKeys) -> None:
        try:
            keys = PublicKeys.read(fetched(issuer.jwks_url, self._ca))
        except (httpx2.HTTPError, OSError, ValueError) as error:
            log.warning("issuer.request_failed", issuer=issuer.name, why=f"{error}"[:300])
            known.failed(type(error).__name__)
            return
        known.came(keys, time.time())


def fetched(url: str, ca: Path | None = None) -> bytes:
    """The document, within its time and its size, from that address and no other.

    Raises `ValueError`, and what the transport raises.
    """
    if urlsplit(url).scheme not in {"http", "https"}:
        raise ValueError(f"{url} is not an http address")
    deadline = time.monotonic() + TIMEOUT_S
    with contextlib.ExitStack() as stack:
        client = httpx2.Client(timeout=TIMEOUT_S, trust_env=False, verify=trusting(ca))
        http = stack.enter_context(client)
        answer = stack.enter_context(http.stream("GET", url, follow_redirects=False))
        if answer.status_code != httpx2.codes.OK:
            raise ValueError(f"answered {answer.status_code}")
        whole = b""
        for piece in answer.iter_bytes():
            whole += piece
            if len(whole) > _MOST_BYTES or time.monotonic() > deadline:
                raise ValueError("answers too much, or too slowly")
        return whole
