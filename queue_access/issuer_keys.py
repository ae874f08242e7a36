"""When the keys of an issuer are fetched, and what counts meanwhile. Pure: time comes in.

Keys stay good for a while after the issuer has gone, so that its nights are not ours. A key that is
not known asks for a look at the issuer, at most once in `LOOK_EVERY_S`: a sender of made-up tokens
cannot make the node ask more often.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from lakequeue.errors import IssuerUnavailable
from queue_access.tokens import PublicKeys

FRESH_S = 300.0
"""Keys of this age are fetched anew, beside the requests that use them."""
STALE_S = 86_400.0
"""Keys of this age count no more, however long the issuer is away."""
LOOK_EVERY_S = 10.0


class Look(Enum):
    """What to do about an issuer's keys."""

    NOT_NOW = "there is nothing to fetch"
    FETCH = "fetch them"


@dataclass(slots=True)
class IssuerKeys:
    """The keys of one issuer. Belongs to one thread."""

    keys: PublicKeys | None = None
    fetched_at: float = float("-inf")
    asked_at: float = float("-inf")
    wanted: bool = False
    """A token names a key that is not among them."""
    trouble: str = field(default="they were not fetched yet")

    def use(self, key_id: str, algorithm: str, now: float) -> PublicKeys:
        """The keys to check a token with. Raises `IssuerUnavailable` while they are not known.

        A key that is not there is looked for at the issuer first: it may have rolled its keys.
        """
        if self.keys is None or not self.good(now):
            self.wanted = True
            raise _away(f"the keys of the issuer are not known: {self.trouble}")
        if self.keys.find(key_id, algorithm) is None and now - self.fetched_at > LOOK_EVERY_S:
            self.wanted = True
            raise _away("the token names a key that the issuer had not when it was asked last")
        return self.keys

    def good(self, now: float) -> bool:
        """Whether those that are known still count."""
        return now - self.fetched_at <= STALE_S

    def look(self, now: float) -> Look:
        """Whether to fetch now; whoever is told so does."""
        old = now - self.fetched_at > FRESH_S
        if not (old or self.wanted) or now - self.asked_at < LOOK_EVERY_S:
            return Look.NOT_NOW
        self.asked_at = now
        return Look.FETCH

    def came(self, keys: PublicKeys, now: float) -> None:
        """They were fetched. A document without a usable key is no news: the issuer is broken."""
        if not len(keys):
            self.failed("its document has no key that can be used")
            return
        self.keys, self.fetched_at, self.wanted, self.trouble = keys, now, False, ""

    def failed(self, why: str) -> None:
        """They were not; those that are known go on."""
        self.trouble = why


def _away(detail: str) -> IssuerUnavailable:
    return IssuerUnavailable(
        detail,
        hint="try again in a moment; if it lasts, see whether this node reaches the issuer's "
        "jwks_url",
        stored="no",
        retry_after_s=2.0,
    )
