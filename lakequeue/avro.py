"""Values in Avro: `pip install 'lakequeue[avro]'`."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from lakequeue.errors import InvalidRequest, MissingDependency
from lakequeue.extras import pip_install

SINGLE_OBJECT: Final = b"\xc3\x01"
_HEAD = len(SINGLE_OBJECT) + 8


class Avro:
    """One schema, to encode values by it and to decode them.

    Values are in Avro's single-object encoding: each says by a fingerprint which schema it is of.
    So a consumer reads records that were sent before the schema was changed.

    Args:
        schema: The schema as JSON text, or as what that holds. Values are encoded with it, and
            decoded to it.
        earlier: Schemas that records may be of, beside that one.

    Raises:
        MissingDependency: fastavro is not installed.
        InvalidRequest: A schema is none.

    Example:
        from lakequeue import Producer
        from lakequeue.avro import Avro

        fields = [{"name": "id", "type": "long"}]
        order = Avro({"type": "record", "name": "Order", "fields": fields})

        with Producer() as producer:
            producer.send("orders", order.encode({"id": 17}), key="customer-7")
    """

    def __init__(
        self,
        schema: str | Mapping[str, Any] | list[Any],
        earlier: Iterable[str | Mapping[str, Any] | list[Any]] = (),
    ) -> None:
        try:
            import fastavro
            import fastavro.schema
        except ModuleNotFoundError as e:
            raise MissingDependency(
                "lakequeue.avro needs fastavro", hint=pip_install("avro")
            ) from e
        self._fastavro = fastavro
        self._schema, self.fingerprint = self._parsed(schema)
        self._known = {mark: one for one, mark in map(self._parsed, earlier)}
        self._known[self.fingerprint] = self._schema

    def _parsed(self, schema: str | Mapping[str, Any] | list[Any]) -> tuple[Any, bytes]:
        try:
            raw: Any = json.loads(schema) if isinstance(schema, str) else schema
            parsed = self._fastavro.parse_schema(raw)
        except Exception as e:
            raise InvalidRequest(
                f"this is no Avro schema: {e}", hint="give the schema as JSON", field="schema"
            ) from e
        plain = self._fastavro.schema.to_parsing_canonical_form(parsed)
        mark = self._fastavro.schema.fingerprint(plain, "CRC-64-AVRO")
        return parsed, bytes.fromhex(mark)

    def encode(self, value: Any) -> bytes:
        """A value as the bytes to send.

        Args:
            value: What the schema describes: a dictionary for a record, and so on.

        Returns:
            The value in the single-object encoding.

        Raises:
            InvalidRequest: The value does not fit the schema.
        """
        out = io.BytesIO()
        out.write(SINGLE_OBJECT + self.fingerprint)
        try:
            self._fastavro.schemaless_writer(out, self._schema, value)
        except Exception as e:
            raise InvalidRequest(
                f"the value does not fit the schema: {type(e).__name__} {e}",
                hint="compare it with the schema",
                field="value",
            ) from e
        return out.getvalue()

    def decode(self, data: bytes) -> Any:
        """The value that a record holds, as the schema has it.

        Args:
            data: `message.value`. Without a fingerprint it is taken to be of the schema.

        Returns:
            The value. Fields that were added since it was sent have their defaults.

        Raises:
            InvalidRequest: It is of a schema that is not known here, or no value of it.
        """
        writer, body = self._schema, data
        if data[: len(SINGLE_OBJECT)] == SINGLE_OBJECT and len(data) >= _HEAD:
            mark = data[len(SINGLE_OBJECT) : _HEAD]
            if mark not in self._known:
                raise InvalidRequest(
                    f"the value is of an unknown schema, with the fingerprint {mark.hex()}",
                    hint="give that schema among `earlier`; the table `topics` has all of a topic",
                    field="value",
                )
            writer, body = self._known[mark], data[_HEAD:]
        try:
            return self._fastavro.schemaless_reader(io.BytesIO(body), writer, self._schema)
        except Exception as e:
            raise InvalidRequest(
                f"the value is none of the schema: {type(e).__name__} {e}",
                hint="message.value has the bytes",
                field="value",
            ) from e
