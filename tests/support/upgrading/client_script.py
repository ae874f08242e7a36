"""What a program does with the SDK, as a script that both releases run: it prints `ok` at its end.

    python client_script.py INGEST CONSUMER NAME

It imports nothing but the SDK, so each release runs it with its own. URLs are separated by commas.
"""

import sys

from lakequeue import Consumer, Producer
from lakequeue.client.admin import Admin

COUNT = 20


def main(ingest: list[str], consumer: list[str], name: str) -> None:
    """Make a topic, send, read in turn, work on a queue, ask, pause, move."""
    with Admin(ingest, consumer, timeout_s=60) as admin:
        admin.create_topic(name, partitions=2, max_attempts=3)
        with Producer(ingest, acks="ordered") as producer:
            for number in range(COUNT):
                producer.send(
                    name, {"number": number}, key=f"key-{number % 4}", headers=[("a", b"b")]
                )
        _stream(consumer, name)
        described = admin.group(f"{name}-stream")
        assert sum(part.lag for part in described.partitions) == 0, described
        moves = admin.seek(f"{name}-stream", "earliest", topics=[name]).partitions
        assert sum(move.from_offset or 0 for move in moves) == COUNT, moves
        assert admin.pause(f"{name}-stream").paused
        assert not admin.resume(f"{name}-stream").paused
        _queue(consumer, name)
        pages = [admin.browse(name, partition=number, offset=0) for number in (0, 1)]
        assert sum(len(page.records) for page in pages) == COUNT, pages
        assert {one.group for one in admin.groups()} >= {f"{name}-stream", f"{name}-queue"}
        assert len(admin.nodes().consumer) == len(consumer)


def _stream(consumer: list[str], name: str) -> None:
    seen = []
    with Consumer(name, group=f"{name}-stream", urls=consumer, stop_after=COUNT) as members:
        for message in members:
            seen.append((message.key, message.value["number"]))
            message.ack()
    assert sorted(number for _, number in seen) == list(range(COUNT)), seen
    for key in {key for key, _ in seen}:
        mine = [number for other, number in seen if other == key]
        assert mine == sorted(mine), (key, mine)


def _queue(consumer: list[str], name: str) -> None:
    """The first delivery of record 0 is given back."""
    done: list[int] = []
    given_back = False
    with Consumer(
        name, group=f"{name}-queue", mode="queue", urls=consumer, from_="earliest"
    ) as worker:
        while len(done) < COUNT:
            for message in worker.poll(10.0):
                if message.value["number"] == 0 and not given_back:
                    given_back = True
                    message.nack()
                else:
                    done.append(message.value["number"])
                    message.ack()
    assert given_back
    assert sorted(done) == list(range(COUNT)), done


if __name__ == "__main__":
    main(sys.argv[1].split(","), sys.argv[2].split(","), sys.argv[3])
    sys.stdout.write("ok\n")
