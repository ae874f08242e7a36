"""What a driver tells the source of its query: that it leads, and from where to go on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakequeue.records import Epoch, ShardName, Stamp


@dataclass(frozen=True, slots=True)
class LeaderState:
    """What a source needs to know of the term it works for."""

    epoch: Epoch
    watermarks: Mapping[ShardName, Stamp] = field(default_factory=dict)
    """Last stamp done of each shard, when the term began."""
    plan: Mapping[ShardName, Stamp] | None = None
    """A cut that an earlier term has begun: the first batch must have exactly these ends."""
    held: Mapping[ShardName, Stamp] = field(default_factory=dict)
    """Shards that wait, and the stamp of the commit that each waits at."""
    halts: Mapping[ShardName, int] = field(default_factory=dict)
    """How often each shard came to wait in this term: one that waits no more before its source has
    heard of it has lost what was left out of a batch all the same, and goes back for it."""
