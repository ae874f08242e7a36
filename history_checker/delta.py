"""The rules of the tables: their logs, their snapshots, and what maintenance may do to them.

Judges repeated-commit, mixed-commit, version-reused, maintenance-visible, position-beyond-log and
engines-differ and replica-not-prefix.
"""

from __future__ import annotations

from collections import defaultdict

from history_checker.history import Event
from history_checker.indexed import Indexed, where
from history_checker.verdict import Anomaly, Requirements, Verdict


def check_delta(history: Indexed, requirements: Requirements, verdict: Verdict) -> None:
    """Judge it all."""
    _check_commits(history, verdict)
    _check_snapshots(history, verdict)
    if requirements.final:
        _check_positions(history, verdict)
        _check_engines(history, verdict)
        _check_replicas(history, verdict)


def _check_commits(history: Indexed, verdict: Verdict) -> None:
    versions: dict[str, dict[int, Event]] = defaultdict(dict)
    txns: dict[tuple[str, str], int] = {}
    for e in history.of("commit"):
        known = versions[e.topic].setdefault(e.delta_version, e)
        if (known.batch, known.added, known.removed) != (e.batch, e.added, e.removed):
            verdict.add(Anomaly.VERSION_REUSED, f"{e.topic} version {e.delta_version}")
        if e.added and e.removed:
            verdict.add(Anomaly.MIXED_COMMIT, f"{e.topic} version {e.delta_version}")
        if e.added and e.batch is not None:
            first = txns.setdefault((e.topic, e.batch), e.delta_version)
            if first != e.delta_version:
                verdict.add(
                    Anomaly.REPEATED_COMMIT, f"{e.topic}: {e.batch} in {first}, {e.delta_version}"
                )
    for table, found in versions.items():
        missing = set(range(min(found), max(found))) - set(found)
        if missing:
            verdict.add(Anomaly.VERSION_REUSED, f"{table} has no version {min(missing)}")


def _check_snapshots(history: Indexed, verdict: Verdict) -> None:
    """Of one end, a partition reads the same at every version, until somebody takes from it."""
    seen: dict[tuple[str, int, int], Event] = {}
    for e in history.events:
        if e.f in {"erase", "first", "restore"}:
            seen = {k: v for k, v in seen.items() if e.topic not in {"", k[0]}}
        elif e.f == "snapshot_read" and e.type == "ok" and e.value is not None:
            known = seen.setdefault((e.topic, e.part, e.offset), e)
            if known.value != e.value:
                verdict.add(
                    Anomaly.MAINTENANCE_VISIBLE,
                    f"{where(e)}: versions {known.delta_version} and {e.delta_version}",
                )


def _check_positions(history: Indexed, verdict: Verdict) -> None:
    ends = {slot: events[-1].offset + 1 for slot, events in history.slots().items()}
    topics = {topic for topic, _ in ends}
    for e in history.of("position"):
        end = max(ends.get((e.topic, e.part), 0), history.first.get((e.topic, e.part), 0))
        if e.topic in topics and e.offset > end:
            verdict.add(Anomaly.POSITION_BEYOND_LOG, f"{where(e)}, the log ends at {end}")


def _check_engines(history: Indexed, verdict: Verdict) -> None:
    readers: dict[str, set[tuple[object, ...]]] = defaultdict(set)
    for e in history.of("read"):
        readers[e.proc].add((e.topic, e.part, e.offset, e.value))
    (_, expected), *others = sorted(readers.items()) or [("", set())]
    for name, found in others:
        for difference in sorted(expected ^ found, key=str)[:3]:
            verdict.add(Anomaly.ENGINES_DIFFER, f"{name}: {difference}")


def _check_replicas(history: Indexed, verdict: Verdict) -> None:
    primary = {(e.topic, e.part, e.offset): e.value for e in history.final}
    replicas: dict[tuple[str, str, int], set[int]] = defaultdict(set)
    for e in history.of("replica_read"):
        replicas[e.proc, e.topic, e.part].add(e.offset)
        place = (e.topic, e.part, e.offset)
        if place not in primary or primary[place] != e.value:
            verdict.add(Anomaly.REPLICA_NOT_PREFIX, f"{where(e)}: {e.value}")
    for (proc, topic, part), offsets in replicas.items():
        first = history.first.get((topic, part), 0)
        missing = set(range(first, max(offsets))) - offsets
        if missing:
            verdict.add(Anomaly.REPLICA_NOT_PREFIX, f"{proc} {topic}/{part} lacks {min(missing)}")
