"""The metrics of a driver's jobs, asked of the jobs themselves: no Spark is started."""

from __future__ import annotations

from lakequeue import metrics
from lakequeue.records import Epoch, Offset, Partition, Stamp, TopicId
from queue_tables.groups.fact_rows import to_arrow
from queue_tables.groups.facts import Fact, Kind
from queue_tables.root import QueueRoot
from queue_tables.shards.shards import ShardWriter
from queue_tables.topics import TopicStore
from serving.meters import Meters
from tests.support.data.ordered_log import OrderedLog, Sent
from tests.support.runs.fold_process import Folder


def committed(topic_id: str, offset: int) -> Fact:
    """What group g says after it has consumed up to `offset`."""
    partition, position = Partition(0), Offset(offset)
    return Fact(Kind.COMMITTED, "g", "orders", TopicId(topic_id), partition, 0, Epoch(1), position)


def test_the_lag_on_a_topic_that_is_gone_is_not_told_even_if_its_name_is_there_again(
    root: QueueRoot,
) -> None:
    topics = TopicStore(root)
    first, _ = topics.create("orders", partitions=1)
    log = OrderedLog(root)
    log.order([Sent(first.topic_id, 0, b"v") for _ in range(10)])
    journal = ShardWriter.create(root, "journal", "c")
    journal.append(to_arrow([committed(first.topic_id, 4)]), Stamp(1_000))
    folder = Folder(root, 1)
    meters = Meters(metrics.every.EVERY + metrics.driver.DRIVER)
    folder.job.watch(meters)
    folder.drain()

    def lags() -> dict[tuple[str, ...], float]:
        return {k: s.value for k, s in meters.asked()[metrics.driver.GROUP_LAG].items()}

    assert lags() == {("g", "orders"): 6}

    topics.delete("orders")
    assert lags() == {}

    second, _ = topics.create("orders", partitions=1)
    log.order([Sent(second.topic_id, 0, b"v") for _ in range(3)])
    journal.append(to_arrow([committed(second.topic_id, 1)]), Stamp(2_000))
    folder.drain()
    assert lags() == {("g", "orders"): 2}
