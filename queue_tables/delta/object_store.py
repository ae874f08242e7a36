"""Roots on object stores, through obstore: S3, Azure, GCS, and memory for tests.

A put is durable when it is answered, and `put_new` is a conditional put (if-none-match).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import obstore
import pyarrow as pa
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import MemoryStore, from_url

from lakequeue.errors import RootUnusable, StorageUnavailable
from queue_tables.delta.storage_meter import METER

if TYPE_CHECKING:
    from obstore import UpdateVersion
    from obstore.store import ObjectStore as AnyStore
    from obstore.store import RetryConfig

_NEEDS_BUCKET = ("creating", "writing")
_NOT_REMOTE = ("file", "memory")
# The client's own patience is 180 s, in which nobody would learn that storage is away: readiness,
# 503 and the next attempt are ours.
_RETRY: RetryConfig = {"max_retries": 8, "retry_timeout": timedelta(seconds=10)}


def _said(error: Exception) -> str:
    """What happened, without the insides of the client library that follow it."""
    return str(error).partition("\n\nDebug source")[0].strip()


@contextlib.contextmanager
def _translated(doing: str, path: str) -> Iterator[None]:
    with METER.request(doing):
        try:
            yield
        except FileNotFoundError as e:
            if doing in _NEEDS_BUCKET:
                raise RootUnusable(
                    f"there is nothing to write to, {doing} {path}: {_said(e)}",
                    hint="create the bucket, or name another one in the root",
                ) from e
            raise
        except AlreadyExistsError as e:
            raise FileExistsError(path) from e
        except (PermissionDeniedError, UnauthenticatedError, PermissionError) as e:
            raise RootUnusable(
                f"the object store refused {doing} {path}: {_said(e)}",
                hint="check the credentials, and that they may read, list, write and delete there",
            ) from e
        except (BaseError, OSError) as e:
            raise StorageUnavailable(f"failed {doing} {path}: {_said(e)}", retry_after_s=1.0) from e


class ObjectStore:
    """A prefix of an object store. Thread-safe."""

    def __init__(self, store: AnyStore, uri: str) -> None:
        self._store = store
        self._uri = uri

    @classmethod
    def from_url(cls, uri: str, **options: Any) -> ObjectStore:
        """Open `s3://bucket/prefix`, `abfss://…`, `gs://…` with the environment's credentials."""
        if urlsplit(uri).scheme not in _NOT_REMOTE:
            options = {"retry_config": _RETRY} | options
        try:
            return cls(from_url(uri, **options), uri)
        except (BaseError, ValueError, OSError) as e:
            raise RootUnusable(
                f"no storage can be opened at {uri}: {e}",
                hint="use a directory, or a URI such as s3://bucket/prefix",
            ) from e

    @classmethod
    def in_memory(cls) -> ObjectStore:
        """A store that lives and dies with this process."""
        return cls(MemoryStore(), "memory:///")

    def __repr__(self) -> str:
        return f"ObjectStore({self._uri!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Executors open the store anew, with their own credentials and connections.
        return (ObjectStore.from_url, (self._uri,))

    @property
    def uri(self) -> str:
        """What `open_store` opens again."""
        return self._uri

    @property
    def local_path(self) -> Path | None:
        """None: not a directory."""
        return None

    def get(self, path: str) -> bytes:
        """The content. Raises `FileNotFoundError`."""
        with _translated("reading", path):
            data = bytes(obstore.get(self._store, path).bytes())
        METER.read(len(data))
        return data

    def put_new(self, path: str, data: bytes) -> None:
        """Create atomically, by a conditional put. Raises `FileExistsError`."""
        with _translated("creating", path):
            # One part only: a multipart upload is not conditional on every store.
            obstore.put(self._store, path, data, mode="create", use_multipart=False)
        METER.wrote(len(data))

    def put(self, path: str, data: bytes | pa.Buffer) -> None:
        """Write a file nobody reads yet (a data file)."""
        with _translated("writing", path):
            # obstore takes unsigned bytes only; a buffer of Arrow is of signed ones.
            obstore.put(self._store, path, memoryview(data).cast("B"))
        METER.wrote(memoryview(data).nbytes)

    def replace(self, path: str, was: bytes, data: bytes) -> bool:
        """Put a small file in the place of one that has the content `was`, if it has not changed.

        A conditional put (if-match), which `put_new` needs a relative of.
        """
        with _translated("reading", path):
            found = obstore.get(self._store, path)
            if bytes(found.bytes()) != was:
                return False
        version: UpdateVersion = {}
        if (tag := found.meta["e_tag"]) is not None:
            version["e_tag"] = tag
        if (number := found.meta["version"]) is not None:
            version["version"] = number
        with _translated("replacing", path):
            try:
                obstore.put(self._store, path, data, mode=version, use_multipart=False)
            except PreconditionError:
                return False
        METER.wrote(len(data))
        return True

    def exists(self, path: str) -> bool:
        """Whether the file is there."""
        try:
            self.size(path)
        except FileNotFoundError:
            return False
        return True

    def names(self, prefix: str) -> list[str]:
        """Names of the direct children, sorted, without dot names; [] if there is no folder."""
        with _translated("listing", prefix):
            found = obstore.list_with_delimiter(self._store, f"{prefix}/" if prefix else None)
            paths = [*found["common_prefixes"], *(o["path"] for o in found["objects"])]
        METER.listed(len(paths))
        names = {p.rstrip("/").rpartition("/")[2] for p in paths}
        return sorted(n for n in names if not n.startswith("."))

    def sizes(self, prefix: str) -> dict[str, int]:
        """Path → bytes of every file below a folder, without dot names."""
        with _translated("listing", prefix):
            found = {
                one["path"]: one["size"]
                for page in obstore.list(self._store, f"{prefix}/")
                for one in page
                if "/." not in f"/{one['path']}"
            }
        METER.listed(len(found))
        return found

    def delete(self, path: str) -> None:
        """Remove a file; no error if it is gone already."""
        with _translated("deleting", path), contextlib.suppress(FileNotFoundError):
            obstore.delete(self._store, path)

    def remove_folder(self, path: str) -> None:
        """Nothing to do: a folder is its files."""

    def make_durable(self, path: str) -> None:
        """Nothing to do: what can be seen on an object store is durable."""

    def size(self, path: str) -> int:
        """Bytes of a file. Raises `FileNotFoundError`."""
        with _translated("looking for", path):
            return obstore.head(self._store, path)["size"]

    def open(self, path: str) -> str | pa.BufferReader:
        """The whole content, in memory. Raises `FileNotFoundError`."""
        return pa.BufferReader(self.get(path))
