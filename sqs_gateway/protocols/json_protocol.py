"""AWS JSON 1.0: `POST /` with `X-Amz-Target: AmazonSQS.SendMessage`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from sqs_gateway.protocols.incoming import Raw, Written
from sqs_gateway.rules.errors import NOT_READABLE, UNKNOWN_OPERATION, SqsError
from sqs_gateway.rules.operations import OPERATIONS, Operation
from sqs_gateway.rules.shapes import Input, read

_TYPE: Final = "application/x-amz-json-1.0"
_TARGET: Final = "AmazonSQS."
TARGET_HEADER: Final = "x-amz-target"


class JsonProtocol:
    """See `Language`."""

    def read(self, raw: Raw) -> tuple[Operation, Input]:
        """See `Language`."""
        target = raw.headers.get(TARGET_HEADER, "")
        operation = OPERATIONS.get(target.removeprefix(_TARGET))
        if operation is None or not target.startswith(_TARGET):
            raise SqsError(UNKNOWN_OPERATION, f"The operation {target[:100]} is not known.")
        try:
            given = orjson.loads(raw.body or b"{}")
        except orjson.JSONDecodeError as error:
            raise SqsError(NOT_READABLE, f"The body is not JSON: {error}") from None
        if not isinstance(given, dict):
            raise SqsError(NOT_READABLE, "The body is no JSON object.")
        return operation, read(operation.fields, given)

    def answer(self, _operation: Operation, output: Mapping[str, Any], request_id: str) -> Written:
        """See `Language`."""
        return Written(200, orjson.dumps(output), _TYPE, (("x-amzn-RequestId", request_id),))

    def refusal(self, error: SqsError, request_id: str) -> Written:
        """See `Language`. SDKs that know the older codes find them in a header."""
        code = error.code
        body = orjson.dumps({"__type": code.type, "message": error.message})
        headers = (
            ("x-amzn-RequestId", request_id),
            ("x-amzn-query-error", f"{code.query};{code.fault}"),
        )
        return Written(code.status, body, _TYPE, headers)
