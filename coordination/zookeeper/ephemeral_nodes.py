"""Ephemeral nodes that are made again in every new session: registrations and members.

Leases and leaderships are *not* kept: whoever loses one has to be told.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError

from coordination.zookeeper.requests import Requests
from lakequeue.errors import CoordinationUnavailable, LakequeueError

_TRIES = 10


class EphemeralNodes(Requests):
    """The part of a session that keeps nodes; its heartbeat calls `renew_ephemeral`."""

    def __init__(self, hosts: str, queue_id: str, timeout_s: float) -> None:
        super().__init__(hosts, queue_id, timeout_s)
        self._kept: dict[str, Callable[[], None]] = {}
        self._dropped: set[str] = set()
        self._kept_lock = threading.Lock()
        self.stale = threading.Event()
        """Set when nodes may have to be made or deleted."""

    def maintain(self, path: str, make: Callable[[], None]) -> None:
        """Run `make` to create the ephemeral node `path`, now and in every new session.

        Raises what `make` raises; after `CoordinationUnavailable` it is run again by itself, so
        `drop` the path if it must not be.
        """
        with self._kept_lock:
            self._kept[path] = make
            self._dropped.discard(path)
        try:
            make()
        except CoordinationUnavailable:
            self.stale.set()
            raise

    def drop(self, path: str) -> None:
        """No longer keep `path`, and delete it: now, or when ZooKeeper is back."""
        with self._kept_lock:
            self._kept.pop(path, None)
            self._dropped.add(path)
        try:
            self._delete_dropped()
        except CoordinationUnavailable:
            self.stale.set()

    def renew_ephemeral(self) -> None:
        """Make and delete what is due. Raises what the first maker raised; it stays due."""
        if not self.stale.is_set():
            return
        self.stale.clear()
        refused: LakequeueError | None = None
        try:
            with self._kept_lock:
                makers = list(self._kept.items())
            for path, make in makers:
                try:
                    make()
                except CoordinationUnavailable:
                    raise
                except LakequeueError as e:
                    # One that cannot be made holds up no other.
                    refused = refused or e
                finally:
                    self._drop_again(path)
            self._delete_dropped()
            if refused is not None:
                raise refused
        except BaseException:
            self.stale.set()
            raise

    def _drop_again(self, path: str) -> None:
        """If it was dropped while it was made, its deletion may have come too early."""
        with self._kept_lock:
            if path not in self._kept:
                self._dropped.add(path)

    def _delete_dropped(self) -> None:
        with self._kept_lock:
            paths = list(self._dropped)
        for path in paths:
            with contextlib.suppress(NoNodeError):
                self.call(self.kazoo.delete_async, path)
            with self._kept_lock:
                self._dropped.discard(path)

    def put_ephemeral(self, path: str, data: bytes, *, makepath: bool = True) -> None:
        """Make `path` an ephemeral node of this session; only for names of this incarnation.

        An earlier session of the same process may still have it: then it is replaced.
        Raises `NoNodeError` when a parent is missing and not to be made.
        """
        for _ in range(_TRIES):
            try:
                self.call(self.kazoo.create_async, path, data, ephemeral=True, makepath=makepath)
            except NodeExistsError:
                if self._take_over(path, data):
                    return
            else:
                return
        raise CoordinationUnavailable(f"{path} keeps changing", retry_after_s=1.0)

    def _take_over(self, path: str, data: bytes) -> bool:
        found = self.read(path)
        if found is None:
            return False
        steps: list[tuple[str, tuple[Any, ...]]]
        if self.owns(found[1]):
            steps = [("set_data", (path, data))]
        else:
            steps = [("delete", (path,)), ("create", (path, data, None, True))]
        return not any(isinstance(result, KazooException) for result in self.transact(*steps))
