"""Load with a recorded history: producers in threads, consumers as processes that can be killed."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Self

from history_checker.history import Event, Outcome, Recorder
from lakequeue import Producer
from lakequeue.errors import LakequeueError

ROOT = Path(__file__).parents[1]


class LoadProducer:
    """Sends unique values at a steady rate from a thread, until stopped; records every outcome."""

    def __init__(
        self,
        urls: Sequence[str],
        topic: str,
        folder: Path,
        name: str,
        rate: int,
        *,
        lenient: bool = False,
    ) -> None:
        """`lenient`: a record that is given up is no failure of the test."""
        self._lenient = lenient
        self._urls = list(urls)
        self._topic = topic
        self._name = name
        self._rate = rate
        self._recorder = Recorder(folder / f"producer-{name}.jsonl", name)
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self.acknowledged = 0
        self._thread = threading.Thread(target=self._run, name=f"load-{name}", daemon=True)

    def start(self) -> Self:
        """Begin, in a thread of its own."""
        self._thread.start()
        return self

    def _run(self) -> None:
        try:
            self._send()
        except BaseException as e:  # noqa: BLE001 - handed to whoever stops the load
            self._failure = e

    def _send(self) -> None:
        def outcome(kind: Outcome) -> Callable[[Any, Any], None]:
            def note(record: Any, result: Any) -> None:
                type_: Outcome = kind
                if kind == "fail" and getattr(result, "stored", None) != "no":
                    type_ = "info"
                self.acknowledged += kind == "ok"
                self._recorder.write([Event("send", type_, value=record.message_id)])

            return note

        producer = Producer(
            self._urls, on_ack=outcome("ok"), on_error=outcome("fail"), delivery_timeout_s=90
        )
        # Of a record that was given up the history has the outcome.
        with contextlib.suppress(LakequeueError) if self._lenient else nullcontext(), producer:
            n = 0
            start = time.monotonic()
            while not self._stop.wait(max(0.0, start + n / self._rate - time.monotonic())):
                value = f"{self._name}-{n}"
                key = f"{self._name}-{n % 50}"
                invoke = Event("send", "invoke", topic=self._topic, value=value, key=key)
                self._recorder.write([invoke])
                producer.send(self._topic, value, key=key, message_id=value)
                n += 1

    def stop(self) -> None:
        """Stop sending, wait until everything is answered; raise what went wrong."""
        self._stop.set()
        self._thread.join(timeout=120)
        if self._thread.is_alive():
            raise TimeoutError(f"producer {self._name} did not end")
        self._recorder.close()
        if self._failure is not None:
            raise self._failure


class LoadConsumer:
    """A consumer process that records what it receives and acks."""

    def __init__(
        self, urls: Sequence[str], topic: str, group: str, folder: Path, name: str
    ) -> None:
        self.name = name
        self.record = folder / f"consumer-{name}.jsonl"
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "history_checker.consumer_process"),
                *("--topic", topic, "--group", group),
                *("--urls", ",".join(urls), "--name", name, "--record", str(self.record)),
            ],
            cwd=ROOT,
        )

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait(timeout=10)

    def stop(self) -> None:
        """SIGTERM: ack what was received, leave the group."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(timeout=60)

    def received(self) -> int:
        """Receive events so far."""
        return self.record.read_bytes().count(b'"receive"') if self.record.exists() else 0


def wait_until(what: str, done: Callable[[], bool], timeout_s: float = 60.0) -> None:
    """Wait for a state that another process brings about; raise `TimeoutError` naming it."""
    deadline = time.monotonic() + timeout_s
    tick = threading.Event()
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_s:g} s: {what}")
        tick.wait(0.05)
