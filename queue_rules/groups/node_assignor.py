"""Which node has which partition of a queue group: a pure function, in proportion to the workers.

A partition of a queue group is worked by all workers of the node that has it. So each topic's
partitions go to nodes in proportion to the workers that wait there, by largest remainder, and what
need not move does not. With more nodes than partitions some get nothing: their workers are sent on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from queue_rules.groups.assignor import Assignment, Target

Workers = Mapping[str, Mapping[str, int]]
"""Node → topic → number of workers there that consume it."""


def assign_nodes(
    partitions: Iterable[Target], workers: Workers, current: Mapping[str, Sequence[Target]]
) -> Assignment:
    """Share `partitions` among the nodes of `workers`; every one of these is in the answer.

    Topics that nobody works on stay without an owner.
    """
    owned: dict[str, list[Target]] = {node: [] for node in sorted(workers)}
    topics: dict[str, list[Target]] = {}
    for target in sorted(set(partitions)):
        topics.setdefault(target.topic, []).append(target)
    for topic, targets in topics.items():
        counts = {node: workers[node].get(topic, 0) for node in owned}
        counts = {node: count for node, count in counts.items() if count > 0}
        if counts:
            _share(targets, counts, current, owned)
    return {node: sorted(targets) for node, targets in owned.items()}


def _share(
    targets: list[Target],
    counts: Mapping[str, int],
    current: Mapping[str, Sequence[Target]],
    owned: dict[str, list[Target]],
) -> None:
    free = set(targets)
    had: dict[str, list[Target]] = {}
    for node in counts:
        had[node] = [t for t in sorted(set(current.get(node, ()))) if t in free]
        free -= set(had[node])
    burden = {node: len(owned[node]) for node in counts}
    shares = _shares(len(targets), counts, {n: len(h) for n, h in had.items()}, burden)
    for node, share in shares.items():
        owned[node] += had[node][:share]
        free |= set(had[node][share:])
    left = sorted(free)
    for node, share in shares.items():
        missing = share - min(share, len(had[node]))
        owned[node] += left[:missing]
        del left[:missing]


def _shares(
    total: int, counts: Mapping[str, int], had: Mapping[str, int], burden: Mapping[str, int]
) -> Counter[str]:
    """How many each node gets: whole parts first, then one each by the largest remainder.

    Of equal remainders the node goes first that had more (nothing moves), then the less burdened.
    """
    workers = sum(counts.values())
    shares = Counter({node: total * count // workers for node, count in counts.items()})
    left = total - sum(shares.values())

    def claim(node: str) -> tuple[int, int, int, str]:
        remainder = total * counts[node] % workers
        return -remainder, shares[node] - had[node], burden[node], node

    shares.update(sorted(counts, key=claim)[:left])
    return shares
