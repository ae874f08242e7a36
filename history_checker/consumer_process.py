"""A consumer as a process of its own: records what it receives, acks it, records the answer."""

from __future__ import annotations

import argparse
import signal
import threading
from pathlib import Path

from history_checker.history import Event, Outcome, Recorder
from lakequeue import Consumer
from lakequeue.errors import Fenced, LakequeueError


def main() -> None:
    """Consume until SIGTERM, then leave the group."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--urls", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--record", type=Path, required=True)
    args = parser.parse_args()

    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    recorder = Recorder(args.record, args.name)
    with Consumer(
        args.topic, group=args.group, urls=args.urls.split(","), session_timeout_ms=6_000
    ) as consumer:
        polls = 0
        while not stop.is_set():
            polls += 1
            recorder.write([Event("poll", "invoke", group=args.group, poll=polls)])
            batch = consumer.poll(timeout_s=0.5, max_records=200)
            recorder.write([Event("poll", group=args.group, poll=polls)])
            recorder.write(
                Event(
                    "receive",
                    topic=m.topic,
                    part=m.partition,
                    offset=m.offset,
                    value=m.message_id,
                    group=args.group,
                    lease_epoch=m.epoch or 0,
                    poll=polls,
                )
                for m in batch
            )
            newest = {(m.topic, m.partition, m.epoch or 0): m.offset + 1 for m in batch}

            def note(outcome: Outcome, newest: dict[tuple[str, int, int], int] = newest) -> None:
                recorder.write(
                    Event(
                        "commit_offset",
                        outcome,
                        topic=topic,
                        part=partition,
                        offset=offset,
                        group=args.group,
                        lease_epoch=epoch,
                    )
                    for (topic, partition, epoch), offset in newest.items()
                )

            note("invoke")
            try:
                for m in batch:
                    m.ack()
                consumer.commit()
            except Fenced:
                note("info")  # some of it may have been taken
            except LakequeueError:
                note("info")
            else:
                note("ok")


if __name__ == "__main__":
    main()
