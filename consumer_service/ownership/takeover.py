"""Taking partitions over: from a held lease to the right to deliver.

The steps, their durable effects and who repairs what a death leaves behind stand in
`docs/protocols/takeover.md`. Many partitions are taken together: one fence commit for each
earlier holder's shard, one commit of all facts *taken*.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import structlog

from consumer_service.ownership.journal import Journal
from consumer_service.ownership.modes import Modes
from consumer_service.ownership.owned_partition import OwnedPartition
from consumer_service.ownership.partition_states import Cause, PartitionState
from consumer_service.ownership.positions import Position, position_of, says_where
from coordination.groups.leases import retake
from lakequeue.clock import wall_micros
from lakequeue.errors import NotReady
from lakequeue.records import Epoch, Offset, Partition, ShardName, TopicId
from lakequeue.steps import Step, reach
from queue_tables.groups.facts import Fact, GroupState, Key, Kind
from queue_tables.groups.state import GroupStateReader
from queue_tables.root import QueueRoot
from queue_tables.shards.shards import Fence, fence_shard

log = structlog.get_logger()

Start = Callable[[OwnedPartition], int | None]
"""Where a partition without a position starts: an offset to make durable, or None for earliest."""


def plan_fences(
    states: Mapping[Key, GroupState],
    epochs: Mapping[Key, Epoch],
    own: ShardName,
    done: Collection[tuple[ShardName, Key]] = (),
) -> dict[ShardName, list[Fence]]:
    """For each earlier holder's shard, all fences it gets. Pure.

    Our own shard needs none: what is on its way there has settled before a partition changes
    hands within this node.
    """
    plan: dict[ShardName, list[Fence]] = {}
    for key, epoch in sorted(epochs.items()):
        state = states.get(key)
        for shard in state.to_fence(epoch) if state is not None else ():
            if shard != own and (shard, key) not in done:
                plan.setdefault(shard, []).append((*key, epoch))
    return plan


def outnumbered(
    states: Mapping[Key, GroupState],
    epochs: Mapping[Key, Epoch],
    done: Collection[tuple[ShardName, Key]] = (),
) -> dict[Key, Epoch]:
    """The partitions on which the tables record our epoch or a higher one. Pure.

    `done`: the fences that we have set under these epochs. But for them nothing of ours stands
    there yet, so an equal epoch is another's as well: the ensemble was rebuilt and counts anew.
    """
    return {
        key: states[key].highest_epoch
        for key, epoch in epochs.items()
        if key in states and _records(states[key], epoch, done)
    }


def _records(state: GroupState, epoch: Epoch, done: Collection[tuple[ShardName, Key]]) -> bool:
    """Whether the state has `epoch` or a higher one from anything but our own fences."""
    foreign = (
        word.epoch
        for shard, word in state.holders.items()
        if word.taken or word.epoch != epoch or (shard, state.key) not in done
    )
    return max((state.epoch, *foreign)) >= epoch


class Takeover:
    """The I/O of the protocol. Not thread-safe: the reconciler has one, each seek makes its own."""

    def __init__(
        self,
        root: QueueRoot,
        journal: Journal,
        marks: Callable[[], Mapping[str, int]],
        modes: Modes,
    ) -> None:
        """`marks`: those of `log` as of the call, durable."""
        self._modes = modes
        self._root = root
        self._reader = GroupStateReader(root)
        self._marks = marks
        self._journal = journal

    def run(self, batch: Iterable[OwnedPartition], start: Start) -> None:
        """Bring the partitions in state fencing to owned; those that fail go on to releasing.

        Raises storage and coordination errors, with the partitions left in releasing.
        """
        taking = [owned for owned in batch if owned.state is PartitionState.FENCING]
        try:
            self._run(taking, start)
        finally:
            self._reader.forget()
            for owned in taking:
                if owned.state in {PartitionState.FENCING, PartitionState.READING}:
                    owned.move(Cause.TAKEOVER_ENDED)

    def _run(self, batch: list[OwnedPartition], start: Start) -> None:
        reach(Step.TAKEOVER_LEASED)
        states = self._fence(batch)
        taking = [owned for owned in batch if owned.state is PartitionState.FENCING]
        if not taking:
            return
        for owned in taking:
            owned.move(Cause.FENCED_OTHERS)
        reach(Step.TAKEOVER_FENCED)
        at = wall_micros()
        # After the fence, like the states: whoever produces for us later meets the order job.
        marks = self._marks()
        facts: list[Fact] = []
        positions: dict[Key, Position] = {}
        for owned in taking:
            state = states.get(owned.key)
            mode = self._modes[owned.mode]
            consumed = mode.consumed(state, owned.key, marks)
            begin = start(owned) if consumed is None and not says_where(state) else None
            positions[owned.key] = position = position_of(state, begin, consumed)
            facts.append(fact_of(Kind.TAKEN, owned, position.generation, None, at))
            if position.make_durable:
                facts.append(
                    fact_of(Kind.COMMITTED, owned, position.generation, position.offset, at)
                )
        reach(Step.TAKEOVER_READ)
        refused = self._journal.commit(facts, "is the storage slow or away? it is tried again")
        reach(Step.TAKEOVER_TAKEN)
        for owned in taking:
            if owned.key in refused or not owned.trusted():
                continue  # the finally of `run` gives the lease back
            with owned.lock:
                position = positions[owned.key]
                owned.generation = position.generation
                owned.start = position.offset
                self._modes[owned.mode].open(owned, states.get(owned.key), position)
                owned.move(Cause.TAKEN)
        log.info("takeover.finished", partitions=len(taking), refused=len(refused))

    def _fence(self, batch: list[OwnedPartition]) -> dict[Key, GroupState]:
        """Shut earlier holders out; return what the tables say after that."""
        done: set[tuple[ShardName, Key]] = set()
        while True:
            states = self._reader.read().states
            epochs = {h.key: h.epoch for h in batch if h.state is PartitionState.FENCING}
            above = outnumbered(states, epochs, done)
            for owned in batch:
                if owned.key in above and owned.lease is not None:
                    owned.move(Cause.OUTNUMBERED)
                    # If no answer comes we hold the lease all the same.
                    owned.uncertain = True
                    lease = retake(owned.lease, above[owned.key])
                    if lease is None:
                        owned.move(Cause.LOST)
                    else:
                        owned.uncertain = False
                        owned.lease = lease
                        owned.move(Cause.LEASED)
            if above:
                # Fences under the old epoch do not stop what is between the two.
                done = {(shard, key) for shard, key in done if key not in above}
                continue
            plan = plan_fences(states, epochs, self._journal.shard, done)
            if not plan:
                return states
            for shard, fences in plan.items():
                self._fence_one(shard, fences)
                done |= {(shard, key) for key in _keys(fences)}

    def _fence_one(self, shard: ShardName, fences: list[Fence]) -> None:
        try:
            fenced = fence_shard(self._root, shard, fences)
        except FileNotFoundError:
            # Sealed, folded to its end and removed: nobody can commit to it any more.
            fenced = False
        log.info("takeover.fenced", shard=shard, partitions=len(fences), sealed=not fenced)


def _keys(fences: Iterable[Fence]) -> Iterator[Key]:
    for group, topic_id, partition, _ in fences:
        yield Key(group, TopicId(topic_id), Partition(partition))


def fact_of(
    kind: Kind, owned: OwnedPartition, generation: int, offset: int | None, at: int
) -> Fact:
    """A fact of `kind` about a held partition, under its lease. `at` in microseconds."""
    if owned.lease is None:
        raise NotReady(f"partition {owned.key.partition} of {owned.topic} has no lease")
    return Fact(
        kind,
        owned.key.group,
        owned.topic,
        owned.key.topic_id,
        owned.key.partition,
        generation=generation,
        epoch=owned.epoch,
        offset=None if offset is None else Offset(offset),
        member=owned.member,
        mode=owned.mode,
        at=at,
        options=owned.options if kind is Kind.TAKEN else "",
    )
