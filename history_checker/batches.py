"""The rules of atomic batches, transactions, and looks at the log.

Judges torn-batch, interleaved-batch, nonmonotonic-send within a batch, read-cycle,
precommitted-read, stale-ack and version-regression.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from history_checker.history import Event
from history_checker.indexed import Indexed, where
from history_checker.verdict import Anomaly, Requirements, Verdict


def check_batches(history: Indexed, requirements: Requirements, verdict: Verdict) -> None:
    """Judge it all."""
    _check_reads(history, verdict)
    _check_cycles(history, verdict)
    _check_looks(history, verdict)
    if requirements.final:
        _check_torn(history, verdict)


def _check_torn(history: Indexed, verdict: Verdict) -> None:
    batches: dict[str, list[str]] = defaultdict(list)
    for send in history.sends.values():
        if send.batch is not None and send.value not in history.erased:
            batches[send.batch].append(send.value)
    for batch, values in batches.items():
        there = [history.stored[v][0] for v in values if history.stored.get(v)]
        if not there:
            continue
        versions = {e.delta_version for e in there if e.delta_version >= 0}
        first = min(there, key=lambda e: history.first.get((e.topic, e.part), 0))
        missing = len(values) - len(there)
        kept = history.first.get((first.topic, first.part), 0) == 0
        if len(versions) > 1 or (missing and kept):
            verdict.add(
                Anomaly.TORN_BATCH, f"{batch}: versions {sorted(versions)}, {missing} missing"
            )
        _check_together(batch, there, verdict)


def _check_together(batch: str, there: list[Event], verdict: Verdict) -> None:
    """`there` is in the order in which the batch was sent."""
    for before, after in pairwise(sorted(there, key=lambda e: (e.topic, e.part))):
        if (before.topic, before.part) != (after.topic, after.part):
            continue
        if after.offset < before.offset:
            verdict.add(Anomaly.NONMONOTONIC_SEND, f"in {batch}: {where(after)}")
        elif after.offset != before.offset + 1:
            verdict.add(Anomaly.INTERLEAVED_BATCH, f"{batch}: {where(before)}, {where(after)}")


def _check_reads(history: Indexed, verdict: Verdict) -> None:
    for e in history.of("receive"):
        send = history.sends.get(e.value or "")
        if send is None:
            continue
        own = e.batch is not None and e.batch == send.batch
        if own or (e.t_ns and e.t_ns < send.invoked_ns):
            verdict.add(Anomaly.PRECOMMITTED_READ, f"{e.value} at {where(e)}")


def _check_cycles(history: Indexed, verdict: Verdict) -> None:
    """An edge from each transaction to those that read what it wrote; there is no way back."""
    readers: dict[str, set[str]] = defaultdict(set)
    for e in history.of("receive"):
        send = history.sends.get(e.value or "")
        if send is not None and e.batch and send.batch and e.batch != send.batch:
            readers[send.batch].add(e.batch)
    done: set[str] = set()
    for start in list(readers):
        circle = _circle(start, readers, done)
        if circle:
            verdict.add(Anomaly.READ_CYCLE, " → ".join(circle))


def _circle(start: str, readers: dict[str, set[str]], done: set[str]) -> list[str]:
    path: list[str] = []
    todo = [(start, False)]
    while todo:
        node, leaving = todo.pop()
        if leaving:
            path.pop()
            done.add(node)
        elif node in path:
            return [*path[path.index(node) :], node]
        elif node not in done:
            path.append(node)
            todo.append((node, True))
            todo += [(reader, False) for reader in sorted(readers.get(node, ()))]
    return []


def _check_looks(history: Indexed, verdict: Verdict) -> None:
    """What was answered as ordered is there for whoever looks after that; versions rise."""
    answered: dict[tuple[str, int], tuple[int, int]] = {}
    asked: dict[str, dict[tuple[str, int], tuple[int, int]]] = {}
    newest: dict[tuple[str, str], int] = {}
    for e in history.events:
        slot = (e.topic, e.part)
        if e.f == "send" and e.type == "ok" and e.offset >= 0:
            version, offset = answered.get(slot, (-1, -1))
            answered[slot] = (max(version, e.delta_version), max(offset, e.offset))
        elif e.f == "snapshot_read" and e.type == "invoke":
            asked[e.proc] = dict(answered)
        elif e.f == "snapshot_read" and e.type == "ok":
            version, offset = asked.get(e.proc, {}).get(slot, (-1, -1))
            if e.delta_version < version or e.offset <= offset:
                verdict.add(
                    Anomaly.STALE_ACK,
                    f"{where(e)} at version {e.delta_version}, answered {offset} at {version}",
                )
            seen = newest.get((e.proc, e.topic), -1)
            if e.delta_version < seen:
                verdict.add(Anomaly.VERSION_REGRESSION, f"{where(e)}: {e.delta_version} of {seen}")
            newest[e.proc, e.topic] = max(seen, e.delta_version)
