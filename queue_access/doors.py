"""Who calls, and whether they may: one decision for each request, before its body is read. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from shlex import quote

from lakequeue.errors import Forbidden, LakequeueError, Unauthenticated
from queue_access.calls import CallRight, Calls
from queue_access.issuer_keys import IssuerKeys
from queue_access.keys import id_of
from queue_access.quotas import NO_QUOTA, Quota
from queue_access.registry import EVERYBODY, Registry
from queue_access.rights import ALL, Kind, Right, Rights
from queue_access.tokens import PublicKeys, Verified, claimed, is_token, verified

_MOST_TOKENS = 4_096


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls."""

    principal: str
    rights: Rights
    how: str = ""
    """By which key, token or certificate: never its secret."""
    until: float = float("inf")
    """Seconds since 1970 from which on it counts no more."""
    groups: tuple[str, ...] = ()
    quota: Quota = NO_QUOTA
    token: str = field(default="", repr=False)
    """What it showed, if that was a token: it is judged again when a call goes on."""

    def must(self, right: Right, kind: Kind, name: str = "") -> None:
        """Raise `Forbidden` unless that is allowed."""
        if not self.rights.allow(right, kind, name):
            raise forbidden(self.principal, right, kind, name)


@dataclass(frozen=True, slots=True)
class Certificate:
    """A client's certificate, which was verified when its connection began."""

    name: str
    until: float = float("inf")
    """Seconds since 1970: connections outlive it."""


ANYBODY = Caller(EVERYBODY, ALL)
"""Whoever it is: authentication is off."""


def forbidden(principal: str, right: Right | str, kind: Kind, name: str) -> Forbidden:
    """The refusal, with the remedy: a command that does nothing else, whatever the names are."""
    over = f" over the {kind} {name!r}" if name else f" over the {kind}"
    option = f"--{kind} {quote(name)}" if name else f"--{kind}"
    return Forbidden(
        f"{principal} has not the right {right!s}{over}",
        hint=f"lakequeue auth grant {quote(principal)} {right!s} {option}",
        stored="no",
    )


@dataclass(frozen=True, slots=True)
class _Known:
    """A token that was verified, and by what."""

    registry: Registry
    text: str = field(repr=False)
    said: Verified
    of_issuer: IssuerKeys
    keys: PublicKeys

    def counts(self, registry: Registry, text: str, now: float) -> bool:
        """Whether it would be verified again: an issuer may have taken its key back since."""
        return (
            self.registry is registry
            and self.text == text
            and self.said.until > now
            and self.of_issuer.keys is self.keys
            and self.of_issuer.good(now)
        )


class Doors:
    """Decides. `registry` is replaced from outside. For one thread, that of the event loop."""

    def __init__(self, calls: Calls, wall_s: Callable[[], float]) -> None:
        self.registry = Registry()
        self.issuer_keys: dict[str, IssuerKeys] = {}
        """By where they are fetched from: keys of an issuer's former address count no more."""
        self._calls = calls
        self.wall_s = wall_s
        self._tokens: dict[int, _Known] = {}
        """Tokens that were verified: most requests come with one that did before."""

    def caller(self, authorization: str, certificate: Certificate | None = None) -> Caller:
        """Who that is. Raises `Unauthenticated`, `IssuerUnavailable`."""
        if not self.registry.locked:
            return ANYBODY
        scheme, _, text = authorization.partition(" ")
        text = text.strip()
        if scheme.lower() == "bearer" and text:
            return self._of_token(text) if is_token(text) else self._of_key(text)
        if authorization:
            # Not what it says: without a scheme it may be the key itself.
            raise _unknown("the header Authorization is not Bearer and credentials")
        if certificate is not None:
            return self._of_certificate(certificate)
        raise _unknown("this call needs credentials")

    def _of_certificate(self, certificate: Certificate) -> Caller:
        name, until = f"cert/{certificate.name}", certificate.until
        if until <= self.wall_s():
            said = f"the client certificate of {name} has expired"
            raise _unknown(said, "connect with a new one")
        rights, quota = self.registry.rights_of(name), self.registry.quota_of(name)
        return Caller(name, rights, "a client certificate", until, quota=quota)

    def _of_key(self, text: str) -> Caller:
        key_id = id_of(text)
        key = None if key_id is None else self.registry.keys.get(key_id)
        if key is None or not key.fits(text):
            raise _unknown("this key is not known", "it was revoked, or is mistyped")
        if key.expired(int(self.wall_s() * 1_000_000)):
            raise _unknown(f"the key lq_{key.id} has expired", "ask for a new one")
        until = float("inf") if key.expires_at is None else key.expires_at / 1_000_000
        rights = self.registry.rights_of(key.principal)
        quota = self.registry.quota_of(key.principal)
        return Caller(key.principal, rights, f"key lq_{key.id}", until, quota=quota)

    def _of_token(self, text: str) -> Caller:
        now, registry = self.wall_s(), self.registry
        known = self._tokens.get(hash(text))
        if known is None or not known.counts(registry, text, now):
            known = self._verify(text, now)
            if len(self._tokens) >= _MOST_TOKENS:
                self._tokens.clear()
            self._tokens[hash(text)] = known
        found = known.said
        rights = registry.rights_of(found.principal, found.groups)
        quota = registry.quota_of(found.principal)
        return Caller(found.principal, rights, "token", found.until, found.groups, quota, text)

    def _verify(self, text: str, now: float) -> _Known:
        said = claimed(text)
        issuer = self.registry.issuers.get(said.issuer)
        if issuer is None:
            raise _unknown(f"tokens of {said.issuer[:100]!r} are not taken here")
        if said.algorithm not in issuer.algorithms:
            raise _unknown(f"tokens signed with {said.algorithm[:20]!r} are not taken here")
        of_issuer = self.issuer_keys.setdefault(issuer.jwks_url, IssuerKeys())
        keys = of_issuer.use(said.key_id, said.algorithm, now)
        found = verified(text, issuer, said, keys, now)
        return _Known(self.registry, text, found, of_issuer, keys)

    def admit(
        self, method: str, path: str, authorization: str, certificate: Certificate | None = None
    ) -> tuple[Caller, CallRight | None, str]:
        """(who calls, which call, the name it is about); None: a call that nobody declared.

        Raises `Unauthenticated`, `Forbidden`, `IssuerUnavailable`.
        """
        call, name = self.find(method, path)
        caller = self.who(call, authorization, certificate)
        self.judge(caller, call, name, method, path)
        return caller, call, name

    def who(
        self, call: CallRight | None, authorization: str, certificate: Certificate | None = None
    ) -> Caller:
        """Who calls. Raises `Unauthenticated`, `IssuerUnavailable`."""
        if not self.registry.locked or (call is not None and call.needs is None):
            return ANYBODY
        return self.caller(authorization, certificate)

    def judge(
        self, caller: Caller, call: CallRight | None, name: str, method: str, path: str
    ) -> None:
        """Raise `Forbidden` unless that is allowed, as far as its path tells."""
        if caller is ANYBODY:
            return
        if call is None:
            raise Forbidden(
                f"there is no call {method} {path[:100]!r}",
                hint="/openapi.json lists all calls",
                stored="no",
            )
        check(caller, call, name)

    def find(self, method: str, path: str) -> tuple[CallRight | None, str]:
        """(call, the name it is about); None: nobody declared it."""
        return self._calls.find(method, path) or (None, "")

    def still(
        self,
        caller: Caller,
        call: CallRight | None,
        name: str,
        also: Iterable[tuple[Right, Kind, str]] = (),
    ) -> LakequeueError | None:
        """Why a call that has waited may not go on; None: it may. `also`: what else it needs, and
        `caller` was allowed.

        For the middle of a poll: a key may have been revoked, a right taken away meanwhile.
        """
        registry = self.registry
        if not registry.locked or call is None or call.needs is None:
            return None
        if caller is ANYBODY:
            return _unknown("authentication was switched on meanwhile")
        if caller.token:
            try:
                self._of_token(caller.token)
            except LakequeueError as error:
                return error
        key_id = id_of(f"{caller.how.removeprefix('key ')}_-")
        key_gone = caller.how.startswith("key ") and key_id not in registry.keys
        if key_gone or caller.until <= self.wall_s():
            return _unknown(f"the credentials of {caller.principal} have ended meanwhile")
        now = Caller(caller.principal, registry.rights_of(caller.principal, caller.groups))
        try:
            check(now, call, name)
            # Rights are replaced and never changed: the same have been judged when it was let in.
            for right, kind, other in also if now.rights is not caller.rights else ():
                now.must(right, kind, other)
        except Forbidden as error:
            return error
        return None


def check(caller: Caller, call: CallRight, name: str) -> None:
    """Raise `Forbidden` unless the call is allowed, as far as its path tells."""
    needs = call.needs
    if needs is None or needs == "known":
        return
    if needs == "any":
        if not caller.rights.allow_any(call.kind, name):
            raise forbidden(caller.principal, Right.READ, call.kind, name)
    elif call.kind is Kind.PRODUCER and owns_producer(caller.principal, name):
        if not caller.rights.have(Right.PRODUCE, Kind.TOPIC):
            raise forbidden(caller.principal, Right.PRODUCE, Kind.TOPIC, "")
    elif isinstance(needs, Right):
        caller.must(needs, call.kind, name)


def owns_producer(principal: str, producer_id: str) -> bool:
    """Producer ids that begin with the name of a principal are its own: `ada`, `ada.till-7`.

    Names of principals have no dot, so no other principal owns them too.
    """
    return producer_id == principal or producer_id.startswith(f"{principal}.")


def _unknown(detail: str, hint: str = "") -> Unauthenticated:
    return Unauthenticated(
        detail,
        hint=hint
        or "send Authorization: Bearer with an API key (`lakequeue auth key create`) or "
        "a token; the command line reads LAKEQUEUE_API_KEY or LAKEQUEUE_API_KEY_FILE",
        stored="no",
    )
