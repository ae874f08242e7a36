"""What sensors and controllers agree on: names, addresses, and waiting for the queue."""

from __future__ import annotations

import os
import signal
import threading

from lakequeue import Admin
from lakequeue.errors import TryAgain


def urls_in(name: str) -> list[str] | None:
    """The addresses in a variable of the environment. None: the SDK finds the queue by itself."""
    return os.environ[name].split(",") if os.environ.get(name) else None


INGEST_URLS = urls_in("IOT_INGEST_URLS")
CONSUMER_URLS = urls_in("IOT_CONSUMER_URLS")


def topic_of(sensor: str) -> str:
    """The topic of a sensor such as `temp_1`. Each has its own: a controller reads nothing else."""
    return f"iot.{sensor}"


def stop_on_signals() -> threading.Event:
    """An event that Ctrl-C and SIGTERM set. The program waits for it, and then closes cleanly."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


def ensure_topic(sensor: str, stop: threading.Event) -> bool:
    """Create the sensor's topic if it is not there; wait for the queue. False: told to stop."""
    said = False
    with Admin(INGEST_URLS, CONSUMER_URLS, timeout_s=1.0) as admin:
        while not stop.is_set():
            try:
                # One partition, so that the readings of a sensor are in order. If it has several
                # controllers, one works and the others stand by.
                admin.create_topic(topic_of(sensor), partitions=1, if_not_exists=True)
                return True
            except TryAgain as error:
                if not said:
                    print(f"waiting for the queue: {error.detail}", flush=True)
                said = True
                stop.wait(1.0)
    return False
