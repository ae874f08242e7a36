"""`make bench-peers`: lakequeue and what others use in its place, in one run on one machine.

    python -m bench.peers [--quick] [--rounds 3] [--only NAME …] [--out docs/benchmarks]

Each system is started as child processes on free ports of 127.0.0.1, in a folder of its own, and
ended after its turn; then the next one. Writes peers.md, peers.json and the plots, and the README's
table of ratios. `--quick` (one round, short phases) is for trying: it writes into a temporary
folder, unless `--out` names one, and leaves the README alone.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from bench import machine
from bench.peers.measure import QUICK, Plan, measure
from bench.peers.plots import draw
from bench.peers.processes import PEERS_PYTHON, REPOSITORY
from bench.peers.report import Found, Results, readme, render
from bench.peers.systems.registry import SYSTEMS
from bench.peers.systems.system import System
from bench.readme import put
from tools.debian import NotAvailable


def _round(kind: type[System], plan: Plan, found: Found) -> None:
    """Add a round to what was found, or why there is none."""
    began = time.monotonic()
    try:
        found["version"] = found["version"] or kind.version()
        found["rounds"].append(measure(kind, plan))
    except NotAvailable as problem:
        found["problems"].append(f"not installed: {problem}")
    except Exception as problem:  # noqa: BLE001 - the others go on, and the page says so
        found["problems"].append(f"{type(problem).__name__}: {problem}"[:300])
    sys.stderr.write(f"  {kind.name}: {time.monotonic() - began:.0f} s\n")


def run(kinds: tuple[type[System], ...], plan: Plan, rounds: int, quick: bool) -> Results:
    """All systems in turns; each round begins with another one."""
    began, where = time.monotonic(), machine.describe()
    systems: dict[str, Found] = {
        kind.name: {
            "title": kind.title,
            "version": "",
            "promise": kind.promise,
            "settings": kind.settings,
            "rounds": [],
            "problems": [],
        }
        for kind in kinds
    }
    for number in range(rounds):
        sys.stderr.write(f"round {number + 1} of {rounds}\n")
        at = number % len(kinds)
        for kind in kinds[at:] + kinds[:at]:
            found = systems[kind.name]
            if not any(problem.startswith("not installed") for problem in found["problems"]):
                _round(kind, plan, found)
    return {
        "machine": where,
        "quick": quick,
        "seconds": round(time.monotonic() - began),
        "plan": asdict(plan),
        "systems": systems,
    }


def main() -> None:
    """Run, and write."""
    names = [kind.name for kind in SYSTEMS]
    parser = argparse.ArgumentParser(prog="make bench-peers", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if not PEERS_PYTHON.exists():
        parser.error(
            "the clients of the other systems are not installed: make .venv/peers/.made-from"
        )
    kinds = tuple(kind for kind in SYSTEMS if kind.name in args.only)
    rounds = args.rounds or (1 if args.quick else 3)
    results = run(kinds, QUICK if args.quick else Plan(), rounds, args.quick)
    out = args.out or REPOSITORY / "docs/benchmarks"
    if args.quick and args.out is None:
        out = Path(tempfile.mkdtemp(prefix="bench-peers-"))
    out.mkdir(parents=True, exist_ok=True)
    (out / "peers.json").write_text(json.dumps(results, indent=1) + "\n")
    page = render(results)
    (out / "peers.md").write_text(page)
    draw(results, out)
    whole = kinds == SYSTEMS and not args.quick
    if whole:
        put("peers", readme(results))
    elif "lakequeue" in results["systems"]:
        page += f"\n{readme(results)}"
    print(page)
    sys.stderr.write(f"written to {out}\n")


if __name__ == "__main__":
    main()
