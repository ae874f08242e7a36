"""The tasks of a shop. What they have done is in its books, a file with one JSON line for each."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from celery import Celery, Task

BOOKS = Path(os.environ.get("SHOP_BOOKS", "books.jsonl"))

app = Celery("shop", broker=os.environ.get("SHOP_BROKER", "sqs://any:any@127.0.0.1:9324//"))
app.conf.update(
    broker_transport_options={
        "region": "us-east-1",
        "is_secure": False,  # True if the gateway has a certificate
        # A task that a worker had when it died is received again after so many seconds. It has to
        # be longer than any task takes, and longer than any countdown.
        "visibility_timeout": int(os.environ.get("SHOP_VISIBILITY_S", "60")),
        "wait_time_seconds": 20,
        "polling_interval": 0,
    },
    task_default_queue=os.environ.get("SHOP_QUEUE", "shop"),
    task_acks_late=True,  # deleted when it is done, and not when it begins
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    worker_prefetch_multiplier=1,
    worker_enable_remote_control=False,
    broker_connection_retry_on_startup=True,
)


class BankBusy(Exception):
    """The bank asks to come again."""


def write_down(did: str, order: int, **more: Any) -> None:
    """Add a line to the books."""
    line = json.dumps({"did": did, "order": order, "at": time.time(), **more}) + "\n"
    with BOOKS.open("a") as books:
        books.write(line)


@app.task(bind=True, autoretry_for=(BankBusy,), default_retry_delay=1, max_retries=5)  # type: ignore[untyped-decorator]
def charge(self: Task, order: int, cents: int) -> None:
    """Take the money. The bank of every third customer is busy at first."""
    tries = self.request.retries + 1
    if order % 3 == 0 and tries == 1:
        raise BankBusy(f"order {order}")
    write_down("charged", order, cents=cents, tries=tries)


@app.task  # type: ignore[untyped-decorator]
def remind(order: int) -> None:
    """Ask how it was; sent with a countdown."""
    write_down("reminded", order)
