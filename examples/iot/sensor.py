"""A sensor: `python examples/iot/sensor.py temp 1 5` sends a reading of temp_1 every 5 s.

Start as many as you like. Ctrl-C ends one cleanly. While the queue is away, the sensor keeps its
readings. It sends them later, in order, each once.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from examples.iot.plant import INGEST_URLS, ensure_topic, stop_on_signals, topic_of
from lakequeue import Producer, RecordMetadata
from lakequeue.client.producing.outgoing import Outgoing
from lakequeue.errors import LakequeueError

LATE_S = 3.0
KEEP_TRYING_S = 24 * 3600.0


class Sensor:
    """Readings of one sensor, and what has become of them."""

    def __init__(self, name: str, period_s: float) -> None:
        self._name = name
        self._period_s = period_s
        self._oldest_sent: float | None = None
        self._late = False
        self._lock = threading.Lock()

    def run(self, stop: threading.Event) -> None:
        """Send until `stop`."""
        with Producer(
            INGEST_URLS,
            on_ack=self._acknowledged,
            on_error=self._given_up,
            delivery_timeout_s=KEEP_TRYING_S,
        ) as producer:
            number = 0
            while not stop.is_set():
                number += 1
                reading = {"sensor": self._name, "n": number, "value": self._measure()}
                producer.send(topic_of(self._name), reading, key=self._name)
                with self._lock:
                    self._oldest_sent = self._oldest_sent or time.monotonic()
                self._wait(stop)
            left = len(producer.unacked())
            if left:
                print(f"{self._name}: sending {left} readings that wait …", flush=True)
            try:
                producer.close(timeout_s=5.0)
            except LakequeueError:
                # Readings that were under way may have arrived in the meantime.
                if left := len(producer.unacked()):
                    print(f"{self._name}: {left} readings not sent", flush=True)
        print(f"{self._name}: stopped after {number} readings", flush=True)

    def _wait(self, stop: threading.Event) -> None:
        """Until the next reading is due; says so, once, when acknowledgements stay away."""
        end = time.monotonic() + self._period_s
        while not stop.wait(min(1.0, max(0.0, end - time.monotonic()))):
            with self._lock:
                oldest = self._oldest_sent
            if oldest and time.monotonic() - oldest > LATE_S and not self._late:
                self._late = True
                print(f"{self._name}: the queue does not answer; readings are kept", flush=True)
            if time.monotonic() >= end:
                return

    def _measure(self) -> float:
        return round(20 + 5 * math.sin(time.time() / 60) + random.gauss(0, 0.2), 2)

    def _acknowledged(self, record: Outgoing, delivered: RecordMetadata) -> None:
        with self._lock:
            self._oldest_sent = None
        if self._late:
            self._late = False
            print(f"{self._name}: the queue is back", flush=True)
        print(f"{self._name} #{record.value['n']}: {record.value['value']} sent", flush=True)

    def _given_up(self, record: Outgoing, error: LakequeueError) -> None:
        print(f"{self._name} #{record.value['n']}: given up: {error}", flush=True)


def main() -> None:
    """Parse, wait for the queue, send."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("type", help="what is measured: temp, humidity, …")
    parser.add_argument("id", help="which sensor of that type")
    parser.add_argument("seconds", type=float, help="time between readings")
    args = parser.parse_args()
    name = f"{args.type}_{args.id}"
    stop = stop_on_signals()
    if ensure_topic(name, stop):
        Sensor(name, args.seconds).run(stop)


if __name__ == "__main__":
    main()
