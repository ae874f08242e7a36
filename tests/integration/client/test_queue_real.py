"""`Queue` against real services: every verb, and what docs/queues.md says that it prints."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from lakequeue import Admin, Queue
from lakequeue.errors import AttemptSuperseded, GroupMismatch, UnknownGroup, UnknownTopic
from tests.support.small_cluster import Cluster

pytestmark = pytest.mark.zookeeper


def test_every_verb(cluster: Cluster) -> None:
    at = (cluster.ingest_url, cluster.node.url)
    with Queue.create("jobs", *at, visibility_timeout_s=20, max_attempts=3) as queue:
        sent = queue.send({"n": 0}, message_id="first")
        assert sent == "first"
        assert len(queue.send_batch([{"n": n} for n in range(1, 6)])) == 6 - 1
        got = [m for _ in range(6) for m in queue.receive(wait_s=20)]
        assert sorted(m.value["n"] for m in got) == list(range(6))
        assert queue.receive() == []
        first, second, third, fourth, *rest = got
        queue.delete(first, *rest)
        second.ack()
        queue.change_visibility(third, 3600)
        queue.change_visibility(fourth, 0)
        (again,) = queue.receive(max=10, wait_s=20, visibility_timeout_s=3600)
        assert (again.value, again.attempt) == (fourth.value, 2)
        with pytest.raises(AttemptSuperseded):
            queue.delete(fourth)
        queue.send("late", delay_s=3600)
        queue.purge()
        with pytest.raises(AttemptSuperseded):
            queue.delete(third)
        queue.send("after")
        (after,) = queue.receive(max=10, wait_s=20)
        assert after.value == "after"
        queue.delete(after)
        with Admin(*at) as admin:
            assert sum(p.lag for p in admin.group("jobs").partitions) == 0
            queue.delete_queue()
            for gone in (lambda: admin.group("jobs"), lambda: admin.topic("jobs")):
                with pytest.raises((UnknownGroup, UnknownTopic)):
                    gone()


def test_creating_it_again_is_no_error_unless_the_options_differ(cluster: Cluster) -> None:
    at = (cluster.ingest_url, cluster.node.url)
    Queue.create("twice", *at, max_attempts=3).close()
    Queue.create("twice", *at, max_attempts=3).close()
    with pytest.raises(GroupMismatch):
        Queue.create("twice", *at, max_attempts=4)


def test_the_session_in_the_documents_prints_what_it_says(cluster: Cluster) -> None:
    text = (Path(__file__).parents[3] / "docs" / "queues.md").read_text()
    session = "\n".join(re.findall(r"```pycon\n(.*?)```", text, flags=re.DOTALL))
    session = session.replace("http://127.0.0.1:8080", cluster.ingest_url)
    session = session.replace("http://127.0.0.1:8081", cluster.node.url)
    test = doctest.DocTestParser().get_doctest(session, {}, "docs/queues.md", None, 0)
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    said: list[str] = []
    found = doctest.DocTestRunner(optionflags=flags).run(test, out=said.append)
    assert found.attempted > 12
    assert not found.failed, "".join(said)
