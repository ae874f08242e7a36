"""What a principal may use of a node: rates by buckets, connections by count. Pure: time comes in.

A bucket holds what may be used in one second. A use may take more than there is, so that a large
request is not refused for ever; what comes next waits until the debt is paid.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from lakequeue.errors import InvalidRequest, OverQuota

MOST_METERS = 10_000
"""Principals whose use is remembered; beyond, whoever was quiet for longest is forgotten."""
_BURST_S = 1.0


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits, rates and connections at each node; None: none."""

    requests_per_s: float | None = None
    bytes_per_s: float | None = None
    """Of what is sent; as much of what is read."""
    records_per_s: float | None = None
    connections: int | None = None
    topics: int | None = None
    partitions: int | None = None
    groups: int | None = None


NO_QUOTA = Quota()
"""Whoever has this may use all there is."""


def checked_quota(given: Mapping[str, Any]) -> Quota:
    """Limits as somebody has written them. Raises `InvalidRequest`."""
    known = {one.name for one in fields(Quota)}
    for name, value in given.items():
        if name not in known:
            raise InvalidRequest(f"no quota {name!r}", hint=f"there are {', '.join(sorted(known))}")
        good = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and (not good or not 0 < value < 1e15):
            raise InvalidRequest(f"quota {name} = {value!r}", hint="a number above 0", field=name)
    return Quota(**given)


class _Bucket:
    __slots__ = ("_at", "_level")

    def __init__(self, rate: float, now: float) -> None:
        self._level, self._at = rate * _BURST_S, now

    def wait_s(self, rate: float, now: float) -> float:
        """How long until something may be used; 0: now."""
        self._level = min(rate * _BURST_S, self._level + (now - self._at) * rate)
        self._at = now
        return 0.0 if self._level > 0 else max(0.001, -self._level / rate)

    def owed_s(self, rate: float, now: float) -> float:
        """The same, without a change: any thread may ask."""
        level = self._level + (now - self._at) * rate
        return 0.0 if level > 0 else max(0.001, -level / rate)

    def take(self, amount: float) -> None:
        self._level -= amount


class Meter:
    """The use of one principal. For one thread."""

    __slots__ = ("_buckets", "connections")

    def __init__(self) -> None:
        self._buckets: dict[str, _Bucket] = {}
        self.connections = 0

    def take(self, name: str, rate: float | None, amount: float, now: float) -> None:
        """Use some. Raises `OverQuota` while an earlier use is not paid off."""
        if rate is None:
            return
        bucket = self._bucket(name, rate, now)
        wait = bucket.wait_s(rate, now)
        if wait:
            raise over(f"{rate:g} {name} a second are allowed at each node", wait)
        bucket.take(amount)

    def owe(self, name: str, rate: float | None, amount: float, now: float) -> None:
        """What a use that was let in takes beside: it is paid off before the next one."""
        if rate is not None:
            self._bucket(name, rate, now).take(amount)

    def owed_s(self, name: str, rate: float | None, now: float) -> float:
        """How long until what was used is paid off; 0: it is. For any thread."""
        bucket = None if rate is None else self._buckets.get(name)
        return 0.0 if bucket is None or rate is None else bucket.owed_s(rate, now)

    def _bucket(self, name: str, rate: float, now: float) -> _Bucket:
        found = self._buckets.get(name)
        if found is None:
            found = self._buckets[name] = _Bucket(rate, now)
        return found


def check_topics(quota: Quota, topics: Mapping[str, int]) -> None:
    """Raise `OverQuota` if these are too many: topic → partitions."""
    for name, count, most in (
        ("topics", len(topics), quota.topics),
        ("partitions", sum(topics.values()), quota.partitions),
    ):
        if most is not None and count > most:
            raise over(f"that would be {count} {name} under names that you manage; {most} may be")


def check_groups(quota: Quota, groups: int) -> None:
    """Raise `OverQuota` if these are too many."""
    if quota.groups is not None and groups > quota.groups:
        raise over(f"that would be {groups} groups of yours; {quota.groups} may be")


def over(said: str, wait_s: float | None = None) -> OverQuota:
    """The refusal."""
    return OverQuota(
        said,
        hint="wait as long as Retry-After says; `lakequeue auth quota` raises the limit",
        stored="no",
        retry_after_s=wait_s or 1.0,
    )


class Meters:
    """The use of everybody. For one thread."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, Meter] = OrderedDict()

    def known(self, principal: str) -> Meter | None:
        """The meter of a principal, if there is one. For any thread."""
        return self._of.get(principal)

    def of(self, principal: str) -> Meter:
        """The meter of a principal."""
        found = self._of.get(principal)
        if found is None:
            found = self._of[principal] = Meter()
            if len(self._of) > MOST_METERS:
                self._of.popitem(last=False)
        else:
            self._of.move_to_end(principal)
        return found
