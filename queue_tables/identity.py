"""What a root says of itself: `_lakequeue/format.json`, its format, its id, whose replica it is.

The file is created once, and replaced by an upgrade alone. Whether a replica was promoted stands
in a file of its own.
"""

from __future__ import annotations

import contextlib
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from lakequeue.errors import CorruptTable
from queue_tables.delta.store import Store
from queue_tables.schema.formats import NEWEST, RootFormat, format_in, raised, refusal_of

FORMAT_PATH = "_lakequeue/format.json"
PROMOTED_PATH = "_lakequeue/promoted.json"


@dataclass(frozen=True, slots=True)
class Identity:
    """Of a root that this release can use."""

    queue_id: str
    format: RootFormat
    replica_of: str | None = None
    """Id of the queue whose replica this is; None for a queue of its own, as a promoted one."""


def identity_of(store: Store) -> Identity:
    """Read it. Raises `FileNotFoundError`, `CorruptTable`, `NewerFormat`, `OlderFormat`."""
    found = read_document(store)
    source = found.get("replica_of")
    if source is not None and store.exists(PROMOTED_PATH):
        source = None
    told = format_in(found)
    if (refusal := refusal_of(store.uri, told)) is not None:
        raise refusal
    return Identity(str(found["queue_id"]), told, None if source is None else str(source))


def make_identity(store: Store, replica_of: str | None, as_of: RootFormat = NEWEST) -> Identity:
    """The same; if there is nothing yet, the root becomes one of the format `as_of`."""
    with contextlib.suppress(FileNotFoundError):
        return identity_of(store)
    new = as_of.document() | {
        "queue_id": uuid.uuid4().hex,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    if replica_of is not None:
        new["replica_of"] = replica_of
    with contextlib.suppress(FileExistsError):  # another process creates the same root
        store.put_new(FORMAT_PATH, orjson.dumps(new))
    return identity_of(store)


def read_document(store: Store) -> dict[str, Any]:
    """What the file says, checked. Raises `FileNotFoundError`, `CorruptTable`."""
    return _checked(store, store.get(FORMAT_PATH))


def _checked(store: Store, whole: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(whole)
        format_in(found)
        str(found["queue_id"])
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError, ValueError) as e:
        raise CorruptTable(
            f"{store.uri}/{FORMAT_PATH} cannot be read: {e}", hint="restore it from a backup"
        ) from e
    return dict(found)


def raise_format(store: Store, wanted: RootFormat) -> None:
    """Let the root have at least that format, durable. What else the file says stays.

    Compare-and-set: of upgrades at once, also of different releases, none takes back what another
    one has raised. Raises `NewerFormat` if one of a later release was first.
    """
    while True:
        whole = store.get(FORMAT_PATH)
        document = _checked(store, whole)
        found = format_in(document)
        if (refusal := refusal_of(store.uri, found)) is not None:
            raise refusal
        new = raised(found, wanted)
        if new == found:
            return
        if store.replace(FORMAT_PATH, whole, orjson.dumps({**document, **new.document()})):
            return
