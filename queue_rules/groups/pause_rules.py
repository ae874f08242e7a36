"""Which partitions of a group are paused, of all that was said about them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import orjson

Scope = tuple[str | None, int | None]
"""(topic, partition): a partition; (topic, None): all of a topic; (None, None): all."""


@dataclass(frozen=True, slots=True)
class PauseRules:
    """The narrowest rule about a partition counts; without one it is not paused."""

    rules: Mapping[Scope, bool] = field(default_factory=dict)

    def paused(self, topic: str | None = None, partition: int | None = None) -> bool:
        """Whether a partition (a topic, the group, as far as no narrower rule says) is paused."""
        for scope in ((topic, partition), (topic, None), (None, None)):
            if scope in self.rules:
                return self.rules[scope]
        return False

    def changed(
        self, paused: bool, topic: str | None = None, partitions: Collection[int] | None = None
    ) -> PauseRules:
        """The rules after a pause (or resume) of the partitions, topic or group."""
        scopes: list[Scope] = [(topic, p) for p in sorted(set(partitions or ()))]
        rules = dict(self.rules)
        for scope in scopes or [(topic, None)]:
            rules = {at: said for at, said in rules.items() if not _within(at, scope)}
            # What says the same as the wider rule is left out.
            if PauseRules(rules).paused(*scope) != paused:
                rules[scope] = paused
        return PauseRules(rules)

    def to_json(self) -> bytes:
        return orjson.dumps([[*scope, said] for scope, said in self.rules.items()])

    @classmethod
    def from_json(cls, data: bytes) -> PauseRules:
        return cls({(topic, partition): said for topic, partition, said in orjson.loads(data)})


NOTHING_PAUSED = PauseRules()


def _within(inner: Scope, outer: Scope) -> bool:
    return outer in {inner, (inner[0], None), (None, None)}
