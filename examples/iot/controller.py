"""A controller: `python examples/iot/controller.py temp_1` acts on the readings of that sensor.

Start several for one sensor. One works; the others stand by, and take over when it ends. Ctrl-C
ends one cleanly. A reading is acknowledged after the controller has acted on it.
"""

from __future__ import annotations

import argparse
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from examples.iot.plant import CONSUMER_URLS, ensure_topic, stop_on_signals, topic_of
from lakequeue import Consumer, Lost, Message

TOO_HIGH = 23.0


class Controller:
    """Switches something on and off by the readings of one sensor."""

    def __init__(self, sensor: str) -> None:
        self._sensor = sensor
        self._on = False

    def run(self, stop: threading.Event) -> None:
        """Consume until `stop`."""
        with Consumer(
            topic_of(self._sensor),
            group=f"controller-{self._sensor}",
            urls=CONSUMER_URLS,
            session_timeout_ms=6_000,
            connect_timeout_s=24 * 3600.0,
            on_status=self._say,
            on_lost=self._lost,
        ) as consumer:
            while not stop.is_set():
                for message in consumer.poll(timeout_s=0.5):
                    self._act(message)
                    message.ack()
        self._say("stopped")

    def _act(self, message: Message) -> None:
        reading = message.json()
        on = reading["value"] > TOO_HIGH
        change = f", cooling {'on' if on else 'off'}" if on != self._on else ""
        self._on = on
        self._say(f"#{reading['n']} {reading['value']} at offset {message.offset}{change}")

    def _lost(self, lost: list[Lost]) -> None:
        for item in lost:
            self._say(f"partition {item.partition} is somebody else's now ({item.reason})")

    def _say(self, line: str) -> None:
        print(f"controller {self._sensor}: {line}", flush=True)


def main() -> None:
    """Parse, wait for the queue, consume."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sensor", help="type and id of the sensor, such as temp_1")
    args = parser.parse_args()
    stop = stop_on_signals()
    if ensure_topic(args.sensor, stop):
        Controller(args.sensor).run(stop)


if __name__ == "__main__":
    main()
