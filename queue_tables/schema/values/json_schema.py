"""A topic's `value_schema`: JSON Schema that the values of new records must satisfy. Pure."""

from __future__ import annotations

from typing import Any

import orjson

from lakequeue.errors import InvalidRequest, MissingDependency, TooLarge
from lakequeue.records import Format
from queue_tables.schema.values.json_cost import MOST_OF_RECORD, cost_of, evaluations

MOST_STEPS_BACK = 20_000
"""Of a pattern that looks around or refers back, on one text: some 3 ms. A text that needs more
does not satisfy it. Other patterns take time linear in the text, and never step back."""
_SHOWN_CHARS = 300


class ValueSchema:
    """Compiled; thread-safe.

    JSON values are judged as they are. Text that holds a JSON object or array is judged as that
    (Spark sends JSON as text); other text as a string or as the JSON that it holds: one of them has
    to satisfy the schema. Bytes never do. A record without a value is a tombstone, and is not
    judged.
    """

    def __init__(self, text: str) -> None:
        """Raises `InvalidRequest` if it is no JSON Schema, or refers to another document."""
        try:
            import jsonschema_rs
        except ModuleNotFoundError as e:
            raise MissingDependency(
                "topics with a value_schema need jsonschema-rs", hint="pip install jsonschema-rs"
            ) from e
        self._wrong = jsonschema_rs.ValidationError
        try:
            schema = orjson.loads(text)
            self._validator = jsonschema_rs.validator_for(
                schema,
                retriever=_refuse,
                pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=MOST_STEPS_BACK),
            )
        except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as e:
            raise InvalidRequest(
                f"value_schema is not a JSON Schema: {_short(e)}",
                hint="give a JSON Schema that stands by itself, as text",
                field="value_schema",
            ) from e
        self._cost = cost_of(schema)

    def evaluations(self, value: bytes | None) -> int:
        """How much it is to judge a value, at most. Raises `TooLarge` if it is too much."""
        if value is None:
            return 0
        found = evaluations(self._cost, value)
        if found > MOST_OF_RECORD:
            raise TooLarge(
                f"the value may take {found} evaluations of the topic's schema (up to {self._cost} "
                f"at each place), at most {MOST_OF_RECORD}",
                hint="send it as several records, or give the topic a schema with fewer "
                "alternatives and references",
                field="value",
            )
        return found

    def fault(self, value: bytes | None, fmt: int) -> str | None:
        """What is wrong with a value in its stored form; None: nothing."""
        if value is None:
            return None
        if fmt == Format.BYTES:
            return "it is bytes, and the schema is of JSON"
        if fmt == Format.JSON:
            return self._first(orjson.loads(value))
        try:
            fault = self._first(value.decode())
        except UnicodeDecodeError:
            return "it is text that is not UTF-8"
        try:
            held = orjson.loads(value)
        except orjson.JSONDecodeError:
            return fault
        if fault is None and not isinstance(held, dict | list):
            return None
        return self._first(held)

    def _first(self, value: Any) -> str | None:
        try:
            self._validator.validate(value)  # unlike iter_errors, it makes no more than one error
        except self._wrong as error:
            place = "/".join(map(str, error.instance_path))
            return f"{_short(error.message)}" + (f" (at {place[:100]})" if place else "")
        return None


def _refuse(uri: str) -> Any:
    # A schema must not make a node fetch what somebody names.
    raise ValueError(f"it refers to {uri}")


def _short(error: object) -> str:
    lines = str(error).splitlines() or [repr(error)]
    return lines[0] if len(lines[0]) <= _SHOWN_CHARS else lines[0][:_SHOWN_CHARS] + "…"
