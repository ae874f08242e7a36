"""A rolling upgrade under load: `make rolling-upgrade MINUTES=10`.

    python -m tests.support.upgrading.rolling --minutes 10

The release before this one and this one share a root. Processes are exchanged one by one: all to
this release, all back, and so on while there is time; then all to this one, and the format of the
root is raised, under load. The history checker judges all of it.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from history_checker import Verdict
from queue_tables.root import QueueRoot
from queue_tables.schema.formats import NEWEST
from tests.support.soak import SoakLoad
from tests.support.upgrading.mixed_cluster import NAMES, MixedCluster, Release
from tests.support.upgrading.previous import PROJECT, PreviousRelease

RATE = 200
CLIENT_SCRIPT = Path(__file__).with_name("client_script.py")


class Rolling:
    """What is done to the queue while it is under load."""

    def __init__(self, cluster: MixedCluster, old: PreviousRelease, minutes: float) -> None:
        self._cluster = cluster
        self._old = old
        self._until = time.monotonic() + 60 * minutes
        self.exchanged = 0
        self.upgraded = ""
        """What the command said."""
        self.clients: list[str] = []
        """Whose SDK has worked with whose nodes."""

    def __call__(self) -> None:
        """There and back while there is time, once at least, and there for good."""
        self._try_client("new", "old nodes")
        while True:
            self._all("new")
            self._all("old")
            if time.monotonic() > self._until:
                break
        self._all("new")
        assert QueueRoot.existing(self._cluster.root).format.number == 1, "nobody raised it"
        self._try_client("old", "new nodes")
        self.upgraded = upgrade(self._cluster)
        self._try_client("old", "new nodes, on a root of the new format")

    def _all(self, release: Release) -> None:
        # Each time in another order, so that every pair of roles was mixed.
        turn = self.exchanged // len(NAMES)
        for name in (*NAMES[turn % len(NAMES) :], *NAMES[: turn % len(NAMES)]):
            self._cluster.exchange(name, release)
            self.exchanged += 1
            sys.stderr.write(f"{time.strftime('%X')} {name} is of the {release} release\n")

    def _try_client(self, release: Release, nodes: str) -> None:
        """What a program does with that release's SDK."""
        asked = (
            *(",".join(self._cluster.ingest_urls), ",".join(self._cluster.consumer_urls)),
            f"client-{len(self.clients)}",
        )
        if release == "old":
            said = self._old.script(CLIENT_SCRIPT.read_text(), *asked)
        else:
            command = [sys.executable, str(CLIENT_SCRIPT), *asked]
            done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            said = done.stdout
        assert said == "ok\n"
        self.clients.append(f"SDK of the {release} release, {nodes}")


def upgrade(cluster: MixedCluster) -> str:
    """`lakequeue upgrade --apply`, as an operator says it; what it said."""
    command = [sys.executable, "-m", "lakequeue_cli.start", "upgrade", "--root", cluster.root]
    done = subprocess.run(
        [*command, "--apply", "--zookeeper", cluster.hosts],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def rolled(folder: Path, old: PreviousRelease, minutes: float) -> tuple[Verdict, Rolling]:
    """The whole of it, in an empty folder."""
    history = folder / "history"
    history.mkdir(parents=True)
    with MixedCluster(folder, old) as cluster:
        rolling = Rolling(cluster, old, minutes)
        verdict = SoakLoad(cluster, history, "rolling", RATE).under(rolling)
        assert QueueRoot.existing(cluster.root).format == NEWEST
    return verdict, rolling


def main() -> int:
    """1 when there is an anomaly; then the folder with the history stays."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="lakequeue-rolling-"))
    old = PreviousRelease(folder / "previous")
    verdict, rolling = rolled(folder / "queue", old, args.minutes)
    told = f"{rolling.exchanged} processes exchanged between {old.release} and this release"
    sys.stdout.write(f"{told}: {verdict}\n{rolling.upgraded}")
    sys.stdout.writelines(f"tried: {one}\n" for one in rolling.clients)
    if not verdict.ok:
        sys.stdout.write(f"history: {folder}\n")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
