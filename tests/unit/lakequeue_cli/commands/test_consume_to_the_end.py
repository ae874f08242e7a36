"""`lakequeue consume -e`: it ends at the end, also if its partitions are taken away meanwhile."""

from __future__ import annotations

import pytest

from lakequeue.client.admin import Admin
from lakequeue.client.message import Message
from lakequeue.testing import MemoryQueue
from lakequeue_cli.commands import consume
from tests.support.command import lakequeue

CONSUMER = "http://consumer.test"


@pytest.mark.parametrize("group", [(), ("-g", "billing")])
def test_a_member_that_owns_nothing_for_a_moment_reads_on(
    group: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    with MemoryQueue([CONSUMER]) as queue:
        queue.create_topic("orders", partitions=1)
        with queue.producer() as producer:
            for n in range(1_200):
                producer.send("orders", n)
        write, seen = consume._write, 0

        def and_expire(message: Message, as_json: bool, pattern: str) -> None:
            nonlocal seen
            write(message, as_json, pattern)
            seen += 1
            if seen == 1:
                with Admin(consumer_urls=CONSUMER) as admin:
                    [found] = admin.groups()
                    [owner] = {p.owner for p in admin.group(found.group).partitions}
                assert owner is not None
                queue.expire(owner)

        monkeypatch.setattr(consume, "_write", and_expire)
        done = lakequeue("consume", "orders", "-e", *group, "--consumer-url", CONSUMER)
        assert done.returncode == 0, done.stderr
        assert {int(n) for n in done.stdout.split()} == set(range(1_200))
