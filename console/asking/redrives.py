"""Redrives that somebody began here: they go on while nobody looks, each part a call of its own."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import orjson
import structlog

from console.asking.services import Services
from console.rules.found import Failed
from lakequeue.errors import LakequeueError, TryAgain

log = structlog.get_logger(__name__)
_PART = {"max": 1_000, "wait_ms": 5_000}
_PART_S = 60.0
_TRIES = 5
_MOST_KEPT = 100


@dataclass
class Redrive:
    """How far one is."""

    topic: str
    who: str
    began: float = field(default_factory=time.time)
    redriven: int = 0
    kept: int = 0
    without_topic: int = 0
    over: bool = False
    failed: Failed | None = None
    stopping: bool = False


class Redrives:
    """Thread-safe. Killed with the console they leave nothing half done: begin again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Redrive] = OrderedDict()

    def newest(self, topic: str, who: str) -> Redrive | None:
        """The newest one of a topic that this person began."""
        with self._lock:
            return self._known.get(f"{who} {topic}")

    def begin(self, services: Services, who: str, topic: str, wanted: dict[str, Any]) -> Redrive:
        """Begin one with the key of `services`; one that runs already is handed back."""
        with self._lock:
            known = self._known.get(f"{who} {topic}")
            if known is not None and not known.over:
                return known
            run = self._known[f"{who} {topic}"] = Redrive(topic, who)
            self._known.move_to_end(f"{who} {topic}")
            while len(self._known) > _MOST_KEPT:
                self._known.popitem(last=False)
        threading.Thread(
            target=_run, args=(services, run, wanted), name="redrive", daemon=True
        ).start()
        return run


def _run(services: Services, run: Redrive, wanted: dict[str, Any]) -> None:
    try:
        _go(services, run, {**wanted, **_PART})
    except LakequeueError as error:
        run.failed = Failed(error.detail, error.hint or "", error.code)
    except Exception as error:
        log.exception("redrive.failed", topic=run.topic)
        run.failed = Failed(f"unexpected {type(error).__name__}", "see the log of the console")
    run.over = True


def _go(services: Services, run: Redrive, asked: dict[str, Any]) -> None:
    path, failures = f"/v1/topics/{run.topic}/redrive", 0
    while not run.stopping:
        try:
            answer = services.request("consumer", "POST", path, asked, within_s=_PART_S)
        except TryAgain:
            failures += 1
            if failures >= _TRIES:
                raise
            # No record is sent twice, whatever became of the call.
            time.sleep(min(5.0, 0.5 * 2**failures))
            continue
        failures = 0
        part = orjson.loads(answer)
        run.redriven += part["redriven"]
        run.kept += part["kept"]
        run.without_topic += part["without_topic"]
        if not part["more"]:
            return
        asked["end_offsets"] = part["end_offsets"]
