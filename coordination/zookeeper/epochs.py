"""Epochs: numbers that only rise, one for each term of an owner.

The counter alone is not enough. An ensemble that was rebuilt with empty data counts from 1 again,
and an epoch that was used before would let an old holder's writes pass. So every caller says what
the tables record (`above`), and gets a number above both.
"""

from __future__ import annotations

from kazoo.exceptions import BadVersionError

from coordination.zookeeper.session import Session
from lakequeue.errors import CoordinationUnavailable
from lakequeue.records import Epoch

_TRIES = 100


def following(counter: int, above: int) -> Epoch:
    """The next epoch: above the counter and above what the tables record."""
    return Epoch(max(counter, above) + 1)


def next_epoch(session: Session, name: str, above: int) -> Epoch:
    """Take a new epoch of `name` ("order", "offsets", …), above `above` and all taken before.

    Raises `CoordinationUnavailable` when ZooKeeper is away; a number may then be skipped.
    """
    path = session.path("epochs", name)
    for _ in range(_TRIES):
        found = session.read(path)
        if found is None:
            session.ensure(path, b"0")
            continue
        epoch = following(int(found[0] or b"0"), above)
        try:
            session.call(
                session.kazoo.set_async, path, str(epoch).encode(), version=found[1].version
            )
        except BadVersionError:
            continue
        return epoch
    raise CoordinationUnavailable(
        f"epoch {name!r} was taken by others {_TRIES} times in a row", retry_after_s=1.0
    )
