"""An archive of the classes that Spark loads: a Java machine maps it, and starts in less time.

Without it each Java machine finds, reads and checks ten thousand classes in 280 jars. It fits one
Java and one class path; its name says which, and how long it is. Where there is none, a session
starts as before. `python -m lakequeue_cli.supervisor.class_archive` makes it.

A Java machine looks by itself whether an archive is for its version and its jars, and ignores one
that is not. It does not notice one that is too short, and dies of it: so that is looked at here.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from lakequeue.processes.java import cache_dir, find_java

_OF_A_JAVA = ("release", "lib/server/libjvm.so")
_PREFIX = "classes-"
_UNUSED_S = 30 * 86_400.0
"""One that no session has started with for so long is of a Java, or of jars, that are gone."""
_MAKING_S = 3_600.0
"""A folder in which one is made; an older one is of a maker that was killed."""


def class_archive(class_path: Iterable[Path]) -> Path | None:
    """The archive for Spark's own jars behind `class_path`; None if there is none."""
    for path in cache_dir(os.environ).glob(f"{_PREFIX}{_key(class_path)}-*.jsa"):
        with suppress(OSError):
            if path.stem.rpartition("-")[2] == str(path.stat().st_size):
                return path
    return None


def java_options(class_path: Iterable[Path]) -> str:
    """What tells a Java machine to use it, as Spark takes options; empty if there is none.

    It compares the sums of what it maps: that takes a tenth of a second, and a disk may fail.
    """
    path = class_archive(class_path)
    if path is None or '"' in str(path) or "\\" in str(path):
        return ""
    with suppress(OSError):
        os.utime(path)
    return f'"-XX:SharedArchiveFile={path}" -XX:+VerifySharedSpaces'


def keep(made: Path, class_path: Iterable[Path]) -> Path:
    """Put an archive that a Java machine has written in the cache, where others find it.

    It takes the place of those that nobody has used for long, and of one for the same jars.
    """
    with made.open("rb") as written:
        os.fsync(written.fileno())
        size = os.fstat(written.fileno()).st_size
    cache, key = cache_dir(os.environ), _key(class_path)
    target = cache / f"{_PREFIX}{key}-{size}.jsa"
    made.rename(target)
    os.utime(target)
    for other in cache.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another process was quicker
            age_s = time.time() - other.stat().st_mtime
            if other.is_dir():
                if age_s > _MAKING_S:
                    shutil.rmtree(other)
            elif age_s > _UNUSED_S or (key in other.name and other != target):
                other.unlink()
    return target


def _key(class_path: Iterable[Path]) -> str:
    home = find_java().home
    files = [*(home / name for name in _OF_A_JAVA), *class_path, *_jars_of_spark()]
    digest = hashlib.sha256(str(home).encode())
    for path in files:
        with suppress(OSError):  # a Java of another make
            found = path.stat()
            digest.update(f"{path}\0{found.st_size}\0{found.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:16]


def _jars_of_spark() -> list[Path]:
    spec = importlib.util.find_spec("pyspark")
    homes = [os.environ.get("SPARK_HOME"), *((spec and spec.submodule_search_locations) or [])]
    home = next(filter(None, homes), None)
    return sorted(Path(home, "jars").glob("*.jar")) if home is not None else []
