"""The ledger of tests that failed, and passed when they were run again alone.

One line of JSON for each run of the services' tests, also for one in which nothing was unstable. A
test that is named in two of the last twenty runs is no coincidence: it fails the build. Decision
record 0014 has the reasons.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

RUNS = 20
MOST_NAMED = 1
"""In so many of the last runs a test may be named."""
KEPT = 200
"""Older runs are dropped from the file."""
_HEADER = re.compile(r"^_+ (?:ERROR at \w+ of )?(\S+) _+$", re.MULTILINE)
_SEED = re.compile(r"\bseed\W{1,3}(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the tests."""

    at: str
    commit: str = ""
    unstable: Mapping[str, str] = field(default_factory=dict)
    """Id of the test → the seed that it printed, or nothing."""


def seeds_in(output: str, failed: Sequence[str]) -> dict[str, str]:
    """For each failed test the last seed in its part of what pytest printed; "" for none. Pure."""
    found = dict.fromkeys(failed, "")
    headers = [*_HEADER.finditer(output)]
    ends = [header.start() for header in headers[1:]] + [len(output)] * bool(headers)
    for header, end in zip(headers, ends, strict=True):
        seeds = _SEED.findall(output[header.end() : end])
        for test in failed:
            # pytest heads a part with the name after the file, classes with a dot.
            if seeds and test.partition("::")[2].replace("::", ".") == header[1]:
                found[test] = seeds[-1]
    return found


def named_too_often(runs: Sequence[Run]) -> list[str]:
    """Tests of the newest run that were unstable in an earlier one of the last twenty. Pure."""
    named = Counter(test for run in runs[-RUNS:] for test in run.unstable)
    newest = runs[-1].unstable if runs else {}
    return sorted(test for test in newest if named[test] > MOST_NAMED)


def read(ledger: Path) -> list[Run]:
    """The runs in a ledger, oldest first."""
    if not ledger.exists():
        return []
    return [Run(**json.loads(line)) for line in ledger.read_text().splitlines() if line]


def note(ledger: Path, unstable: Mapping[str, str]) -> list[str]:
    """Write down a run; the tests that are named too often now. Shows it where CI shows things."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    run = Run(now, os.environ.get("GITHUB_SHA", ""), unstable)
    runs = [*read(ledger), run][-KEPT:]
    ledger.parent.mkdir(parents=True, exist_ok=True)
    ledger.write_text("".join(json.dumps(asdict(one)) + "\n" for one in runs))
    often = named_too_often(runs)
    shown = os.environ.get("GITHUB_STEP_SUMMARY")
    if shown and unstable:
        with Path(shown).open("a") as summary:
            summary.write(summary_of(runs))
    return often


def summary_of(runs: Sequence[Run]) -> str:
    """What CI shows of the newest run, in Markdown. Pure."""
    named = Counter(test for run in runs[-RUNS:] for test in run.unstable)
    lines = [
        f"### Failed, and passed when run again alone ({RUNS} runs are looked at)",
        "",
        "| test | seed | in runs |",
        "|---|---|---|",
    ]
    newest = runs[-1].unstable
    lines += [f"| `{test}` | {seed or '–'} | {named[test]} |" for test, seed in newest.items()]
    return "\n".join(lines) + "\n"
