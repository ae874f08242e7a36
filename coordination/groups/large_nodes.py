"""What is too large for a node of ZooKeeper as it is. Pure.

ZooKeeper refuses more than 1 MiB, and ends the session of whoever tries. The assignment of a group
names its topic once for each partition: four thousand partitions under a long name were more, and
no group of the controller was assigned any more.
"""

from __future__ import annotations

import zlib

from lakequeue.errors import TooLarge

PACKED_FROM = 64 << 10
MOST = 1_000_000
_JSON = b"{"


def packed(data: bytes) -> bytes:
    """JSON as it is written: compressed if it is long. Raises `TooLarge` beyond `MOST`.

    Small ones stay as they are, so that people and nodes of an earlier release can read them.
    """
    if len(data) < PACKED_FROM:
        return data
    written = zlib.compress(data)
    if len(written) > MOST:
        raise TooLarge(
            f"an assignment of {len(written)} bytes, compressed, is more than ZooKeeper's {MOST}",
            hint="subscribe the group to fewer partitions",
        )
    return written


def unpacked(data: bytes) -> bytes:
    """JSON as it was, of either form."""
    return data if data.startswith(_JSON) else zlib.decompress(data)
