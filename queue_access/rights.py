"""Rights, what they are about, and who has which. Pure.

A grant is a right over names of one kind: `produce` over the topic `orders`, `consume` over all
groups that begin with `billing-`. What no grant allows is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from lakequeue.errors import InvalidRequest
from lakequeue.records import checked_name


class Right(StrEnum):
    """What somebody may do."""

    PRODUCE = "produce"
    """Send records."""
    CONSUME = "consume"
    """Join groups, receive, acknowledge."""
    READ = "read"
    """Look at records, states and metrics."""
    MANAGE = "manage"
    """Create, alter, delete, seek, purge, redrive."""
    ADMIN = "admin"
    """Everything, on everything."""


class Kind(StrEnum):
    """What a right is about."""

    TOPIC = "topic"
    GROUP = "group"
    PRODUCER = "producer"
    """Ids of producers that may begin epochs, and so fence others of the same id."""
    QUEUE = "queue"
    """All of it: metrics, advice."""


EVERY = "*"
"""Ends a pattern: every name that begins with what stands before it."""


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """One right over the names of a pattern."""

    right: Right
    kind: Kind
    pattern: str


def checked_grant(right: str, kind: str, pattern: str) -> Grant:
    """A grant as somebody has written it. Raises `InvalidRequest`, `InvalidName`."""
    try:
        found = Grant(Right(right), Kind(kind), pattern)
    except ValueError:
        raise InvalidRequest(
            f"there is no right {right!r} over a {kind!r}",
            hint=f"rights: {', '.join(Right)}; over: {', '.join(Kind)}",
        ) from None
    if found.kind is Kind.QUEUE or found.right is Right.ADMIN:
        return Grant(found.right, Kind.QUEUE, EVERY)
    if pattern != EVERY:
        checked_name(pattern.removesuffix(EVERY), kind)
    return found


ROLES: Mapping[str, tuple[tuple[Right, tuple[Kind, ...]], ...]] = {
    "producer": ((Right.PRODUCE, (Kind.TOPIC, Kind.PRODUCER)),),
    "consumer": ((Right.CONSUME, (Kind.TOPIC, Kind.GROUP)),),
    "reader": ((Right.READ, (Kind.TOPIC, Kind.GROUP)),),
    "operator": (
        (Right.READ, (Kind.TOPIC, Kind.GROUP, Kind.QUEUE)),
        (Right.MANAGE, (Kind.TOPIC, Kind.GROUP)),
    ),
    "monitor": ((Right.READ, (Kind.QUEUE,)),),
    "admin": ((Right.ADMIN, (Kind.QUEUE,)),),
}
"""Named roles: rights, and over which kinds of the names that are given with the role."""


def grants_of(what: str, patterns: Mapping[Kind, Iterable[str]]) -> list[Grant]:
    """The grants of a role or of a single right, over these names. Raises `InvalidRequest`."""
    patterns = {kind: tuple(names) for kind, names in patterns.items()}
    if what in ROLES:
        parts = ROLES[what]
    elif what in set(Right):
        parts = ((Right(what), tuple(Kind)),)
    else:
        raise InvalidRequest(
            f"{what!r} is neither a right nor a role",
            hint=f"rights: {', '.join(Right)}; roles: {', '.join(ROLES)}",
        )
    if any(right is Right.ADMIN for right, _ in parts):
        return [Grant(Right.ADMIN, Kind.QUEUE, EVERY)]
    found = [
        checked_grant(right, kind, pattern)
        for right, kinds in parts
        for kind in kinds
        for pattern in patterns.get(kind, (EVERY,) if what in ROLES and kind is Kind.QUEUE else ())
    ]
    if not found:
        raise InvalidRequest(
            f"{what!r} over nothing", hint="say over what: --topic, --group, --producer or --queue"
        )
    return sorted(set(found))


class Rights:
    """What the grants of somebody come to. A look-up costs the same for one name and thousands."""

    __slots__ = ("_exact", "_prefixes", "admin")

    def __init__(self, grants: Iterable[Grant]) -> None:
        self.admin = False
        self._exact: dict[tuple[Right, Kind], set[str]] = {}
        self._prefixes: dict[tuple[Right, Kind], tuple[str, ...]] = {}
        for grant in grants:
            about = (grant.right, grant.kind)
            if grant.right is Right.ADMIN:
                self.admin = True
            elif grant.pattern.endswith(EVERY):
                self._prefixes[about] = (*self._prefixes.get(about, ()), grant.pattern[:-1])
            else:
                self._exact.setdefault(about, set()).add(grant.pattern)

    def allow(self, right: Right, kind: Kind, name: str = "") -> bool:
        """Whether that is allowed."""
        if self.admin:
            return True
        about = (right, kind)
        return name in self._exact.get(about, ()) or name.startswith(self._prefixes.get(about, ()))

    def allow_any(self, kind: Kind, name: str) -> bool:
        """Whether any right is there over that name: whoever has one may know that it exists."""
        return self.admin or any(self.allow(right, kind, name) for right in Right)

    def have(self, right: Right, kind: Kind) -> bool:
        """Whether that right is there over any name at all."""
        return self.admin or (right, kind) in self._exact or (right, kind) in self._prefixes


ALL = Rights([Grant(Right.ADMIN, Kind.QUEUE, EVERY)])
"""What everybody has while authentication is off."""
