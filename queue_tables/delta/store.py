"""The storage under a root: a local directory with the fsync rule, or an object store.

The one place that knows how bytes become durable, and the one that translates storage errors.
`FileNotFoundError` and `FileExistsError` are answers, not faults, and pass through.

The fsync rule of a local root: whatever a name leads to is durable before the name exists, and
the name is durable before the call returns. A commit file is therefore written and fsynced under
a temporary name and then hard-linked into place, which also makes the creation atomic: of two
processes that create one name, exactly one succeeds.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from lakequeue.errors import RootUnusable, StorageFull, StorageUnavailable
from queue_tables.delta.object_store import ObjectStore
from queue_tables.delta.storage_meter import METER

__all__ = ["LocalStore", "ObjectStore", "Store", "open_store"]

PRIVATE = frozenset({"access", "audit"})
"""Tables whose files in a local root are their owner's alone, whatever the root is opened to."""
_LEFT_AFTER_S = 3_600.0
"""A temporary file of this age was left by a crash: making one into a commit takes milliseconds."""


class Store(Protocol):
    """Paths are relative to the root and separated by "/"; every call may block on storage.

    Raises `StorageUnavailable`, `StorageFull` or `RootUnusable` for what the storage refuses.
    """

    @property
    def uri(self) -> str:
        """What `open_store` opens again."""

    @property
    def local_path(self) -> Path | None:
        """The directory, if the root is a local one."""

    def get(self, path: str) -> bytes:
        """The content. Raises `FileNotFoundError`."""

    def put_new(self, path: str, data: bytes) -> None:
        """Create atomically: durable before visible. Raises `FileExistsError`."""

    def put(self, path: str, data: bytes | pa.Buffer) -> None:
        """Write a file nobody reads yet (a data file), durable, with its directories."""

    def replace(self, path: str, was: bytes, data: bytes) -> bool:
        """Put a small file in the place of one that has the content `was`, atomically, durable.

        False if it has another one: of several who replace the same, one does.
        """

    def exists(self, path: str) -> bool:
        """Whether the file is there."""

    def names(self, prefix: str) -> list[str]:
        """Names of the direct children of a folder, sorted; [] if there is no such folder."""

    def sizes(self, prefix: str) -> dict[str, int]:
        """Path (relative to the root) → bytes of every file below a folder, without dot names."""

    def delete(self, path: str) -> None:
        """Remove a file; no error if it is gone already."""

    def remove_folder(self, path: str) -> None:
        """Remove a folder if no file is in it, but for what a crash left; else nothing happens."""

    def make_durable(self, path: str) -> None:
        """Make the entries of a directory durable that another process may have made."""

    def size(self, path: str) -> int:
        """Bytes of a file. Raises `FileNotFoundError`."""

    def open(self, path: str) -> str | pa.BufferReader:
        """A source that `pyarrow.parquet` reads."""


@contextlib.contextmanager
def _translated(doing: str, path: str) -> Iterator[None]:
    with METER.request(doing):
        try:
            yield
        except (FileNotFoundError, FileExistsError):
            raise
        except PermissionError as e:
            raise RootUnusable(
                f"no permission {doing} {path}: {e.strerror}",
                hint="give the user of this process read and write access to the root",
            ) from e
        except OSError as e:
            if e.errno in {errno.ENOSPC, errno.EDQUOT}:
                raise StorageFull(
                    f"no space left {doing} {path}", hint="free some space", retry_after_s=5.0
                ) from e
            if isinstance(e, NotADirectoryError):
                raise RootUnusable(
                    f"a file is in the way, {doing} {path}: {e.filename or ''}",
                    hint="choose a root whose path is a directory",
                ) from e
            if e.errno == errno.EROFS:
                raise RootUnusable(
                    f"read-only file system, {doing} {path}", hint="mount the root writable"
                ) from e
            raise StorageUnavailable(f"failed {doing} {path}: {e}", retry_after_s=1.0) from e


def _fsync_dir(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _make_dir(path: Path, *, parents: bool = False, mode: int = 0o777) -> None:
    try:
        path.mkdir(mode, parents=parents, exist_ok=True)
    except FileExistsError as e:
        # Not the answer "this name is taken" of `put_new`.
        raise NotADirectoryError(errno.ENOTDIR, "not a directory", str(path)) from e


def _write_synced(path: Path, data: bytes | pa.Buffer, mode: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
    finally:
        os.close(fd)


class LocalStore:
    """A directory. Thread-safe; several processes may use one directory at once."""

    def __init__(self, directory: Path) -> None:
        self._dir = directory
        # Directories whose own entry this process has made durable: a directory found existing
        # may have been created by a process that died before it fsynced the parent.
        self._durable: set[Path] = set()
        self._doubtful: set[Path] = set()

    def __repr__(self) -> str:
        return f"LocalStore({str(self._dir)!r})"

    @property
    def uri(self) -> str:
        """The absolute path of the directory."""
        return str(self._dir)

    @property
    def local_path(self) -> Path | None:
        """The directory."""
        return self._dir

    def get(self, path: str) -> bytes:
        """The content. Raises `FileNotFoundError`."""
        with _translated("reading", path):
            # os.open, not Path.read_bytes: the empty poll of a tail is one failed call of this.
            fd = os.open(f"{self._dir}/{path}", os.O_RDONLY)
            try:
                size = os.fstat(fd).st_size
                data = os.read(fd, size + 1)
                while len(data) < size and (more := os.read(fd, size - len(data))):
                    data += more
                METER.read(len(data))
                return data
            finally:
                os.close(fd)

    def put_new(self, path: str, data: bytes) -> None:
        """Create atomically: durable before visible. Raises `FileExistsError`."""
        target = self._dir / path
        with _translated("creating", path):
            with self._hidden(target, data) as temp:
                os.link(temp, target)
            self._sync(target.parent)
        METER.wrote(len(data))

    def replace(self, path: str, was: bytes, data: bytes) -> bool:
        """Put a small file in the place of one that has the content `was`, atomically, durable."""
        target = self._dir / path
        with _translated("replacing", path), self._alone(target):
            if target.read_bytes() != was:
                return False
            with self._hidden(target, data) as temp:
                temp.replace(target)
            self._sync(target.parent)
        METER.wrote(len(data))
        return True

    @contextlib.contextmanager
    def _alone(self, target: Path) -> Iterator[None]:
        """Nobody else replaces `target` meanwhile; whoever dies lets go."""
        lock = target.with_name(f".{target.name}.lock")
        fd = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def _hidden(self, target: Path, data: bytes) -> Iterator[Path]:
        """A durable file beside `target`, gone at the end under this name."""
        # The dot keeps what a crash leaves behind out of sight of every Delta reader.
        temp = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
        try:
            self._write(temp, data)
            yield temp
        finally:
            with contextlib.suppress(OSError):
                temp.unlink(missing_ok=True)

    def put(self, path: str, data: bytes | pa.Buffer) -> None:
        """Write a file nobody reads yet (a data file), durable, with its directories."""
        target = self._dir / path
        with _translated("writing", path):
            try:
                self._write(target, data)
            except OSError:
                with contextlib.suppress(OSError):
                    target.unlink(missing_ok=True)
                raise
            self._sync(target.parent)
        METER.wrote(memoryview(data).nbytes)

    def exists(self, path: str) -> bool:
        """Whether the file is there."""
        with _translated("looking for", path):
            try:
                (self._dir / path).stat()
            except (FileNotFoundError, NotADirectoryError):
                return False
            return True

    def names(self, prefix: str) -> list[str]:
        """Names of the direct children, sorted, without dot names; [] if there is no folder."""
        with _translated("listing", prefix):
            try:
                return sorted(
                    n
                    for n in os.listdir(self._dir / prefix)  # noqa: PTH208 -- names, hot path
                    if not n.startswith(".")
                )
            except (FileNotFoundError, NotADirectoryError):
                return []

    def sizes(self, prefix: str) -> dict[str, int]:
        """Path → bytes of every file below a folder, without dot names."""
        found: dict[str, int] = {}
        folders = [prefix]
        with _translated("listing", prefix):
            while folders:
                folder = folders.pop()
                # Folders and files may go meanwhile.
                with contextlib.suppress(FileNotFoundError), os.scandir(self._dir / folder) as all_:
                    for entry in all_:
                        path = f"{folder}/{entry.name}"
                        if entry.name.startswith("."):
                            continue
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(path)
                            continue
                        with contextlib.suppress(FileNotFoundError):
                            found[path] = entry.stat().st_size
        return found

    def delete(self, path: str) -> None:
        """Remove a file; no error if it is gone already."""
        with _translated("deleting", path):
            (self._dir / path).unlink(missing_ok=True)

    def remove_folder(self, path: str) -> None:
        """Remove a folder if no file is in it, but for what a crash left; else nothing happens."""
        with _translated("removing", path), contextlib.suppress(FileNotFoundError):
            folder = self._dir / path
            for left in (*folder.glob(".*.tmp"), *folder.glob(".*.lock")):
                if left.stat().st_mtime < time.time() - _LEFT_AFTER_S:
                    left.unlink(missing_ok=True)
            try:
                (self._dir / path).rmdir()
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    raise

    def make_durable(self, path: str) -> None:
        """Make the entries of a directory durable that another process may have made."""
        with _translated("syncing", path):
            self._sync(self._dir / path)

    def size(self, path: str) -> int:
        """Bytes of a file. Raises `FileNotFoundError`."""
        with _translated("looking for", path):
            return (self._dir / path).stat().st_size

    def open(self, path: str) -> str | pa.BufferReader:
        """The file's own path. Raises `FileNotFoundError`."""
        full = f"{self._dir}/{path}"
        with _translated("opening", path):
            METER.read(os.stat(full).st_size)  # noqa: PTH116 -- hot path
        return full

    def _sync(self, directory: Path) -> None:
        # Linux reports a failed write-back once: a second fsync that succeeds proves nothing.
        if directory in self._doubtful:
            raise OSError(errno.EIO, "an earlier fsync failed; check the disk, restart", directory)
        try:
            _fsync_dir(directory)
        except OSError as e:
            if e.errno in {errno.EIO, errno.ENOSPC, errno.EDQUOT}:
                self._doubtful.add(directory)
            raise

    def _write(self, target: Path, data: bytes | pa.Buffer) -> None:
        mode = 0o600 if self._private(target) else 0o644
        self._ensure(target.parent)
        try:
            _write_synced(target, data, mode)
        except FileNotFoundError:
            # The directory was removed (vacuum, a removed shard) after it was seen here.
            self._durable.clear()
            self._ensure(target.parent)
            _write_synced(target, data, mode)

    def _private(self, path: Path) -> bool:
        return (
            path.is_relative_to(self._dir)
            and path != self._dir
            and (path.relative_to(self._dir).parts[0] in PRIVATE)
        )

    def _ensure(self, directory: Path) -> None:
        if directory in self._durable:
            return
        if directory == self._dir:
            # Records are their owner's, who may open the folder to a group (docs/security.md).
            _make_dir(directory, parents=True, mode=0o700)
            with contextlib.suppress(PermissionError):  # the parent may belong to another user
                self._sync(directory.parent)
        else:
            self._ensure(directory.parent)
            _make_dir(directory, mode=0o700 if self._private(directory) else 0o775)
            self._sync(directory.parent)
        self._durable.add(directory)


def open_store(uri: str | os.PathLike[str]) -> Store:
    """Open the storage at `uri`: a path, `file://…`, or what an object store understands.

    A local directory is created when the first file is written. Raises `RootUnusable` for a URI
    that no store understands, and for "".
    """
    text = os.fspath(uri)
    if not text:
        raise RootUnusable("no root is named", hint="a directory, or a URI such as s3://bucket/q")
    scheme = urlsplit(text).scheme if "://" in text else ""
    if scheme == "":
        return LocalStore(Path(text).absolute())
    if scheme == "file":
        return LocalStore(Path(unquote(urlsplit(text).path)))
    return ObjectStore.from_url(text)
