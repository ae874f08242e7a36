"""Consume, transform, produce with real nodes: killed at each step, the output is there once."""

from __future__ import annotations

import signal

import pytest

from lakequeue import Admin, Consumer, Producer
from lakequeue.errors import ConsumedElsewhere
from lakequeue.steps import Step
from tests.support.data.order_truth import judge
from tests.support.kinds import one_now
from tests.support.services.small_cluster import COUNT, Cluster
from tests.support.services.zookeeper import wait_for

pytestmark = pytest.mark.timeout(400)
STEPS = [step for step in Step if step.startswith("transform.")]


def start(cluster: Cluster, *args: str) -> int:
    """A transformer; its process id."""
    urls = ("--ingest", cluster.ingest_url, "--consumer", cluster.node.url)
    group = ("--group", cluster.group)
    return cluster.start("transform_process", *urls, *group, *args).pid


def wait_consumed(cluster: Cluster, count: int) -> None:
    wait_for(lambda: cluster.consumed(cluster.group) == count, f"{count} consumed", 120)


@pytest.mark.parametrize("count", one_now([1, 3]))
@pytest.mark.parametrize("step", one_now(STEPS))
def test_killed_at_a_step_the_output_is_there_once(
    cluster: Cluster, step: Step, count: int
) -> None:
    start(cluster, "--crash-at", f"{step}:{count}")
    assert cluster.processes[0].wait(120) == -signal.SIGKILL
    start(cluster)
    wait_consumed(cluster, COUNT)
    cluster.end_processes()
    assert sorted(cluster.values("out")) == [n * n for n in range(0, COUNT, 2)]
    judge(cluster.queue.root)


def test_a_frozen_transformer_that_wakes_up_adds_nothing(cluster: Cluster) -> None:
    start(cluster, "--crash-at", "transform.taken:2:stop")
    old = cluster.processes[0]
    assert old.stdout is not None
    old.stdout.readline()
    start(cluster)
    wait_consumed(cluster, COUNT)
    old.send_signal(signal.SIGCONT)
    cluster.produce(COUNT, COUNT + 20)
    wait_consumed(cluster, COUNT + 20)
    cluster.end_processes()
    assert sorted(cluster.values("out")) == [n * n for n in range(0, COUNT + 20, 2)]
    judge(cluster.queue.root)


def test_a_round_that_fails_comes_again_and_after_a_seek_all_of_them(cluster: Cluster) -> None:
    def one_pass() -> None:
        failed = False
        seen = 0
        with (
            Consumer("in", "again", urls=cluster.node.url) as consumer,
            Producer(cluster.ingest_url, producer_id="again", fence=True) as producer,
        ):
            while seen < COUNT:
                try:
                    with consumer.transform(producer, "out", max_records=25) as tx:
                        for message in tx.messages:
                            tx.send(message.value)
                        if tx.messages and not failed:
                            failed = True
                            raise RuntimeError("on the way")
                except RuntimeError:
                    continue
                assert tx.counted or not tx.messages
                assert all(d.offset is not None for d in tx.delivered)
                seen += len(tx.messages)
            consumer.commit()

    one_pass()
    assert sorted(cluster.values("out")) == list(range(COUNT))
    with Admin(cluster.ingest_url, cluster.node.url) as admin:
        assert {p.committed_offset for p in admin.group("again").partitions} == {COUNT // 2}
        admin.seek("again", "earliest")
    one_pass()
    assert sorted(cluster.values("out")) == sorted([*range(COUNT), *range(COUNT)])
    judge(cluster.queue.root)


def test_records_acknowledged_in_between_are_named_and_a_seek_lets_go_on(cluster: Cluster) -> None:
    def rounds(count: int) -> None:
        with (
            Consumer("in", "mixed", urls=cluster.node.url) as consumer,
            Producer(cluster.ingest_url) as producer,
        ):
            done = 0
            while done < count:
                with consumer.transform(producer, "out") as tx:
                    for message in tx.messages:
                        tx.send(message.value)
                done += len(tx.messages)
            consumer.commit()

    rounds(COUNT)
    cluster.produce(COUNT, COUNT + 2)
    with Consumer("in", "mixed", urls=cluster.node.url) as consumer:
        while cluster.committed("mixed") < COUNT + 2:
            for message in consumer.poll():
                message.ack()
            consumer.commit()
    cluster.produce(COUNT + 2, COUNT + 4)
    with pytest.raises(ConsumedElsewhere, match="30 is next") as refused:
        rounds(2)
    assert "offsets 30 to 30" in refused.value.hint
    with Admin(cluster.ingest_url, cluster.node.url) as admin:
        wait_for(lambda: not admin.group("mixed").members, "the refused one has left")
        admin.seek("mixed", "committed")
    rounds(2)
    assert sorted(cluster.values("out")) == [*range(COUNT), COUNT + 2, COUNT + 3]


def test_a_new_member_starts_at_what_was_transformed_and_not_committed(cluster: Cluster) -> None:
    with (
        Consumer("in", "silent", urls=cluster.node.url) as consumer,
        Producer(cluster.ingest_url) as producer,
    ):
        span = None
        while span is None:
            span = consumer.take(1.0, 10)
        assert span.consumed.from_offset == 0
        record = producer.prepare("out", 1, message_id="x")
        producer.produce_whole([record], span.consumed)
        done, place = span.next_offset, (span.topic, span.partition)
        # Nothing was acknowledged.
    with Consumer("in", "silent", urls=cluster.node.url) as consumer:
        found: dict[tuple[str, int], int] = {}
        while len(found) < 2:
            for message in consumer.poll():
                found.setdefault((message.topic, message.partition), message.offset)
    assert found[place] == done
    assert set(found.values()) == {done, 0}
