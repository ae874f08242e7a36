"""Topics on a real root: compare-and-set between processes, incarnations, settings."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from lakequeue.errors import (
    InvalidName,
    InvalidRequest,
    OlderFormat,
    StorageUnavailable,
    TopicExists,
    UnknownTopic,
)
from queue_tables.delta.store import Store
from queue_tables.identity import FORMAT_PATH
from queue_tables.root import QueueRoot
from queue_tables.schema.formats import VALUE_SCHEMAS
from queue_tables.schema.topic_rules import Topic, schemas_of
from queue_tables.schema.values.rules import texts_of
from queue_tables.topics import TopicStore
from queue_tables.upkeep.upgrade import upgrade
from tests.support.faults.faulty_store import FaultyStore


@pytest.fixture
def root(tmp_path: Path) -> QueueRoot:
    return QueueRoot.open(str(tmp_path / "root"))


def create_in_another_process(uri: str) -> tuple[str, bool]:
    topic, created = TopicStore(QueueRoot.open(uri)).create("orders", partitions=8)
    return topic.topic_id, created


def test_created_topics_are_seen_by_other_processes(root: QueueRoot) -> None:
    mine, others = TopicStore(root), TopicStore(root)
    topic, created = mine.create("orders", partitions=8, retention_ms=86_400_000)
    assert created
    assert others.refresh()
    assert not others.refresh()
    assert others.get("orders") == topic
    assert others.by_id(topic.topic_id) == topic
    assert TopicStore(root).list() == [topic]
    assert (topic.partitions, topic.partitioner, topic.ttl_ms) == (8, "crc32", None)


def test_schemas_that_a_topic_had_are_known_to_other_processes_and_after_a_restart(
    root: QueueRoot,
) -> None:
    mine, others = TopicStore(root), TopicStore(root)
    avro = {"value_schema_type": "avro"}
    mine.create("orders", value_schema='"int"', **avro)
    for text in ('"long"', '"string"', '"int"', '"bytes"'):
        mine.alter("orders", value_schema=text)
    others.refresh()
    for store in (mine, others, TopicStore(root)):
        found = store.get("orders")
        assert found.value_schema == '"bytes"'
        assert schemas_of(found)[-1] == ("avro", '"bytes"')
        assert texts_of("avro", found.earlier_schemas) == ('"long"', '"string"', '"int"')
    mine.delete("orders")
    assert mine.create("orders", value_schema='"int"', **avro)[0].earlier_schemas == ()


def test_a_root_that_earlier_releases_use_has_no_settings_that_they_do_not_know(
    tmp_path: Path,
) -> None:
    root = QueueRoot.open(str(tmp_path / "old"))
    path = tmp_path / "old" / FORMAT_PATH
    said = json.loads(path.read_text())
    del said["features"][VALUE_SCHEMAS.name]
    path.write_text(json.dumps(said))
    topics = TopicStore(QueueRoot.open(root.uri))
    topics.create("orders", value_schema='{"type": "object"}')
    avro = {"value_schema_type": "avro", "value_schema": '"int"'}
    for later in (avro, {"value_policy": "warn"}):
        with pytest.raises(OlderFormat, match="does not have the feature value_schemas"):
            topics.alter("orders", **later)
    upgrade(root, lambda _: None)
    assert topics.alter("orders", value_policy="warn").value_policy == "warn"


def test_a_change_that_could_not_be_read_is_read_at_the_next_look(root: QueueRoot) -> None:
    store = FaultyStore(root.store)
    others = TopicStore(QueueRoot.over(store))
    mine = TopicStore(root)
    mine.create("orders")
    store.size_faults = [StorageUnavailable("away")]
    with pytest.raises(StorageUnavailable):
        others.refresh()
    assert others.get("orders") == mine.get("orders")


def test_a_change_that_lost_a_race_and_could_not_be_read_is_read_at_the_next_look(
    root: QueueRoot,
) -> None:
    store = FaultyStore(root.store)
    others, mine = TopicStore(QueueRoot.over(store)), TopicStore(root)

    def overtaken(inner: Store, path: str, data: bytes) -> None:
        mine.create("orders")
        store.size_faults = [StorageUnavailable("away")]
        inner.put_new(path, data)

    store.faults = [overtaken]
    with pytest.raises(StorageUnavailable):
        others.create("payments")
    assert others.get("orders") == mine.get("orders")


def test_get_looks_once_more_before_it_says_unknown(root: QueueRoot) -> None:
    mine, others = TopicStore(root), TopicStore(root)
    topic, _ = mine.create("orders")
    assert others.get("orders") == topic
    with pytest.raises(UnknownTopic, match="does not exist"):
        others.get("odrers")


def test_the_same_topic_again_is_found_and_a_different_one_refused(root: QueueRoot) -> None:
    topics = TopicStore(root)
    first, _ = topics.create("orders", partitions=8)
    assert topics.create("orders", partitions=8) == (first, False)
    with pytest.raises(TopicExists, match="exists with partitions 8"):
        topics.create("orders", partitions=9)


def test_of_threads_that_create_one_topic_one_does(root: QueueRoot) -> None:
    barrier = threading.Barrier(6)

    def create(_: int) -> tuple[Topic, bool]:
        topics = TopicStore(root)
        barrier.wait(timeout=30)
        return topics.create("orders", partitions=8)

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(create, range(6)))
    assert sum(created for _, created in answers) == 1
    assert len({topic.topic_id for topic, _ in answers}) == 1


def test_of_processes_that_create_one_topic_one_does(root: QueueRoot) -> None:
    with ProcessPoolExecutor(3, mp_context=get_context("spawn")) as pool:
        answers = list(pool.map(create_in_another_process, [root.uri] * 3))
    assert sum(created for _, created in answers) == 1
    assert len({topic_id for topic_id, _ in answers}) == 1


def test_concurrent_creations_of_different_topics_all_land(root: QueueRoot) -> None:
    stores = [TopicStore(root) for _ in range(4)]

    def create(i: int) -> None:
        for n in range(5):
            stores[i].create(f"t-{i}-{n}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(create, range(4)))
    assert len(TopicStore(root).list()) == 20
    assert root.store.names("topics/_delta_log")[-1] == f"{20:020d}.json"


def test_a_topic_created_again_is_a_new_incarnation(root: QueueRoot) -> None:
    topics = TopicStore(root)
    old, _ = topics.create("orders")
    topics.delete("orders")
    assert topics.list() == []
    assert topics.by_id(old.topic_id) is None
    with pytest.raises(UnknownTopic):
        topics.delete("orders")
    new, created = topics.create("orders", partitions=2)
    assert created
    assert new.topic_id != old.topic_id
    assert TopicStore(root).list() == [new]


def test_altering_changes_what_was_given_and_partitions_only_grow(root: QueueRoot) -> None:
    topics = TopicStore(root)
    before, _ = topics.create("orders", partitions=4, ttl_ms=1000)
    after = topics.alter("orders", partitions=8, ttl_ms=None)
    assert (after.topic_id, after.partitions, after.ttl_ms) == (before.topic_id, 8, None)
    assert after.version > before.version
    assert topics.alter("orders", partitions=8) == after
    assert TopicStore(root).get("orders") == after
    with pytest.raises(InvalidRequest, match="partitions only grow") as refused:
        topics.alter("orders", partitions=4)
    assert refused.value.extra["field"] == "partitions"
    with pytest.raises(InvalidRequest, match="partitioner"):
        topics.alter("orders", partitioner="murmur2")


def test_concurrent_alterations_lose_none(root: QueueRoot) -> None:
    one, two = TopicStore(root), TopicStore(root)
    one.create("orders", partitions=1)
    two.refresh()
    one.alter("orders", partitions=2)
    two.alter("orders", ttl_ms=5)
    topic = TopicStore(root).get("orders")
    assert (topic.partitions, topic.ttl_ms) == (2, 5)


@pytest.mark.parametrize(
    ("config", "field", "message"),
    [
        ({"partitions": 0}, "partitions", "greater than or equal to 1"),
        ({"partitions": 10_001}, "partitions", "less than or equal to 10000"),
        ({"partitions": "4"}, "partitions", "valid integer"),
        ({"partitons": 4}, "partitons", "did you mean 'partitions'"),
        ({"colour": "red"}, "colour", "a topic has partitions, partitioner"),
        # Words that the code has for something else.
        ({"name": "bills"}, "name", "a topic has partitions, partitioner"),
        ({"self": 1}, "self", "a topic has partitions, partitioner"),
        ({"partitioner": "md5"}, "partitioner", "crc32"),
        ({"retention_ms": -1}, "retention_ms", "greater than or equal"),
        ({"retention_ms": 1000}, "retention_ms", "below dedup_window_ms 600000"),
        ({"dedup_window_ms": 86_400_001}, "dedup_window_ms", "less than or equal"),
        ({"value_schema": "{"}, "value_schema", "not a JSON"),
    ],
)
def test_a_wrong_setting_is_refused_by_name_and_nothing_is_written(
    root: QueueRoot, config: dict[str, Any], field: str, message: str
) -> None:
    topics = TopicStore(root)
    with pytest.raises(InvalidRequest, match=message) as refused:
        topics.create("orders", **config)
    assert refused.value.extra["field"] == field
    assert TopicStore(root).version == 0


def test_a_name_outside_the_alphabet_is_refused(root: QueueRoot) -> None:
    with pytest.raises(InvalidName, match="not valid"):
        TopicStore(root).create("or/ders")


def test_a_retry_policy_and_dead_letters_are_stored_and_found_again(root: QueueRoot) -> None:
    policy = {
        "ttl_ms": 60_000,
        "on_expired": "dead_letter",
        "dead_letter_topic": "graveyard",
        "max_attempts": 5,
        "backoff_ms": 500,
        "backoff_max_ms": 60_000,
        "backoff_jitter_percent": 20,
    }
    TopicStore(root).create("orders", **policy)
    found = TopicStore(root).get("orders")
    assert {name: found.config[name] for name in policy} == policy
    assert found.dead_letters == "graveyard"
    assert TopicStore(root).create("plain")[0].dead_letters == "plain.dlq"


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"on_expired": "explode"}, "on_expired"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"backoff_ms": -1}, "backoff_ms"),
        ({"backoff_ms": 1_000, "backoff_max_ms": 999}, "backoff_max_ms"),
        ({"backoff_jitter_percent": 101}, "backoff_jitter_percent"),
        ({"ttl_ms": 1 << 60}, "ttl_ms"),
        ({"dead_letter_topic": "orders"}, "dead_letter_topic"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(
    root: QueueRoot, settings: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        TopicStore(root).create("orders", **settings)
    assert refused.value.extra["field"] == field


def test_dead_letters_cannot_go_in_a_circle(root: QueueRoot) -> None:
    topics = TopicStore(root)
    topics.create("a", dead_letter_topic="b")
    topics.create("b", dead_letter_topic="c")
    with pytest.raises(InvalidRequest, match="c → a → b → c"):
        topics.create("c", dead_letter_topic="a")
    topics.create("c")
    with pytest.raises(InvalidRequest, match="c → a → b → c"):
        topics.alter("c", dead_letter_topic="a")
    # The default name counts as if it were chosen, whichever of the two is created last.
    with pytest.raises(InvalidRequest, match=r"c\.dlq → c → c\.dlq"):
        topics.create("c.dlq", dead_letter_topic="c")
    topics.create("d.dlq", dead_letter_topic="d")
    with pytest.raises(InvalidRequest, match=r"d → d\.dlq → d"):
        topics.create("d")
    topics.create("d", dead_letter_topic="c")
    with pytest.raises(InvalidRequest, match=r"d → d\.dlq → d"):
        topics.alter("d", dead_letter_topic=None)
    # A topic that hangs on a circle of others is not the one at fault; there is none here.
    assert {t.topic: t.dead_letters for t in topics.list()} == {
        "a": "b",
        "b": "c",
        "c": "c.dlq",
        "d": "c",
        "d.dlq": "d",
    }
