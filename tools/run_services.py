"""Run tests, a room of them at a time; of a few that failed say whether they fail again, alone.

    python -m tools.run_services [--checks] [--faults | --with-faults | --matrix] [ROOM …]

A ROOM is a folder or file of tests.
`--faults`: tests marked `faults`, which kill and spoil in one more way, or take minutes.
`--matrix`: tests marked `matrix`, which try every combination and take an hour.
Without either: all others. They have one test of each kind.
`--with-faults`: these and those marked `faults`, in one pass.
`--checks`: `make check` as well, beside them.

Tests with real services race real clocks: a machine that stops for seconds at the wrong instant
fails a test of a program without fault. Whoever only starts again whatever is red gets used to red;
so this starts again at once, says which tests were unstable, last, and is green only if each of
them has passed then. More than `MOST` failures are no coincidence, and end it.
Each room is a process of its own: what one leaves behind (a session, a meter, a process that
would not end) does not reach another, and a room that dies takes no other with it.
Five rooms run at a time: the tests marked `spark` of two, and the others of three more, since these
mostly wait. Where no test with Spark is left, the others of five run. The checks take what all of
these leave of the processors. Folders inside a room are rooms of their own: else the largest would
end alone.
With UNSTABLE_LEDGER=FILE unstable tests are written down there, with their seeds; one that is
named twice in twenty runs fails the run. Decision records 0014, 0027, 0081, 0087, 0092 and
0094 have the reasons.
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from tools.rooms import Pick, files, folders, picked, rooms, size
from tools.unstable_ledger import RUNS, note, seeds_in

MOST = 10
LONGEST_S = 3_600
"""What a room may take; the one with Spark takes up to 40 minutes beside the others."""
MATRIX_LONGEST_S = 3 * 3_600
"""The same with the whole matrix."""
CHECKS = ("nice", "-n", "2", "make", "--no-print-directory", "check")
"""Tests with services have deadlines: they go first."""
ARCHIVE = (sys.executable, "-m", "lakequeue_cli.supervisor.class_archive")
"""Makes what Spark starts with in two thirds of the time, if it is not there."""
_SPARK, _OTHERS = Pick(having=("spark",)), Pick(lacking=("spark",))
_LANES = (*[(_SPARK, _OTHERS)] * 2, *[(_OTHERS,)] * 3)
"""What each lane runs, in this order. Three Sparks at once would be too much for two cores."""
_CHOSEN = {
    "--faults": Pick(having=("faults",)),
    "--with-faults": Pick(lacking=("matrix",)),
    "--matrix": Pick(having=("matrix",)),
}
"""What an option chooses."""
_OF_EACH_KIND = Pick(lacking=("faults", "matrix"))
_ALSO_UNITS = "tests/behaviour"
"""What of it needs no service are unit tests as well: those are run there."""
_ONE_SESSION = (
    "tests/integration/guard",
    "tests/integration/jobs",
    "tests/integration/queue_tables/delta",
    "tests/integration/spark/foreign",
)
"""Folders whose tests with Spark are one room: to start a session and to make it warm takes each
ten seconds of processor time, and these have few tests."""
_DEAREST_PLUGIN = "schemathesis"
_PASSED, _TESTS_FAILED, _NO_TESTS = 0, 1, 5
"""pytest's exit codes; the others are about the run itself."""
_SHOWING = threading.Lock()
_SEEDS: dict[str, str] = {}
"""Of the tests that failed, what seed they printed."""
LEDGER = "UNSTABLE_LEDGER"
"""In the environment: the file to note unstable tests in. CI keeps it from run to run."""


@dataclass
class Rest:
    """What is left to run, and what has failed."""

    waiting: dict[Pick, deque[list[str]]]
    """What to hand to pytest for each room, by what of it is run."""
    chosen: Pick
    longest_s: float
    failed: list[str] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)
    """No lane takes another room."""


def main(given: list[str]) -> int:
    """0 if every test has passed, be it the second time; else pytest's exit code."""
    # A shell starts what it runs in the background with Ctrl-C ignored, and programs that tests
    # interrupt would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    option = next(iter(_CHOSEN.keys() & given), "")
    chosen = _CHOSEN.get(option, _OF_EACH_KIND)
    named = [room for room in given if room not in {option, "--checks"}]
    inner = [folder for room in named or rooms() for folder in folders(room)]
    rest = Rest(
        {pick: _in_order(inner, pick & chosen) for pick in (_SPARK, _OTHERS)},
        chosen,
        MATRIX_LONGEST_S if option == "--matrix" else LONGEST_S,
    )
    with ThreadPoolExecutor(len(_LANES) + 1) as pool:
        checks = pool.submit(check, rest) if "--checks" in given else None
        # In place of a lane with Spark: it takes as much as a session does.
        others = pool.map(lambda picks: in_turn(rest, picks), _LANES[1:])
        if not named:
            make_archive()
        codes = [in_turn(rest, _LANES[0]), *others]
    codes += [checks.result()] if checks else []
    if any(codes):
        return next(filter(None, codes))
    failed = rest.failed
    if len(failed) > MOST:
        print(f"\nmore than {MOST} failed:", *failed, sep="\n  ", flush=True)
        return _TESTS_FAILED
    if failed:
        print(f"\nonce more, in a fresh process: {len(failed)} that failed", flush=True)
        code, _ = _pytest(failed, chosen, rest.longest_s)
        if code != _PASSED:
            return code
        print("\nUNSTABLE, failed and then passed; each is a fault of its test or of the program:")
        print("\n".join(f"  {test}" for test in failed), flush=True)
    return _noted({test: _SEEDS.get(test, "") for test in failed})


def _in_order(inner: Iterable[str], pick: Pick) -> deque[list[str]]:
    """Rooms with something to run, large ones first: who begins one last goes on alone."""
    what = {folder: picked(folder, pick) for folder in inner}
    if "spark" in pick.having:
        few = [file for folder in _ONE_SESSION for file in what.pop(folder, [])]
        what["those of one session"] = few
    return deque(sorted(filter(None, what.values()), key=size, reverse=True))


def _noted(unstable: Mapping[str, str]) -> int:
    """Write the ledger; tests that it names too often fail the run."""
    ledger = os.environ.get(LEDGER)
    often = note(Path(ledger), unstable) if ledger else []
    if not often:
        return _PASSED
    print(f"\nunstable in several of the last {RUNS} runs, see {ledger}:", *often, sep="\n  ")
    return _TESTS_FAILED


def check(rest: Rest) -> int:
    """What the checks ended with. If they fail, the lanes end what they are at, and no more."""
    began = time.monotonic()
    _say(f"begun: {' '.join(CHECKS)}")
    with tempfile.TemporaryFile() as said:
        code = subprocess.run(CHECKS, check=False, stdout=said, stderr=subprocess.STDOUT).returncode
        _show(said, f"ended: {' '.join(CHECKS)} after {time.monotonic() - began:.0f} s")
    if code != _PASSED:
        rest.ended.set()
    return code


def make_archive() -> None:
    """Have an archive of Spark's classes for the sessions that start from now on.

    Without one they take longer, and do the same.
    """
    began = time.monotonic()
    _say(f"begun: {' '.join(ARCHIVE)}")
    with tempfile.TemporaryFile() as said:
        subprocess.run(ARCHIVE, check=False, stdout=said, stderr=subprocess.STDOUT)
        _show(said, f"ended: {' '.join(ARCHIVE)} after {time.monotonic() - began:.0f} s")


def in_turn(rest: Rest, picks: Iterable[Pick]) -> int:
    """Run what each of `picks` picks of each room, until there is none left.

    Lanes take their rooms from one queue. An exit code only if pytest could not run.
    """
    for pick in picks:
        while not rest.ended.is_set():
            try:
                what = rest.waiting[pick].popleft()
            except IndexError:
                break
            ours = pick & rest.chosen
            mark = Pick(having=("zookeeper",)) & ours if what == [_ALSO_UNITS] else ours
            code, found = _pytest(what, mark, rest.longest_s)
            if code not in (_PASSED, _TESTS_FAILED, _NO_TESTS):
                rest.ended.set()
                return code
            rest.failed += found
            if len(rest.failed) > MOST:
                rest.ended.set()
    return _PASSED


def _pytest(what: list[str], mark: Pick, longest_s: float) -> tuple[int, list[str]]:
    """pytest's exit code, and what failed; a run that died is itself what failed.

    What it says is shown when it ends, in one piece.
    """
    began = time.monotonic()
    _say(f"begun: {what[0]}{' and more' * (len(what) > 1)} ({mark})")
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryFile() as said:
        command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}", *_plugins(what)]
        command += [*what, "-m", str(mark)]
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
            return _TESTS_FAILED, what
        _show(said, f"ended: {what[0]} ({mark}) after {time.monotonic() - began:.0f} s")
        failed = _failed(Path(cache))
        said.seek(0)
        _SEEDS.update(seeds_in(said.read().decode(errors="replace"), failed))
    died = code < 0 or (code == _TESTS_FAILED and not failed)
    return (_TESTS_FAILED, what) if died else (code, failed)


def _plugins(what: Iterable[str]) -> list[str]:
    """Without the dearest plugin, a second of each start, where no test asks for it."""
    asked = [file for one in what for file in files(Path(one.partition("::")[0]))]
    needed = any(_DEAREST_PLUGIN in file.read_text() for file in asked)
    return [] if needed else ["-p", f"no:{_DEAREST_PLUGIN}"]


def _show(said: BinaryIO, more: str) -> None:
    said.seek(0)
    _say(said.read().decode(errors="replace") + more)


def _say(text: str) -> None:
    """In one piece: lanes speak at the same time."""
    with _SHOWING:
        print(text, flush=True)


def _failed(cache: Path) -> list[str]:
    """Ids of the tests that failed, or whose fixtures did."""
    found = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(found.read_text())) if found.exists() else []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
