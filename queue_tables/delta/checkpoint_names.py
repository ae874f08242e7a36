"""What the names of checkpoint files say. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from lakequeue.records import Version

_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet\Z")
_NAMED_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.([0-9a-f-]{36})\.(?:parquet|json)\Z")
"""With a name of its own: of version 2, by an engine with `delta.checkpointPolicy` = v2."""


class CheckpointPart(NamedTuple):
    """What the name of a checkpoint file says."""

    version: Version
    part: int
    parts: int
    own_name: str = ""
    """Of a checkpoint that is one of several of its version."""


def checkpoint_part(name: str) -> CheckpointPart | None:
    """What the name of a checkpoint file says, or None if `name` is not one."""
    if match := _CHECKPOINT.match(name):
        return CheckpointPart(Version(int(match[1])), int(match[2] or 1), int(match[3] or 1))
    if match := _NAMED_CHECKPOINT.match(name):
        return CheckpointPart(Version(int(match[1])), 1, 1, match[2])
    return None
