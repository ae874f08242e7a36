"""A request of either protocol, read, and the answers of each. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sqs_gateway.rules.errors import SqsError
from sqs_gateway.rules.operations import Operation
from sqs_gateway.rules.shapes import Input


@dataclass(frozen=True, slots=True)
class Raw:
    """What has come, as far as protocols look at it."""

    method: str
    path: str
    target: str
    """The path and what follows it, as it was sent."""
    query: str
    headers: Mapping[str, str]
    """Names in small letters."""
    body: bytes


@dataclass(frozen=True, slots=True)
class Written:
    """An answer as it is written."""

    status: int
    body: bytes
    content_type: str
    headers: tuple[tuple[str, str], ...]


class Language(Protocol):
    """One of the two protocols."""

    def read(self, raw: Raw) -> tuple[Operation, Input]:
        """What is asked. Raises `SqsError`."""

    def answer(self, operation: Operation, output: Mapping[str, Any], request_id: str) -> Written:
        """It was done."""

    def refusal(self, error: SqsError, request_id: str) -> Written:
        """It was not."""
