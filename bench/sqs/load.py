"""What is measured of one server: `python -m bench.sqs.load URL SECONDS`, a process of its own.

It prints JSON. Each part takes a queue of its own. All messages have 1,000 bytes.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from itertools import count
from typing import Any

import orjson

from bench.sqs.http import Connection, Failed, request

SENDERS = 16
WORKERS = 32
BATCH = 10
VALUE = "x" * 1_000
WARM_S = 2.0
WAITS = 150
FIRST_S = 60.0
"""For so long the first message of a queue is waited for."""
QUEUES = 1_000
MOST_LISTS = 40

Figures = dict[str, Any]
_numbers = count()


def percentiles(took: list[float]) -> Figures:
    """Of seconds, in milliseconds."""
    if not took:
        raise Failed("no call has ended in time")
    ordered = sorted(took)
    at = {"p50_ms": 0.5, "p99_ms": 0.99}
    found = {name: round(ordered[int(len(ordered) * q)] * 1_000, 1) for name, q in at.items()}
    return found | {"worst_ms": round(ordered[-1] * 1_000, 1), "calls": len(ordered)}


async def new_queue(url: str) -> str:
    """The URL of a queue that nobody has."""
    async with Connection(url) as one:
        made = await one.call("CreateQueue", QueueName=f"bench-{next(_numbers)}")
    return str(made["QueueUrl"])


async def connected(url: str, many: int, work: Callable[[Connection], Awaitable[None]]) -> None:
    """Do it on so many connections at once."""
    async with AsyncExitStack() as stack:
        there = [await stack.enter_async_context(Connection(url)) for _ in range(many)]
        await asyncio.gather(*map(work, there))


async def sends(url: str, queue: str, seconds: float, given: Figures, operation: str) -> Figures:
    """One call after the other on each connection; what is done in the warm-up does not count."""
    took: list[float] = []
    began = time.perf_counter() + WARM_S
    end = began + seconds

    async def work(one: Connection) -> None:
        call = request(one.host, operation, {"QueueUrl": queue, **given})
        while (at := time.perf_counter()) < end:
            body = await one.ask(call)
            if b'"Failed":[{' in body:
                raise Failed(body[:300].decode())
            if at >= began:
                took.append(time.perf_counter() - at)

    await connected(url, SENDERS, work)
    return percentiles(took) | {"per_s": round(len(took) / seconds)}


async def send_one(url: str, seconds: float) -> Figures:
    """SendMessage."""
    queue = await new_queue(url)
    return await sends(url, queue, seconds, {"MessageBody": VALUE}, "SendMessage")


async def send_batches(url: str, queue: str, seconds: float) -> Figures:
    """SendMessageBatch of ten."""
    entries = [{"Id": str(n), "MessageBody": VALUE} for n in range(BATCH)]
    found = await sends(url, queue, seconds, {"Entries": entries}, "SendMessageBatch")
    return found | {"messages_per_s": found["per_s"] * BATCH}


async def drain(url: str, queue: str, seconds: float) -> Figures:
    """Receive ten, delete ten; from the first second on, until the last, or until time is up."""
    deleted: list[tuple[float, int]] = []
    seen: set[str] = set()
    twice = 0
    end = time.perf_counter() + seconds + 1.0

    async def work(one: Connection) -> None:
        nonlocal twice
        asks = request(
            one.host,
            "ReceiveMessage",
            {
                "QueueUrl": queue,
                "MaxNumberOfMessages": BATCH,
                "WaitTimeSeconds": 1,
                "VisibilityTimeout": 120,
            },
        )
        while time.perf_counter() < end:
            got = orjson.loads(await one.ask(asks) or b"{}").get("Messages") or []
            if not got:
                continue
            twice += sum(message["MessageId"] in seen for message in got)
            seen.update(message["MessageId"] for message in got)
            entries = [
                {"Id": str(n), "ReceiptHandle": message["ReceiptHandle"]}
                for n, message in enumerate(got)
            ]
            said = await one.call("DeleteMessageBatch", QueueUrl=queue, Entries=entries)
            if said.get("Failed"):
                raise Failed(str(said["Failed"])[:300])
            deleted.append((time.perf_counter(), len(got)))

    began = time.perf_counter() + 1.0
    await connected(url, WORKERS, work)
    counted = [(at, many) for at, many in deleted if at >= began]
    took = counted[-1][0] - began if counted else 1.0
    done = sum(many for _, many in counted)
    return {
        "messages_per_s": round(done / took),
        "messages": sum(many for _, many in deleted),
        "seconds": round(took, 1),
        "twice": twice,
    }


async def waiting(url: str) -> Figures:
    """A receive that waits, a send, and a delete; one after the other."""
    queue = await new_queue(url)
    latency: list[float] = []
    since_answer: list[float] = []
    durable: list[float] = []
    asks = {"QueueUrl": queue, "WaitTimeSeconds": 20}
    async with Connection(url) as sender, Connection(url) as receiver:
        send = request(sender.host, "SendMessage", {"QueueUrl": queue, "MessageBody": VALUE})
        receive = request(receiver.host, "ReceiveMessage", asks)
        for number in range(WAITS + 10):
            coming = asyncio.create_task(receiver.ask(receive))
            # Not in step with anything that the server does at intervals.
            await asyncio.sleep(0.02 + (number * 7 % 50) / 1_000)
            sent = time.perf_counter()
            await sender.ask(send)
            answered = time.perf_counter()
            (got,) = orjson.loads(await asyncio.wait_for(coming, FIRST_S))["Messages"]
            received = time.perf_counter()
            handle = got["ReceiptHandle"]
            await receiver.call("DeleteMessage", QueueUrl=queue, ReceiptHandle=handle)
            if number >= 10:
                latency.append(received - sent)
                since_answer.append(received - answered)
                durable += [answered - sent, time.perf_counter() - received]
    return {
        "sent_to_received": percentiles(latency),
        "answered_to_received": percentiles(since_answer),
        "durable": percentiles(durable),
    }


async def lists(url: str) -> Figures:
    """ListQueues, which answers the first thousand, with a thousand queues there."""
    there = 0
    async with Connection(url) as one:
        while there < QUEUES:
            answer = await one.call("ListQueues", MaxResults=QUEUES)
            there = len(answer.get("QueueUrls") or [])
            if there < QUEUES:
                await _make(url, QUEUES - there)
        took = []
        for number in range(MOST_LISTS):
            began = time.perf_counter()
            await one.call("ListQueues", MaxResults=QUEUES)
            took.append(time.perf_counter() - began)
            # Every second one comes when nothing is remembered of the one before.
            await asyncio.sleep(1.1 if number % 2 == 0 and number < 10 else 0)
    return percentiles(took) | {"queues": there}


async def _make(url: str, many: int) -> None:
    left = iter(range(many))

    async def work(one: Connection) -> None:
        for number in left:
            await one.call("CreateQueue", QueueName=f"listed-{number}-{next(_numbers)}")

    await connected(url, 4, work)


async def main(url: str, seconds: float) -> Figures:
    """Everything, one part after the other."""
    found: Figures = {}
    queue = await new_queue(url)
    parts: list[tuple[str, Callable[[], Awaitable[Figures]]]] = [
        ("waiting", lambda: waiting(url)),
        ("send", lambda: send_one(url, seconds)),
        ("send_batch", lambda: send_batches(url, queue, seconds)),
        ("receive_delete", lambda: drain(url, queue, seconds)),
        ("list_queues", lambda: lists(url)),
    ]
    for name, part in parts:
        cpu = time.process_time()
        began = time.perf_counter()
        try:
            found[name] = await part()
        except (Failed, OSError, TimeoutError) as error:
            found[name] = {"failed": f"{type(error).__name__}: {error}"[:300]}
        spent = time.process_time() - cpu
        found[name]["load_cpu"] = round(spent / (time.perf_counter() - began), 2)
        print(name, json.dumps(found[name]), file=sys.stderr, flush=True)
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1], float(sys.argv[2])))))
