"""The older protocol: `Action=SendMessage&…` as a form or in the URL, and XML. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from sqs_gateway.protocols.incoming import Raw, Written
from sqs_gateway.rules.errors import NOT_READABLE, UNKNOWN_OPERATION, SqsError
from sqs_gateway.rules.names import name_in_path
from sqs_gateway.rules.operations import OPERATIONS, Operation
from sqs_gateway.rules.shapes import Field, Input, Kind, read

_SPACE: Final = "http://queue.amazonaws.com/doc/2012-11-05/"
_MOST_FIELDS: Final = 4_000
_FORM: Final = "application/x-www-form-urlencoded"
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}\Z")
_NOT_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LISTS: Final = {
    "QueueUrls": "QueueUrl",
    "queueUrls": "QueueUrl",
    "Messages": "Message",
    "Failed": "BatchResultErrorEntry",
    "Results": "ListMessageMoveTasksResultEntry",
}
_MAPS: Final = {
    "Attributes": ("Attribute", "Name", "Value"),
    "MessageAttributes": ("MessageAttribute", "Name", "Value"),
    "Tags": ("Tag", "Key", "Value"),
}
Params = dict[str, str]


class QueryProtocol:
    """See `Language`."""

    def read(self, raw: Raw) -> tuple[Operation, Input]:
        """See `Language`. The path may name the queue."""
        params = _params(raw)
        action = params.get("Action", "")
        operation = OPERATIONS.get(action)
        if operation is None:
            said = f"The action {action[:100]} is not valid for this endpoint."
            raise SqsError(UNKNOWN_OPERATION, said)
        given = given_in(operation.fields, params)
        if "QueueUrl" not in given and name_in_path(raw.path) is not None:
            given["QueueUrl"] = raw.path
        return operation, read(operation.fields, given)

    def answer(self, operation: Operation, output: Mapping[str, Any], request_id: str) -> Written:
        """See `Language`."""
        name = operation.name
        inner = "".join(_members(output, f"{name}ResultEntry"))
        result = f"<{name}Result>{inner}</{name}Result>" if inner else ""
        body = (
            f'<?xml version="1.0"?><{name}Response xmlns="{_SPACE}">{result}<ResponseMetadata>'
            f"<RequestId>{request_id}</RequestId></ResponseMetadata></{name}Response>"
        )
        return _written(200, body, request_id)

    def refusal(self, error: SqsError, request_id: str) -> Written:
        """See `Language`."""
        code = error.code
        body = (
            f'<?xml version="1.0"?><ErrorResponse xmlns="{_SPACE}"><Error><Type>{code.fault}</Type>'
            f"<Code>{code.query}</Code><Message>{_text(error.message)}</Message><Detail/></Error>"
            f"<RequestId>{request_id}</RequestId></ErrorResponse>"
        )
        return _written(code.status, body, request_id)


def _written(status: int, body: str, request_id: str) -> Written:
    return Written(status, body.encode(), "text/xml", (("x-amzn-RequestId", request_id),))


# -- requests -------------------------------------------------------------------------------------


def _params(raw: Raw) -> Params:
    form = raw.headers.get("content-type", "").partition(";")[0].strip().lower()
    texts = [raw.query]
    if raw.body and form in {"", _FORM}:
        try:
            texts.append(raw.body.decode())
        except UnicodeDecodeError:
            raise SqsError(NOT_READABLE, "The form is not UTF-8.") from None
    params: Params = {}
    for text in texts:
        try:
            params |= parse_qsl(
                text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS
            )
        except ValueError as error:
            raise SqsError(NOT_READABLE, f"The form cannot be read: {error}") from None
    return params


def given_in(fields: Sequence[Field], params: Params) -> dict[str, Any]:
    """The parameters of a form in the shape that JSON has."""
    found: dict[str, Any] = {}
    for field in fields:
        value = _value(field, params)
        if value is not None:
            found[field.name] = value
    return found


def _value(field: Field, params: Params) -> Any:
    name = field.query_name
    if field.kind is Kind.TEXT:
        return params.get(name)
    if field.kind is Kind.WHOLE:
        return _number(field, params.get(name))
    parts = _numbered(name, params)
    if not parts:
        # SQS takes a list of one without its number, too.
        return [params[name]] if field.kind is Kind.TEXTS and name in params else None
    if field.kind is Kind.TEXTS:
        return [part.get("", "") for part in parts]
    if field.kind is Kind.ENTRIES:
        return [given_in(field.entry, part) for part in parts]
    if field.kind is Kind.MAP:
        return {_name_of(part): part.get("Value", "") for part in parts}
    return {
        _name_of(part): {
            inner: part[f"Value.{inner}"]
            for inner in ("DataType", "StringValue", "BinaryValue")
            if f"Value.{inner}" in part
        }
        for part in parts
    }


def _name_of(part: Params) -> str:
    return part.get("Name", part.get("Key", ""))


def _number(field: Field, text: str | None) -> int | None:
    if text is None or text == "":
        return None
    if not _WHOLE.match(text):
        raise SqsError(NOT_READABLE, f"{field.name} is no whole number.")
    return int(text)


def _numbered(name: str, params: Params) -> list[Params]:
    """What stands under `name.1`, `name.2`, …: the rest of each name, by number."""
    found: dict[int, Params] = {}
    start = name + "."
    for key, value in params.items():
        if not key.startswith(start):
            continue
        number, _, rest = key[len(start) :].removeprefix("member.").partition(".")
        if number.isascii() and number.isdigit() and len(number) < 10:
            found.setdefault(int(number), {})[rest] = value
    return [found[number] for number in sorted(found)]


# -- answers --------------------------------------------------------------------------------------


def _members(output: Mapping[str, Any], entry: str) -> Iterator[str]:
    for name, value in output.items():
        if name in _MAPS and isinstance(value, dict):
            yield from _map(value, *_MAPS[name])
        elif isinstance(value, list):
            yield from _list(value, _LISTS.get(name, entry), entry)
        else:
            yield f"<{name}>{_text(value)}</{name}>"


def _list(values: Iterable[Any], tag: str, entry: str) -> Iterator[str]:
    for value in values:
        inner = "".join(_members(value, entry)) if isinstance(value, dict) else _text(value)
        yield f"<{tag}>{inner}</{tag}>"


def _map(values: Mapping[str, Any], tag: str, key: str, name: str) -> Iterator[str]:
    for one, value in values.items():
        inner = "".join(_members(value, "")) if isinstance(value, dict) else _text(value)
        yield f"<{tag}><{key}>{_text(one)}</{key}><{name}>{inner}</{name}></{tag}>"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    # What another client has sent may hold what no XML can.
    return escape(_NOT_XML.sub("\ufffd", str(value)), {"\r": "&#13;"})
