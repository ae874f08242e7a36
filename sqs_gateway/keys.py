"""The keys that clients sign with, from a file that is read again when it has changed.

A line is an API key of the queue, `lq_<id>_<secret>`: clients sign with the access key `lq_<id>`
and the whole line as the secret, and have the rights of that key. Or it is `<access key>:<secret>`:
then the gateway calls the services as itself. The secrets never travel: a signature proves that a
client has one.
"""

from __future__ import annotations

import hmac
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from lakequeue.errors import InvalidSetting
from queue_access.keys import PREFIX, id_of

_LOOK_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class AccessKey:
    """One line."""

    secret: str = field(repr=False)
    bearer: str | None = field(default=None, repr=False)
    """What the services are shown; None: the gateway's own key."""


def keys_in(text: str) -> dict[str, AccessKey]:
    """Access key → what stands for it. Raises `InvalidSetting`. Pure."""
    found: dict[str, AccessKey] = {}
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        if not line or line.startswith("#"):
            continue
        key_id = id_of(line)
        name, colon, secret = line.partition(":")
        if key_id is not None:
            found[f"{PREFIX}{key_id}"] = AccessKey(line, line)
        elif colon and name and secret and "/" not in name:
            found[name] = AccessKey(secret)
        else:
            raise InvalidSetting(
                f"line {number} of the file of keys is neither an API key nor a pair",
                hint="write lq_…, or <access key>:<secret>; a comment begins with #",
            )
    return found


class KeyFile:
    """Thread-safe."""

    def __init__(self, path: Path, now: Callable[[], float] = time.monotonic) -> None:
        """Reads it. Raises `InvalidSetting`."""
        self._path, self._now = path, now
        self._lock = threading.Lock()
        self._looked_at = now()
        self._stamp = self._stamp_of()
        self._keys = keys_in(self._text())

    def find(self, access_key: str) -> AccessKey | None:
        """What stands for an access key; None: there is none, or not any more."""
        with self._lock:
            if self._now() - self._looked_at >= _LOOK_EVERY_S:
                self._looked_at = self._now()
                stamp = self._stamp_of()
                if stamp != self._stamp:
                    self._keys, self._stamp = keys_in(self._text()), stamp
            return self._keys.get(access_key)

    def has(self, api_key: str) -> bool:
        """Whether that is one of its API keys."""
        found = self.find(f"{PREFIX}{id_of(api_key)}")
        return found is not None and hmac.compare_digest(found.secret.encode(), api_key.encode())

    def _stamp_of(self) -> tuple[int, int]:
        try:
            found = self._path.stat()
        except OSError as error:
            raise self._unreadable(error) from None
        return found.st_mtime_ns, found.st_size

    def _text(self) -> str:
        try:
            return self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: Exception) -> InvalidSetting:
        return InvalidSetting(
            f"the file {self._path} of the setting sqs.keys_file cannot be read: {error}",
            hint="it has one key a line; see docs/sqs.md",
        )
