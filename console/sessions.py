"""Who looks: keys that somebody has signed in with, kept here in memory alone.

The cookie has a random name of the session and nothing else. Each session has a `Desk` of its own,
whose calls carry that key: the services judge what it may do, and their audit names whose it is.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from console.asking.desk import Desk
from console.rules.oidc import name_in
from queue_access.keys import id_of

COOKIE = "lakequeue_console"
MOST = 256
IDLE_S = 8 * 3_600.0


@dataclass(slots=True)
class Session:
    """One person, or nobody in particular while authentication is off."""

    desk: Desk
    who: str = ""
    """What may be shown of the key: its public part."""
    used_at: float = 0.0
    until: float = math.inf
    """The token that it goes by is good until then."""
    id: str = field(default="", repr=False)


class Sessions:
    """Thread-safe."""

    def __init__(
        self,
        everybody: Desk,
        new_desk: Callable[[str], Desk],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`everybody`: asks without a key. `new_desk` makes one that asks with a key."""
        self.everybody = Session(everybody)
        self._new_desk, self._clock = new_desk, clock
        self._lock = threading.Lock()
        self._known: dict[str, Session] = {}
        self._seal = secrets.token_bytes(32)

    def of(self, key: str, lasts_s: float | None = None) -> Session:
        """A session of whoever has this key. It is nobody's until it is kept. A token lasts."""
        now = self._clock()
        until = math.inf if lasts_s is None else now + lasts_s
        return Session(self._new_desk(key), told(key), now, until, secrets.token_urlsafe(32))

    def keep(self, session: Session) -> Session:
        """Its key is good. The session that was not used for longest makes room."""
        with self._lock:
            self._forget_old()
            while len(self._known) >= MOST:
                oldest = min(self._known.values(), key=lambda one: one.used_at)
                self._known.pop(_kept_as(oldest.id)).desk.close()
            self._known[_kept_as(session.id)] = session
        return session

    def find(self, cookie: str) -> Session | None:
        """Whose cookie it is; None: nobody's, or not any more."""
        with self._lock:
            self._forget_old()
            session = self._known.get(_kept_as(cookie)) if cookie else None
            if session is not None:
                session.used_at = self._clock()
            return session

    def end(self, cookie: str) -> None:
        """Forget the key."""
        with self._lock:
            session = self._known.pop(_kept_as(cookie), None)
        if session is not None:
            session.desk.close()

    def token(self, cookie: str) -> str:
        """What a form of this browser has to carry: no other site can know it."""
        return hmac.new(self._seal, cookie.encode(), hashlib.sha256).hexdigest()

    def is_token(self, cookie: str, shown: str) -> bool:
        """Whether a form was made for this browser."""
        return bool(cookie) and hmac.compare_digest(self.token(cookie).encode(), shown.encode())

    def _forget_old(self) -> None:
        now = self._clock()
        for name in [
            n for n, one in self._known.items() if one.used_at < now - IDLE_S or one.until < now
        ]:
            self._known.pop(name).desk.close()


def _kept_as(cookie: str) -> str:
    return hashlib.sha256(cookie.encode()).hexdigest()


def told(key: str) -> str:
    """What may be shown of a key or token: who has read it can do nothing with it. Pure."""
    key_id = id_of(key)
    return f"lq_{key_id}" if key_id is not None else name_in(key) or "a token"
