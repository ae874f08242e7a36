"""One request from its bytes to the bytes of its answer."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import perf_counter

import structlog

from serving.front.parking import Steps
from sqs_gateway.calls import managing, messaging
from sqs_gateway.calls.asked import Asked, Do, DoSteps, Output
from sqs_gateway.calls.caller import Callers
from sqs_gateway.calls.moving import Moves
from sqs_gateway.calls.refusals import refusal_of
from sqs_gateway.keys import AccessKey, KeyFile
from sqs_gateway.metrics import Metrics
from sqs_gateway.protocols.incoming import Language, Raw, Written
from sqs_gateway.protocols.json_protocol import TARGET_HEADER, JsonProtocol
from sqs_gateway.protocols.query_protocol import QueryProtocol
from sqs_gateway.protocols.signing import verified
from sqs_gateway.rules.errors import FAILED, SqsError
from sqs_gateway.rules.names import Names, name_in_url
from sqs_gateway.rules.operations import Operation
from sqs_gateway.rules.shapes import Input

log = structlog.get_logger(__name__)

WAITS = "ReceiveMessage"
"""The operation that may wait for up to twenty seconds."""
_PARKS = frozenset(messaging.operations())
_JSON, _QUERY = JsonProtocol(), QueryProtocol()


@dataclass(frozen=True, slots=True)
class Call:
    """A request that was read."""

    language: Language
    operation: Operation
    given: Input
    key: str | None
    """Whose it is; None: nobody has to show."""
    request_id: str
    base_url: str

    @property
    def waits(self) -> bool:
        """Whether it may have to wait for something to come."""
        return self.operation.name == WAITS

    @property
    def parks(self) -> bool:
        """Whether it waits for others, and needs no thread while it does."""
        return self.operation.name in _PARKS


class Gateway:
    """Thread-safe."""

    def __init__(
        self, names: Names, callers: Callers, metrics: Metrics, keys: KeyFile | None = None
    ) -> None:
        """`keys`: what clients sign with; None: any signature is taken, and none."""
        self._keys = keys
        self._names = names
        self._callers = callers
        self._metrics = metrics
        self._do: Mapping[str, Do] = managing.operations() | Moves().operations()
        self._steps: Mapping[str, DoSteps] = messaging.operations()

    def may_watch(self, authorization: str) -> bool:
        """Whether who shows this header may read the metrics."""
        kind, _, key = authorization.partition(" ")
        return self._keys is None or (kind.lower() == "bearer" and self._keys.has(key.strip()))

    def read(self, raw: Raw, base_url: str) -> Call | Written:
        """What is asked, or why it cannot be."""
        language = language_of(raw)
        request_id = str(uuid.uuid4())
        try:
            key = None
            if self._keys is not None:
                key, raw = self._signed_by(raw, self._keys)
            operation, given = language.read(raw)
        except Exception as error:
            refusal = refusal_of(error)
            self._metrics.answered("unreadable", refusal.code.name, 0.0)
            if refusal.code is FAILED:
                log.exception("request.failed", operation="unreadable")
            return language.refusal(refusal, request_id)
        return Call(language, operation, given, key, request_id, base_url)

    @staticmethod
    def _signed_by(raw: Raw, keys: KeyFile) -> tuple[str | None, Raw]:
        """What the services are shown, and the request without the frames of its chunks."""
        known: dict[str, AccessKey] = {}

        def secret_of(access_key: str) -> str | None:
            found = keys.find(access_key)
            if found is None:
                return None
            known[access_key] = found
            return found.secret

        signed = verified(raw, secret_of, datetime.now(UTC))
        return known[signed.access_key].bearer, replace(raw, body=signed.body)

    def may_be_quick(self, raw: Raw) -> bool:
        """Whether it speaks of messages, in JSON."""
        target = raw.headers.get(TARGET_HEADER, "")
        return target.rpartition(".")[2] in self._steps

    def is_quick(self, call: Call) -> bool:
        """Whether its steps never block: it waits for others, and its queue is known."""
        caller = self._callers.known(call.key) if call.operation.name in self._steps else None
        try:
            name = name_in_url(call.given.get("QueueUrl", ""))
        except SqsError:
            return False
        return caller is not None and caller.queues.at_hand(name)

    def answer(self, call: Call, gone: Callable[[], bool] = lambda: False) -> Steps[Written]:
        """Do what is asked."""
        began = perf_counter()
        outcome = "done"
        try:
            output = yield from self._output(call, gone)
            return call.language.answer(call.operation, output, call.request_id)
        except Exception as error:
            refusal = refusal_of(error)
            outcome = refusal.code.name
            if refusal.code is FAILED:
                log.exception("request.failed", operation=call.operation.name)
            return call.language.refusal(refusal, call.request_id)
        finally:
            self._metrics.answered(call.operation.name, outcome, perf_counter() - began)

    def refused(self, call: Call, error: Exception) -> Written:
        """It cannot be begun."""
        refusal = refusal_of(error)
        self._metrics.answered(call.operation.name, refusal.code.name, 0.0)
        return call.language.refusal(refusal, call.request_id)

    def _output(self, call: Call, gone: Callable[[], bool]) -> Steps[Output]:
        caller = self._callers.of(call.key)
        asked = Asked(caller, self._names, call.given, call.base_url, gone)
        name = call.operation.name
        if name not in self._steps:
            return self._do[name](asked)
        return (yield from self._steps[name](asked))


def language_of(raw: Raw) -> Language:
    """Which of the two protocols a request speaks."""
    json = TARGET_HEADER in raw.headers or "json" in raw.headers.get("content-type", "")
    return _JSON if json else _QUERY
