"""Which of a batch's records go to which node: by partition, as far as a client can know it."""

from __future__ import annotations

from typing import Any

import orjson

from lakequeue.calling.effects import Reply
from lakequeue.calling.nodes import Nodes
from lakequeue.client.producing.outgoing import Outgoing
from lakequeue.client.producing.produce_responses import Produced, read_produced
from lakequeue.client.producing.producer_batch import ProducerBatch
from lakequeue.client.producing.record_accumulator import Limits, RecordAccumulator
from lakequeue.client.producing.routing import Shape, moved, parts_of
from lakequeue.partitioner import partition_of

NODES = Nodes([f"http://n{i}" for i in range(3)])


def batch(count: int, *, keyed: bool = True, partition: int | None = None) -> ProducerBatch:
    box = RecordAccumulator("t", "p", Limits())
    for n in range(count):
        key = f"k{n}" if keyed else None
        box.add(Outgoing("t", "x" * 100, key, partition), 0.0)
    return box.take()


def shape(partitions: int = 12) -> Shape:
    return Shape(partitions, "crc32", 60.0)


def sent(part: ProducerBatch) -> list[dict[str, object]]:
    body = part.body("p", None, columns=False)
    records: list[dict[str, object]] = orjson.loads(body.data)["records"]
    return records


def node_of(record: Outgoing, partitions: int = 12) -> str:
    partition = partition_of(str(record.key).encode(), partitions)
    return NODES.route(f"t/{partition}").current


def test_a_partition_goes_to_one_node_and_nothing_changes_its_place() -> None:
    whole = batch(100)
    parts = parts_of(whole, shape(), NODES)
    assert len(parts) == 3
    for part in parts:
        assert len({node_of(record) for record in part.records}) == 1
        assert NODES.route(part.route).current == node_of(part.records[0])
        sequences = [record.sequence for record in part.records]
        assert sequences == sorted(sequences)
    assert sorted(r.sequence for part in parts for r in part.records) == list(range(100))


def test_a_part_names_the_ids_that_the_whole_would_have() -> None:
    part = parts_of(batch(100), shape(), NODES)[0]
    head = orjson.loads(part.body("p", 7, columns=False).data)
    assert "sequence" not in head
    assert (head["producer_id"], head["after"]) == ("p", 7)
    assert [r["message_id"] for r in sent(part)] == [f"p:{r.sequence}" for r in part.records]
    assert orjson.loads(batch(3).body("p", None).data)["sequence"] == 0
    assert "message_id" not in sent(batch(3))[0]


def test_the_node_decides_about_a_key_and_the_client_where_there_is_none() -> None:
    assert all("partition" not in r for p in parts_of(batch(9), shape(), NODES) for r in sent(p))
    keyless = parts_of(batch(2_000, keyed=False), shape(), NODES)
    chosen = {r["partition"] for part in keyless for r in sent(part)}
    assert len(chosen) > 1
    assert chosen <= set(range(12))
    again = [r.chosen for part in keyless for r in part.records]
    parts_of(ProducerBatch("t", [r for part in keyless for r in part.records], 0.0), shape(), NODES)
    assert [r.chosen for part in keyless for r in part.records] == again
    given = parts_of(batch(9, keyed=False, partition=5), shape(), NODES)
    assert [part.route for part in given] == ["t/5"]


def test_an_answer_that_puts_a_key_elsewhere_shows_that_the_topic_has_grown() -> None:
    def answer(partitions: int, **more: Any) -> Produced:
        records = [
            {"partition": partition_of(f"k{n}".encode(), partitions), "message_id": None, **more}
            for n in range(20)
        ]
        return read_produced(Reply(200, {}, orjson.dumps({"records": records, "stamp": 1})), 20)

    known = shape(4)
    assert not moved(batch(20), answer(4), known)
    assert moved(batch(20), answer(8), known)
    # Of a duplicate the original's place is told.
    assert not moved(batch(20), answer(8, duplicate=True), known)
    # The partition of a dead letter is one of another topic.
    assert not moved(batch(20), answer(8, dead_letter_topic="orders.dlq"), known)
