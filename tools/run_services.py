"""Run tests, a room of them at a time; of a few that failed say whether they fail again, alone.

    python -m tools.run_services [--faults | --with-faults | --matrix] [ROOM …]

A ROOM is a folder or file of tests.
`--faults`: tests marked `faults`, which kill and spoil in one more way, or take minutes.
`--matrix`: tests marked `matrix`, which try every combination and take an hour.
Without either: all others. They have one test of each kind.
`--with-faults`: these and those marked `faults`, in one pass.

Tests with real services race real clocks: a machine that stops for seconds at the wrong instant
fails a test of a program without fault. Whoever only starts again whatever is red gets used to red;
so this starts again at once, says which tests were unstable, last, and is green only if each of
them has passed then. More than `MOST` failures are no coincidence, and end it.
Each room is a process of its own: what one leaves behind (a session, a meter, a process that
would not end) does not reach another, and a room that dies takes no other with it.
Six rooms run at a time: the tests marked `spark` of two, and the others of four more, since these
mostly wait. Folders inside a room are rooms of their own: else the largest would end alone.
With UNSTABLE_LEDGER=FILE unstable tests are written down there, with their seeds; one that is
named twice in twenty runs fails the run. Decision records 0014, 0027 and 0081 have the reasons.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

from tools.unstable_ledger import RUNS, note, seeds_in

MOST = 10
LONGEST_S = 3_600
"""What a room may take; the one with Spark takes up to 40 minutes beside the others."""
MATRIX_LONGEST_S = 3 * 3_600
"""The same with the whole matrix."""
_TESTS = Path("tests")
_NO_ROOMS = {"unit", "support", "integration"}
_LANES = (*["spark"] * 2, *["not spark"] * 4)
"""Marks of the tests in each lane. Three Sparks at once would be too much for two cores."""
_CHOSEN = {"--faults": "faults", "--with-faults": "not matrix", "--matrix": "matrix"}
"""What an option chooses, by a mark."""
_OF_EACH_KIND = "not faults and not matrix"
_ALSO_UNITS = "tests/behaviour"
"""What of it needs no service are unit tests as well: those are run there."""
_DEAREST_PLUGIN = "schemathesis"
_PASSED, _TESTS_FAILED, _NO_TESTS = 0, 1, 5
"""pytest's exit codes; the others are about the run itself."""
_SHOWING = threading.Lock()
_SEEDS: dict[str, str] = {}
"""Of the tests that failed, what seed they printed."""
LEDGER = "UNSTABLE_LEDGER"
"""In the environment: the file to note unstable tests in. CI keeps it from run to run."""


def rooms() -> list[str]:
    """The folders with tests of real services."""
    folders = [*_TESTS.iterdir(), *(_TESTS / "integration").iterdir()]
    return sorted(
        str(folder)
        for folder in folders
        if folder.name not in _NO_ROOMS and any(folder.glob("test_*.py"))
    )


def folders(room: str) -> list[str]:
    """The folders of a room that have tests themselves, the room among them; or the file it is."""
    inside = [Path(room), *Path(room).rglob("*")]
    found = [str(one) for one in inside if one.is_dir() and any(one.glob("test_*.py"))]
    return sorted(found) or [room]


def main(given: list[str]) -> int:
    """0 if every test has passed, be it the second time; else pytest's exit code."""
    # A shell starts what it runs in the background with Ctrl-C ignored, and programs that tests
    # interrupt would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    option = next(iter(_CHOSEN.keys() & given), "")
    every = [room for room in given if room != option] or rooms()
    chosen = _CHOSEN.get(option, _OF_EACH_KIND)
    if chosen in {"faults", "matrix"}:
        every = [room for room in every if _names(Path(room), chosen)]
    longest_s = MATRIX_LONGEST_S if chosen == "matrix" else LONGEST_S
    failed: list[str] = []
    # Large ones first: a lane that begins one last would go on alone.
    inner = [folder for room in every for folder in folders(room)]
    inner.sort(key=lambda one: _size(*_alone(one)), reverse=True)
    waiting = {mark: deque(inner) for mark in _LANES}
    with ThreadPoolExecutor(len(_LANES)) as pool:
        codes = list(
            pool.map(lambda mark: _in_turn(waiting[mark], mark, chosen, failed, longest_s), _LANES)
        )
    if any(codes):
        return next(filter(None, codes))
    if len(failed) > MOST:
        print(f"\nmore than {MOST} failed:", *failed, sep="\n  ", flush=True)
        return _TESTS_FAILED
    if failed:
        print(f"\nonce more, in a fresh process: {len(failed)} that failed", flush=True)
        code, _ = _run(*failed, mark=chosen, longest_s=longest_s)
        if code != _PASSED:
            return code
        print("\nUNSTABLE, failed and then passed; each is a fault of its test or of the program:")
        print("\n".join(f"  {test}" for test in failed), flush=True)
    return _noted({test: _SEEDS.get(test, "") for test in failed})


def _noted(unstable: Mapping[str, str]) -> int:
    """Write the ledger; tests that it names too often fail the run."""
    ledger = os.environ.get(LEDGER)
    often = note(Path(ledger), unstable) if ledger else []
    if not often:
        return _PASSED
    print(f"\nunstable in several of the last {RUNS} runs, see {ledger}:", *often, sep="\n  ")
    return _TESTS_FAILED


def _in_turn(
    waiting: deque[str], mark: str, chosen: str, failed: list[str], longest_s: float
) -> int:
    """Run the tests with `mark` of each room, of those that are `chosen`; add to `failed`.

    Lanes of one mark take their rooms from one queue. An exit code only if pytest could not run.
    """
    while True:
        try:
            room = waiting.popleft()
        except IndexError:
            return _PASSED
        if mark == "spark" and not any(_names(Path(one), mark) for one in _alone(room)):
            continue
        needs = "zookeeper and " if room == _ALSO_UNITS else ""
        what = _alone(room)
        code, found = _run(*what, mark=f"{needs}{mark} and {chosen}", longest_s=longest_s)
        if code not in (_PASSED, _TESTS_FAILED, _NO_TESTS):
            return code
        failed += found
        if len(failed) > MOST:
            return _PASSED


def _alone(folder: str) -> list[str]:
    """A folder, or its own tests if folders inside it have tests as well."""
    inside = [one for one in folders(folder) if one != folder]
    return sorted(map(str, Path(folder).glob("test_*.py"))) if inside else [folder]


def _size(*what: str) -> int:
    """Bytes of tests, as a measure of how long they take."""
    return sum(file.stat().st_size for one in what for file in _files(Path(one)))


def _names(room: Path, mark: str) -> bool:
    """Whether a test of this room can have this mark: to ask pytest takes seconds."""
    return any(mark in file.read_text() for file in _files(room))


def _files(room: Path) -> list[Path]:
    return list(room.rglob("*.py")) if room.is_dir() else [room] * room.exists()


def _run(*what: str, mark: str, longest_s: float) -> tuple[int, list[str]]:
    """pytest's exit code, and what failed; a run that died is itself what failed.

    What it says is shown when it ends, in one piece.
    """
    began = time.monotonic()
    print(f"begun: {what[0]}{' and more' * (len(what) > 1)} ({mark})", flush=True)
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryFile() as said:
        command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}", *_plugins(what)]
        command += [*what, "-m", mark]
        try:
            code = subprocess.run(
                command,
                check=False,
                timeout=longest_s,
                stdout=said,
                stderr=subprocess.STDOUT,
            ).returncode
        except subprocess.TimeoutExpired:
            _show(said, f"\n{' '.join(what)} took more than {longest_s} s, and was ended")
            return _TESTS_FAILED, list(what)
        _show(said, f"ended: {what[0]} ({mark}) after {time.monotonic() - began:.0f} s")
        failed = _failed(Path(cache))
        said.seek(0)
        _SEEDS.update(seeds_in(said.read().decode(errors="replace"), failed))
    died = code < 0 or (code == _TESTS_FAILED and not failed)
    return (_TESTS_FAILED, list(what)) if died else (code, failed)


def _plugins(what: Iterable[str]) -> list[str]:
    """Without the dearest plugin, a second of each start, where no test asks for it."""
    needed = any(_names(Path(one.partition("::")[0]), _DEAREST_PLUGIN) for one in what)
    return [] if needed else ["-p", f"no:{_DEAREST_PLUGIN}"]


def _show(said: BinaryIO, more: str = "") -> None:
    said.seek(0)
    with _SHOWING:
        print(said.read().decode(errors="replace"), more, sep="", flush=True)


def _failed(cache: Path) -> list[str]:
    """Ids of the tests that failed, or whose fixtures did."""
    found = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(found.read_text())) if found.exists() else []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
