"""The jars that Spark needs beside its own: Delta Lake, and a local file system without forks.

They are fetched once, by the Ivy that PySpark carries, into `~/.cache/lakequeue` (or
`$XDG_CACHE_HOME/lakequeue`), and checked against the SHA-256 below. Later starts touch no
network. A fetch goes into a folder of its own and is renamed into place when it is whole, so a
half-fetched cache is never used.

`python -m jobs.jars` fetches ahead of time and prints the paths; behind a mirror, name Ivy's
settings file with `--ivy-settings`.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lakequeue.errors import LakequeueError, MissingDependency
from lakequeue.extras import pip_install
from lakequeue.processes.java import cache_dir, java_command

_FETCH_TIMEOUT_S = 540.0


@dataclass(frozen=True)
class Jar:
    """One artifact of a Maven repository."""

    group: str
    name: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        """Its name in the cache."""
        return f"{self.name}-{self.version}.jar"


JARS = (
    Jar(
        "io.delta",
        "delta-spark_4.2_2.13",
        "4.4.0",
        "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
    ),
    Jar(
        "io.delta",
        "delta-storage",
        "4.4.0",
        "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
    ),
    Jar(
        "io.delta",
        "delta-kernel-api",
        "4.4.0",
        "ee9b5a14ac3b7efdff4d61a58478fe8eb0e5a3fbca43889dca7290795fe79a11",
    ),
    Jar(
        "io.delta",
        "delta-kernel-defaults",
        "4.4.0",
        "225c975199e4718b38ee5b7e6da7f19e9585024262b2cec2656b32151a856b0b",
    ),
    Jar(
        "io.delta",
        "delta-kernel-unitycatalog",
        "4.4.0",
        "cea22dfb4ac562b3cd27bf652697750e8336009d73fb06631363aaaad5345ffa",
    ),
    Jar(
        "io.unitycatalog",
        "unitycatalog-client",
        "0.6.0",
        "48257499a86b801a3e2372cec55ac226ca1c1c7eabe5c118e7302f29a1fdbc19",
    ),
    Jar(
        "io.unitycatalog",
        "unitycatalog-hadoop",
        "0.6.0",
        "c47b63c961c87102b9e1d63809a0915ba4c86b7652f57c8d39ca3a05b441a150",
    ),
    Jar(
        "com.globalmentor",
        "hadoop-bare-naked-local-fs",
        "0.1.0",
        "e0cc30fb0531eb0b59468dc0abf5b257533d2365b5e9f45e795edd707aa78c62",
    ),
    Jar(
        "com.fasterxml.jackson.datatype",
        "jackson-datatype-jdk8",
        "2.13.5",
        "e58761751fea8a00dc626aae1c5f1be38c5cfd487aeb333d933a4ab5f5a73c55",
    ),
    Jar(
        "javax.annotation",
        "javax.annotation-api",
        "1.3.2",
        "e04ba5195bcd555dc95650f7cc614d151e4bcd52d29a10b8aa2197f3ab89ab9b",
    ),
)
"""delta-spark 4.4.0 and the local file system, with those of their dependencies that PySpark 4.2
does not ship already. Everything is named, so nothing is resolved: two versions of one library
on Spark's class path cannot come about, and each file has its hash."""


def module_descriptor(jars: Sequence[Jar]) -> str:
    """Ivy's module file: exactly these artifacts, nothing that they depend on."""
    dependencies = "\n".join(
        f'    <dependency org="{jar.group}" name="{jar.name}" rev="{jar.version}"'
        ' conf="default->master" transitive="false"/>'
        for jar in jars
    )
    return (
        '<ivy-module version="2.0">\n'
        '  <info organisation="lakequeue" module="jars"/>\n'
        '  <configurations><conf name="default"/></configurations>\n'
        f"  <dependencies>\n{dependencies}\n  </dependencies>\n"
        "</ivy-module>\n"
    )


def set_folder(cache: Path, jars: Sequence[Jar] = JARS) -> Path:
    """The folder of exactly this set of jars: another set has another name."""
    digest = hashlib.sha256("".join(jar.sha256 for jar in jars).encode())
    return cache / f"jars-{digest.hexdigest()[:16]}"


def cached_jars(cache: Path | None = None, jars: Sequence[Jar] = JARS) -> list[Path] | None:
    """The paths of the jars if they are in the cache, whole; None if they must be fetched."""
    folder = set_folder(cache or cache_dir(os.environ), jars)
    paths = [folder / jar.file_name for jar in jars]
    # A power cut can leave a file that was renamed into place empty.
    whole = all(path.is_file() and path.stat().st_size > 0 for path in paths)
    return paths if whole else None


def jar_paths(
    cache: Path | None = None, ivy_settings: Path | None = None, jars: Sequence[Jar] = JARS
) -> list[Path]:
    """The paths of the jars, fetched first if they are not in the cache.

    Raises `MissingDependency` with Ivy's complaint when they cannot be fetched.
    """
    cache = cache or cache_dir(os.environ)
    found = cached_jars(cache, jars)
    if found is not None:
        return found
    target = set_folder(cache, jars)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="fetching-", dir=cache) as scratch:
            fetched = _fetch(Path(scratch), ivy_settings, jars)
            _put_in_place(fetched, target, jars)
    except OSError as problem:
        raise MissingDependency(
            f"the jars cannot be kept in {cache}: {problem}",
            hint="free some space there, or point XDG_CACHE_HOME at a folder that can be written",
        ) from problem
    return [target / jar.file_name for jar in jars]


def _fetch(scratch: Path, ivy_settings: Path | None, jars: Sequence[Jar]) -> Path:
    """Fetch every jar into a folder inside `scratch`, and check it."""
    descriptor = scratch / "ivy.xml"
    descriptor.write_text(module_descriptor(jars), encoding="utf-8")
    folder = scratch / "jars"
    command = [
        java_command(),
        "-jar",
        str(ivy_jar()),
        *(["-settings", str(ivy_settings)] if ivy_settings else []),
        *("-ivy", str(descriptor)),
        *("-cache", str(scratch / "ivy-cache")),
        *("-types", "jar", "bundle"),
        *("-retrieve", f"{folder}/[artifact]-[revision].[ext]"),
        "-warn",
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S, check=False
    )
    for jar in jars:
        path = folder / jar.file_name
        if not path.is_file():
            complaint = (done.stderr + done.stdout).strip()[-2000:]
            raise MissingDependency(
                f"{jar.group}:{jar.name}:{jar.version} could not be fetched: {complaint}",
                hint="with a network that reaches Maven Central run: python -m jobs.jars "
                "(behind a mirror: --ivy-settings FILE)",
            )
        with path.open("rb") as content:
            sha256 = hashlib.file_digest(content, "sha256").hexdigest()
        if sha256 != jar.sha256:
            raise MissingDependency(
                f"{jar.file_name} was fetched with SHA-256 {sha256}, {jar.sha256} is expected",
                hint="the repository, or a mirror on the way, serves another file: do not use it",
            )
    return folder


def _put_in_place(fetched: Path, target: Path, jars: Sequence[Jar]) -> None:
    """Rename the whole folder; another process that was quicker has put the same files there."""
    try:
        fetched.rename(target)
    except OSError:
        if cached_jars(target.parent, jars) is None:
            # A damaged folder, with files removed by hand: make way.
            shutil.rmtree(target, ignore_errors=True)
            fetched.rename(target)


def ivy_jar() -> Path:
    """The Ivy jar inside PySpark, which is found, not imported."""
    spec = importlib.util.find_spec("pyspark")
    places = list(spec.submodule_search_locations or []) if spec else []
    for place in places:
        for jar in sorted(Path(place).glob("jars/ivy-*.jar")):
            return jar
    raise MissingDependency(
        "PySpark is not installed, and it carries what fetches the Delta jars",
        hint=pip_install("spark"),
    )


def main(argv: list[str] | None = None) -> int:
    """Fetch the jars if need be and print their paths, one a line."""
    parser = argparse.ArgumentParser(prog="python -m jobs.jars", description=main.__doc__)
    parser.add_argument("--ivy-settings", type=Path, help="Ivy settings file, for a mirror")
    args = parser.parse_args(argv)
    try:
        paths = jar_paths(ivy_settings=args.ivy_settings)
    except LakequeueError as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    sys.stdout.write("".join(f"{path}\n" for path in paths))
    return 0
