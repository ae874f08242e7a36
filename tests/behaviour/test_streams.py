"""What a member of a stream group can rely on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeAlias

import deltalake
import pyarrow as pa
import pytest

from lakequeue import Lost
from lakequeue.errors import (
    EpochSuperseded,
    GroupMismatch,
    InvalidRequest,
    ResultBehind,
    SkippedRecords,
    UnknownTopic,
)
from tests.support.services.backends import Backend, committed, in_background, join, take
from tests.support.services.zookeeper import wait_for

Policy: TypeAlias = Literal["dead_letter", "tombstone", "skip", "stop"]


def test_a_group_goes_on_behind_what_it_has_acknowledged(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, *range(10))
    with backend.consumer(topic, topic) as consumer:
        messages = take(consumer, 10)
        assert [(m.offset, m.value, m.attempt) for m in messages] == [(n, n, 1) for n in range(10)]
        for message in messages[:7]:
            message.ack()
    assert committed(backend, topic) == [7]
    with backend.consumer(topic, topic) as consumer:
        assert [m.offset for m in take(consumer, 3)] == [7, 8, 9]
    assert committed(backend, topic) == [7], "what is not acknowledged is not committed"


def test_records_that_come_later_are_delivered_to_whoever_waits(backend: Backend) -> None:
    topic = backend.topic()
    with backend.consumer(topic, topic) as consumer:
        assert consumer.poll(backend.quiet_s) == []
        backend.send(topic, "late")
        assert take(consumer, 1)[0].value == "late"


def test_an_acknowledgement_out_of_order_names_what_is_missing(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, *range(3))
    with backend.consumer(topic, topic) as consumer:
        _, second, _ = take(consumer, 3)
        with pytest.raises(SkippedRecords, match="offset 1 acknowledged, 0 is not yet"):
            second.ack()
        second.ack(commit_through=True)
        consumer.commit()
        assert committed(backend, topic) == [2]


def test_groups_do_not_affect_each_other(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, "a", "b")
    for group in ("one", "two"):
        with backend.consumer(topic, f"{topic}-{group}") as consumer:
            messages = take(consumer, 2)
            assert [m.value for m in messages] == ["a", "b"]
            messages[0].ack()
            if group == "two":
                messages[1].ack()
    assert committed(backend, f"{topic}-one") == [1]
    assert committed(backend, f"{topic}-two") == [2]


def test_latest_begins_with_what_comes_after_the_join(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, "before")
    with backend.consumer(topic, topic, from_="latest") as consumer:
        join(consumer)
        wait_for(lambda: consumer.assignment.get((topic, 0)) is not None, "it owns the partition")
        backend.send(topic, "after")
        assert [m.value for m in take(consumer, 1)] == ["after"]


def test_partitions_are_shared_with_who_joins_and_come_back_when_it_leaves(
    backend: Backend,
) -> None:
    topic = backend.topic(partitions=4)
    lost: list[Lost] = []
    with backend.consumer(topic, topic, on_lost=lost.extend) as first:
        join(first)
        wait_for(lambda: len(first.assignment) == 4, "the first owns all")
        with backend.consumer(topic, topic) as second:
            join(second)
            wait_for(lambda: len(second.assignment) == 2, "the second owns half")
            wait_for(lambda: len(first.assignment) == 2, "the first gave half away")
            assert {item.partition for item in lost} == {p for _, p in second.assignment}
        wait_for(lambda: len(first.assignment) == 4, "the first owns all again")
        for partition in range(4):
            backend.send(topic, partition, partition=partition)
        assert {m.partition for m in take(first, 4)} == set(range(4))


def test_a_record_of_a_lost_partition_cannot_be_acknowledged(backend: Backend) -> None:
    topic = backend.topic(partitions=2)
    for partition in range(2):
        backend.send(topic, "v", partition=partition)
    with backend.consumer(topic, topic) as first:
        messages = {m.partition: m for m in take(first, 2)}
        with backend.consumer(topic, topic) as second:
            join(second)
            wait_for(lambda: len(first.assignment) == 1, "the first gave one away")
            ((_, gone),) = {(topic, p) for p in range(2)} - first.assignment.keys()
            messages[gone].ack()
            with pytest.raises(EpochSuperseded) as superseded:
                first.commit()
            extra = superseded.value.extra
            assert (extra["topic"], extra["partition"]) == (topic, gone)
            assert extra["epoch"] == messages[gone].epoch
            (again,) = take(second, 1)
            assert (again.partition, again.offset) == (gone, 0)
            assert (again.epoch or 0) > extra["epoch"]
        messages[1 - gone].ack()
        first.commit()


def test_a_consumer_that_joins_again_gets_what_it_has_not_acknowledged(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, "a", "b")
    with backend.consumer(topic, topic) as consumer:
        first, _ = take(consumer, 2)
        first.ack()
        consumer.commit()
        consumer.rejoin("on purpose")
        assert [m.value for m in take(consumer, 1)] == ["b"]


def test_new_partitions_of_a_topic_are_consumed(backend: Backend) -> None:
    topic = backend.topic()
    with backend.consumer(topic, topic) as consumer:
        join(consumer)
        wait_for(lambda: len(consumer.assignment) == 1, "it owns the partition")
        with backend.admin() as admin:
            admin.alter_topic(topic, partitions=3)
        for partition in (1, 2):
            backend.send(topic, partition, partition=partition)
        assert {m.value for m in take(consumer, 2)} == {1, 2}


def test_several_topics_in_one_group(backend: Backend) -> None:
    one, two = backend.topic(), backend.topic()
    backend.send(one, "a")
    backend.send(two, "b")
    with backend.consumer([one, two], one) as consumer:
        assert {(m.topic, m.value) for m in take(consumer, 2)} == {(one, "a"), (two, "b")}


def test_stop_ends_a_loop_that_waits(backend: Backend) -> None:
    topic = backend.topic()
    with backend.consumer(topic, topic) as consumer:
        thread, seen = in_background(consumer)
        backend.send(topic, "a")
        wait_for(lambda: seen, "it came")
        consumer.stop()
        thread.join(10)
        assert not thread.is_alive()
    assert committed(backend, topic) == [1]


def test_consume_transform_produce_counts_once(backend: Backend) -> None:
    source, target = backend.topic(), backend.topic()
    backend.send(source, *range(5))
    with backend.consumer(source, source) as consumer, backend.producer() as producer:
        with suppress(RuntimeError), consumer.transform(producer, target) as tx:
            tx.send(-1)
            raise RuntimeError("the transform fails")
        done = 0
        while done < 5:
            with consumer.transform(producer, target, max_records=2) as tx:
                for message in tx.messages:
                    tx.send(message.value * 10)
            done += len(tx.messages) if tx.counted else 0
    with backend.consumer(target, target) as consumer:
        assert [m.value for m in take(consumer, 5)] == [0, 10, 20, 30, 40]
        assert consumer.poll(backend.quiet_s) == []


def test_rows_of_a_transaction_are_in_the_result_table_once(
    backend: Backend, tmp_path: Path
) -> None:
    topic, table = backend.topic(), str(tmp_path / "result")
    deltalake.DeltaTable.create(table, pa.schema([pa.field("n", pa.int64())]))
    backend.send(topic, *range(5))
    with suppress(RuntimeError), backend.consumer(topic, topic) as consumer:
        with consumer.transaction(table, timeout_s=30, max_records=2) as tx:
            tx.append(pa.table({"n": [m.value for m in tx.messages]}))
        raise RuntimeError("the program ends before anything else")
    done = 2
    with backend.consumer(topic, topic) as consumer:
        while done < 5:
            with consumer.transaction(table, max_records=2) as tx:
                if tx.messages:
                    tx.append(pa.table({"n": [m.value for m in tx.messages]}))
            done += len(tx.messages)
    found = deltalake.DeltaTable(table).to_pyarrow_table()["n"].to_pylist()
    assert sorted(found) == list(range(5))


def test_a_result_table_that_was_restored_is_behind_and_says_so(
    backend: Backend, tmp_path: Path
) -> None:
    topic, table = backend.topic(), str(tmp_path / "result")
    deltalake.DeltaTable.create(table, pa.schema([pa.field("n", pa.int64())]))

    def write(until: int, *, undo: bool = False) -> None:
        with backend.consumer(topic, topic) as consumer:
            done = 0
            while done < until:
                with consumer.transaction(table, timeout_s=30, max_records=2) as tx:
                    tx.append(pa.table({"n": pa.array([m.value for m in tx.messages], pa.int64())}))
                    if undo:
                        deltalake.DeltaTable(table).restore(1)
                done = max([done, *(m.offset + 1 for m in tx.messages)])
            consumer.commit()

    def seek(offset: int) -> None:
        with backend.admin() as admin:
            admin.seek(topic, "offset", offset=offset)

    backend.send(topic, *range(6))
    write(6)
    deltalake.DeltaTable(table).restore(1)
    backend.send(topic, 6, 7)
    with pytest.raises(ResultBehind, match=r"up to offset 2\b.*goes on at 6") as behind:
        write(8)
    assert behind.value.extra == {"done": 2, "from_offset": 6}
    seek(2)
    with pytest.raises(ResultBehind, match=r"up to offset 2\b.*goes on at 4"):
        # Restored again, between the look at the table and the commit.
        write(8, undo=True)
    seek(2)
    write(8)
    found = deltalake.DeltaTable(table).to_pyarrow_table()["n"].to_pylist()
    assert sorted(found) == list(range(8))


def _result_marked_by(
    backend: Backend, table: str, topic: str, marks: Callable[[str], list[deltalake.Transaction]]
) -> None:
    """A result table with rows 0 and 1, whose commit carries `marks` of the topic's id, alone."""
    with backend.admin() as admin:
        topic_id = admin.topic(topic).topic_id
    deltalake.write_deltalake(
        table,
        pa.table({"n": pa.array([0, 1], pa.int64())}),
        commit_properties=deltalake.CommitProperties(app_transactions=marks(topic_id)),
    )


def test_a_result_table_that_release_0_1_marked_is_continued_exactly_once(
    backend: Backend, tmp_path: Path
) -> None:
    topic, table = backend.topic(), str(tmp_path / "result")
    backend.send(topic, *range(5))

    def as_0_1(topic_id: str) -> list[deltalake.Transaction]:
        name = f"lakequeue/{topic}/{topic_id}/0"
        return [deltalake.Transaction(name, 2), deltalake.Transaction(f"{name}/base", 0)]

    _result_marked_by(backend, table, topic, as_0_1)
    with backend.consumer(topic, topic) as consumer:
        done = 2
        while done < 5:
            with consumer.transaction(table, timeout_s=30, max_records=2) as tx:
                assert tx.messages[0].offset == done
                tx.append(pa.table({"n": pa.array([m.value for m in tx.messages], pa.int64())}))
            done = tx.messages[-1].offset + 1
    found = deltalake.DeltaTable(table).to_pyarrow_table()["n"].to_pylist()
    assert sorted(found) == list(range(5))


def test_a_result_table_that_spark_marked_for_the_group_is_refused(
    backend: Backend, tmp_path: Path
) -> None:
    topic, table = backend.topic(), str(tmp_path / "result")
    backend.send(topic, *range(5))
    _result_marked_by(
        backend, table, topic, lambda _: [deltalake.Transaction(f"lakequeue/{topic}", 1)]
    )
    with (
        backend.consumer(topic, topic) as consumer,
        pytest.raises(InvalidRequest, match="has written to this table by DeltaSink"),
        consumer.transaction(table, timeout_s=30),
    ):
        pass


def test_a_topic_that_is_not_there_ends_the_consumer(backend: Backend) -> None:
    with backend.consumer("no-such-topic", "g") as consumer, pytest.raises(UnknownTopic):
        next(consumer)


def test_nack_is_for_queue_groups(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, "a")
    with backend.consumer(topic, topic) as consumer:
        (message,) = take(consumer, 1)
        with pytest.raises(InvalidRequest, match="queue groups"):
            message.nack()


def test_a_group_with_a_predicate_has_what_it_takes_and_passes_the_rest(backend: Backend) -> None:
    topic = backend.topic()
    for n in range(12):
        backend.send(topic, {"n": n}, key=f"k{n % 2}", headers={"third": str(n % 3)})
    where = "key = 'k0' AND headers['third'] IN ('0', '2') AND json_value(value, '$.n') < 9"
    with backend.consumer(topic, topic, predicate=where) as consumer:
        found = take(consumer, 4)
        assert [m.value["n"] for m in found] == [0, 2, 6, 8]
        with pytest.raises(SkippedRecords):
            found[2].ack()
        for message in found:
            message.ack()
        consumer.commit()
        wait_for(lambda: not consumer.poll(0.05) and committed(backend, topic) == [12], "passed")
    backend.send(topic, {"n": 0}, key="k0", headers={"third": "0"})
    with (
        backend.consumer(topic, topic) as without,
        pytest.raises(InvalidRequest, match="has a predicate"),
    ):
        without.take(20)
    with pytest.raises(GroupMismatch), backend.consumer(topic, topic, predicate="TRUE") as other:
        other.poll(20)
    with (
        pytest.raises(InvalidRequest, match="column 'colour' is not known") as refused,
        backend.consumer(topic, f"{topic}-2", predicate="key = 'x' OR colour = 'red'") as wrong,
    ):
        wrong.poll(20)
    assert refused.value.extra["position"] == 13
    # Seconds, as in no call that takes a time: it would mean all there is.
    seconds = "timestamp >= 1767225600"
    with (
        pytest.raises(InvalidRequest, match="before 1973"),
        backend.consumer(topic, f"{topic}-2", predicate=seconds) as wrong,
    ):
        wrong.poll(20)
    with backend.admin() as admin:
        with pytest.raises(InvalidRequest, match="before 1973"):
            admin.seek(f"{topic}-2", "earliest", topics=[topic], predicate=seconds, dry_run=True)
        assert admin.group(topic).options == {"predicate": where}
        admin.seek(topic, "earliest", predicate=where)
        with pytest.raises(GroupMismatch):
            admin.seek(topic, "earliest", predicate="key = 'k1'")


@pytest.mark.parametrize(
    ("mode", "policy", "others"),
    [("stream", "stop", ["dead_letter"]), ("queue", "skip", ["stop"])],
)
def test_what_becomes_of_an_undecodable_record_is_a_setting_of_the_group(
    backend: Backend, mode: Literal["stream", "queue"], policy: Policy, others: list[Policy]
) -> None:
    topic = backend.topic()
    backend.send(topic, "v")
    with backend.consumer(topic, topic, mode=mode, undecodable=policy) as consumer:
        (message,) = take(consumer, 1)
        message.ack()
        consumer.commit()
    with backend.admin() as admin:
        assert admin.group(topic).options == {"undecodable": policy}
    with (
        pytest.raises(GroupMismatch, match="has undecodable"),
        backend.consumer(topic, topic, mode=mode, undecodable="tombstone") as other,
    ):
        other.poll(20)
    for wrong in others:
        with (
            pytest.raises(InvalidRequest, match=f"is not for {mode} groups"),
            backend.consumer(topic, f"{topic}-2", mode=mode, undecodable=wrong) as refused,
        ):
            refused.poll(20)
