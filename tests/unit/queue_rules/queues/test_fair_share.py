"""What is there for polls is counted once for all of a round, and is as true as if counted anew."""

from __future__ import annotations

import random

from queue_rules.queues.attempts import NewRecord
from queue_rules.queues.fair_share import FULL, Demand
from queue_rules.queues.partition import QueuePartition
from queue_rules.queues.retry_policy import RetryPolicy

END = 40
NOW = 1_000


def counted(asking: set[str], queues: list[QueuePartition]) -> Demand:
    demand = Demand(asking, NOW)
    for place, queue in enumerate(queues):
        demand.count(place, queue, END)
    return demand


def test_after_any_takes_the_room_is_what_a_count_from_the_beginning_says() -> None:
    for seed in range(50):
        rng = random.Random(seed)
        asking = {f"m{number}" for number in range(rng.randint(1, 6))}
        queues = [QueuePartition(RetryPolicy()) for _ in range(rng.randint(1, 4))]
        queues[0].take_new(NOW, "silent", 3, map(NewRecord, range(3)))
        demand = counted(asking, queues)
        for _ in range(30):
            member = rng.choice(sorted(asking))
            room = demand.room(member, 30, 10)
            assert room == counted(asking, queues).room(member, 30, 10), f"seed {seed}"
            place = rng.randrange(len(queues))
            queue = queues[place]
            most = max(0, room)
            taken = queue.take_new(NOW, member, most, map(NewRecord, range(queue.scan, END)))
            demand.took(place, queue, END, member, len(taken.deliver))


def test_what_came_back_is_counted_by_a_count_anew() -> None:
    queue = QueuePartition(RetryPolicy())
    queue.take_new(NOW, "a", END, map(NewRecord, range(END)))
    demand = counted({"a", "b"}, [queue])
    assert not demand.is_due(0)
    assert (demand.room("a", 100, 10), demand.room("b", 100, 10)) == (FULL, 10)
    queue.member_gone("a")
    demand.count(0, queue, END)
    assert demand.is_due(0)
    assert demand.room("a", 100, 50) == demand.room("b", 100, 50) == END // 2


def test_one_that_has_more_than_its_limit_is_not_taken_for_one_that_has_its_share() -> None:
    queue = QueuePartition(RetryPolicy())
    queue.take_new(1, "a", 3, [NewRecord(offset) for offset in range(3)])
    demand = Demand(["a"], 1)
    demand.count("p", queue, 10)
    assert demand.room("a", 2, 10) == 0
