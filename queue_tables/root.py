"""The root of a queue: its format and identity, its tables, and the list of its shards."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Literal

import orjson

from lakequeue.errors import CorruptTable, RootUnusable, SchemaDrift
from lakequeue.records import ShardName
from queue_tables.delta.actions import has_table
from queue_tables.delta.declared import verify_schema
from queue_tables.delta.store import Store, open_store
from queue_tables.delta.table import TableLog, create_table
from queue_tables.identity import FORMAT_PATH, PROMOTED_PATH, Identity, identity_of, make_identity
from queue_tables.schema.formats import NEWEST, RootFormat, advice_of
from queue_tables.schema.schemas import TABLES

ShardKind = Literal["inbox", "journal"]


class QueueRoot:
    """An opened root, whose tables exist and are as declared. Thread-safe."""

    def __init__(
        self,
        store: Store,
        queue_id: str,
        replica_of: str | None = None,
        format: RootFormat = NEWEST,  # noqa: A002 -- what it is called
    ) -> None:
        self.store = store
        self.queue_id = queue_id
        self.replica_of = replica_of
        """Id of the queue whose replica this is; None for a queue of its own, as a promoted one."""
        self.format = format
        """As it was when the root was opened: an upgrade may raise it meanwhile."""
        self.damaged: dict[str, SchemaDrift | CorruptTable] = {}
        """Tables that were not well when the root was opened, and why: others can do without."""
        self.suspects: dict[str, str] = {}
        """Shards that a reader of this process has found damaged, and passed: what it met."""
        self._known: dict[str, frozenset[str]] = {"inbox": frozenset(), "journal": frozenset()}

    @property
    def uri(self) -> str:
        """What `QueueRoot.open` opens again."""
        return self.store.uri

    @classmethod
    def open(cls, uri: str, create: bool = True, needs: Collection[str] | None = None) -> QueueRoot:
        """Probe the storage, read the format, create and guard what is not, verify the rest.

        `needs`: the tables without which the caller can do nothing; None: all of them. Others may
        be damaged, and stand in `damaged` then. Raises `RootUnusable`, `NewerFormat`,
        `OlderFormat`, `SchemaDrift`, `CorruptTable`.
        """
        return cls.over(open_store(uri), create=create, needs=needs)

    @classmethod
    def over(
        cls, store: Store, create: bool = True, needs: Collection[str] | None = None
    ) -> QueueRoot:
        """The same, over a store that is open already."""
        if not create and not store.exists(FORMAT_PATH):
            raise _no_queue(store)
        root = cls._create(store, None)
        root.require(*(root.damaged if needs is None else needs))
        if root.replica_of is not None:
            raise _not_promoted(root)
        if (advice := advice_of(root.uri, root.format)) is not None:
            # Half as long to load as all of Arrow, and a reader of Spark's seldom needs it.
            import structlog

            structlog.get_logger(__name__).warning("root.upgrade_advised", advice=advice)
        return root

    @classmethod
    def replica(cls, uri: str, source: QueueRoot) -> QueueRoot:
        """The replica of `source` at `uri`, created if there is nothing.

        Raises `RootUnusable` if it is a queue of its own, or another one's replica.
        """
        if source.uri == open_store(uri).uri:
            raise RootUnusable(f"{uri} is the source itself", hint="give another root")
        root = cls._create(open_store(uri), source.queue_id)
        root.require(*root.damaged)
        root.must_replicate(source)
        return root

    def require(self, *tables: str) -> None:
        """Raise what was found of one of `tables` when the root was opened, if it was damaged."""
        for table in tables:
            if table in self.damaged:
                raise self.damaged[table]

    def must_replicate(self, source: QueueRoot) -> None:
        """Raise `RootUnusable` unless this is the replica of `source`, not promoted."""
        if self.replica_of != source.queue_id:
            what = "no replica any more, or never was"
            if self.replica_of is not None:
                what = f"the replica of queue {self.replica_of}"
            raise RootUnusable(
                f"{self.uri} is {what}, and {source.uri} is queue {source.queue_id}",
                hint="copy into an empty root, or into the replica of that queue",
            )

    @classmethod
    def _create(cls, store: Store, replica_of: str | None) -> QueueRoot:
        probe_storage(store)
        root = cls._as(store, make_identity(store, replica_of))
        for table in TABLES.values():
            if table.sharded or (table.when_needed and not root.is_table(table.name)):
                continue
            try:
                # An empty table would hide the files, and offsets would begin at 0 again.
                create_table(store, table.name, table, dict(table.properties), over_files=False)
                opened = TableLog(store, table.name).open()
                # Before anything else: tables of an earlier release have none.
                opened.put_guard()
                verify_schema(opened, table)
            except (SchemaDrift, CorruptTable) as damage:
                root.damaged[table.name] = damage
        return root

    @classmethod
    def _as(cls, store: Store, found: Identity) -> QueueRoot:
        return cls(store, found.queue_id, found.replica_of, found.format)

    @classmethod
    def existing(cls, uri: str, *, replica_too: bool = False) -> QueueRoot:
        """For who only reads, or appends to a shard of its own: no probe, nothing is created.

        `replica_too`: for who only reads. Raises `RootUnusable` if there is no queue (or a
        replica), `NewerFormat`.
        """
        store = open_store(uri)
        if not store.exists(FORMAT_PATH):
            raise _no_queue(store)
        root = cls._as(store, identity_of(store))
        if root.replica_of is not None and not replica_too:
            raise _not_promoted(root)
        return root

    def verify_tables(self) -> QueueRoot:
        """Raise `SchemaDrift` unless the tables that are there are as declared.

        For who rewrites their files: columns of another release would be lost.
        """
        for table in TABLES.values():
            if not table.sharded and self.is_table(table.name):
                verify_schema(TableLog(self.store, table.name, keep_files=False).open(), table)
        return self

    @property
    def was_promoted(self) -> bool:
        """Whether it is a queue that was a replica."""
        return self.store.exists(PROMOTED_PATH)

    def promote(self) -> None:
        """Let the replica be a queue of its own, for good. Durable; idempotent.

        Whoever mirrors into it has been shut out before (`queue_tables.replica`).
        """
        said = {
            "replica_of": self.replica_of,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        with contextlib.suppress(FileExistsError):
            self.store.put_new(PROMOTED_PATH, orjson.dumps(said))
        self.replica_of = None

    def shards(self, kind: ShardKind) -> list[ShardName]:
        """The shards that exist, sealed ones included, sorted by name."""
        names = self.store.names(kind)
        known = self._known[kind] & set(names)
        fresh = {n for n in names if n not in known and self.is_table(f"{kind}/{n}")}
        # What this call has found: another thread may forget, or put an older list, meanwhile.
        found = known | fresh
        self._known[kind] = found
        return sorted(ShardName(n) for n in found)

    def forget_shards(self, kind: ShardKind) -> None:
        """List them anew: one that was known could not be read, and may have been removed."""
        self._known[kind] = frozenset()

    def is_table(self, path: str) -> bool:
        """Whether there is a table at `path`, relative to the root."""
        return has_table(self.store.names(f"{path}/_delta_log"))


def _no_queue(store: Store) -> RootUnusable:
    return RootUnusable(
        f"there is no queue at {store.uri}",
        hint="give the root of an existing one, or start one there: lakequeue up --root",
    )


def _not_promoted(root: QueueRoot) -> RootUnusable:
    return RootUnusable(
        f"{root.uri} is the replica of queue {root.replica_of}: only its mirror writes there",
        hint=f"read it, or make it a queue: lakequeue job run mirror --to {root.uri} --promote",
    )


def probe_storage(store: Store) -> None:
    """Two creations of one name: the second must be refused, or commits would overwrite.

    Raises `RootUnusable`.
    """
    path = f"_lakequeue/probe-{uuid.uuid4().hex}"
    try:
        # Nobody else has that name: a client library that sent twice meets its own first put.
        with contextlib.suppress(FileExistsError):
            store.put_new(path, b"probe")
        try:
            store.put_new(path, b"again")
        except FileExistsError:
            return
        finally:
            store.delete(path)
    except OSError as e:
        raise RootUnusable(
            f"{store.uri} cannot be written: {e}", hint="choose a root that can be written"
        ) from e
    raise RootUnusable(
        f"{store.uri} does not refuse to create a file that exists",
        hint="use a local file system with hard links, or an object store with conditional puts",
    )
