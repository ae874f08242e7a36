"""The records of one poll: a list that is acknowledged as one, and that is also a table."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from lakequeue.client.message import Message
from lakequeue.errors import InvalidRequest, MissingDependency
from lakequeue.wire import dumps_exactly


class Messages(list[Message]):
    """Records in the order of their delivery.

    Example:
        from lakequeue import Consumer

        with Consumer("orders", group="report") as consumer:
            batch = consumer.poll(timeout_s=5)
            print(batch.to_arrow().column("value"))
    """

    def ack(self) -> None:
        """Done with all of them: `Message.ack` of each, for less.

        Raises:
            SkippedRecords: Stream groups: a record of an earlier poll is not acknowledged, and one
                of its partition is among these. Acknowledge it first.
        """
        if self and self[0].is_settled_alone:
            for message in self:
                message.ack()
            return
        last = {message.place: message for message in self}
        first = {message.place: message for message in reversed(self)}
        for place, message in last.items():
            first[place].ack()
            message.ack(commit_through=True)

    def to_arrow(self, *, as_json: bool = False) -> Any:
        """The records as an Arrow table.

        Columns: `topic`, `partition`, `offset`, `key`, `value`, `headers` (a list of name and
        bytes), `timestamp` (microseconds, UTC), `message_id`, `attempt`. The types of `key` and
        `value` follow from the records: text, bytes, a struct, … A value of a `value_type` is a
        struct of its fields, as JSON has them.

        Args:
            as_json: `key` and `value` are JSON text, whatever they hold; bytes are base64 text in
                it. So the types are the same for every poll.

        Returns:
            A `pyarrow.Table` with a row for each record.

        Raises:
            InvalidRequest: Keys or values of different types do not fit into one column.
            MissingDependency: pyarrow is not installed.
        """
        arrow = _library("pyarrow")
        columns: dict[str, Any] = {
            name: arrow.array([getattr(message, name) for message in self], kind)
            for name, kind in (
                ("topic", arrow.string()),
                ("partition", arrow.int32()),
                ("offset", arrow.int64()),
            )
        }
        for name in ("key", "value"):
            columns[name] = self._column(arrow, name, as_json)
        header = arrow.struct([("name", arrow.string()), ("value", arrow.binary())])
        columns["headers"] = arrow.array(
            [[{"name": n, "value": v} for n, v in message.headers] for message in self],
            arrow.list_(header),
        )
        times = [message.timestamp for message in self]
        columns["timestamp"] = arrow.array(times, arrow.timestamp("us", tz="UTC"))
        columns["message_id"] = arrow.array([m.message_id for m in self], arrow.string())
        columns["attempt"] = arrow.array([m.attempt for m in self], arrow.int32())
        return arrow.table(columns)

    def to_pandas(self) -> Any:
        """The records as a pandas data frame, with the columns of `to_arrow`.

        `key`, `value` and `headers` hold Python objects, as `Message` gives them.

        Returns:
            A `pandas.DataFrame` with a row for each record.

        Raises:
            MissingDependency: pandas is not installed.
        """
        pandas = _library("pandas")
        plain = ("topic", "partition", "offset", "key", "value", "headers")
        columns: dict[str, Any] = {
            name: pandas.Series([getattr(m, name) for m in self], dtype=kind)
            for name, kind in zip(plain, ("object", "int32", "int64", *["object"] * 3), strict=True)
        }
        times = pandas.Series([m.timestamp for m in self], dtype="int64")
        columns["timestamp"] = times.astype("datetime64[us]").dt.tz_localize("UTC")
        columns["message_id"] = pandas.Series([m.message_id for m in self], dtype="object")
        columns["attempt"] = pandas.Series([m.attempt for m in self], dtype="int32")
        return pandas.DataFrame(columns)

    def _column(self, arrow: Any, name: str, as_json: bool) -> Any:
        if as_json:
            return arrow.array([_json(m.document(), name) for m in self], arrow.string())
        values = [message.fields() if name == "value" else message.key for message in self]
        try:
            return arrow.array(values)
        except (arrow.ArrowInvalid, arrow.ArrowTypeError, OverflowError) as e:
            raise InvalidRequest(
                f"the {name}s are of different types: {e}",
                hint="to_arrow(as_json=True), or to_pandas()",
                field=name,
            ) from e


def _json(document: dict[str, Any], name: str) -> str | None:
    encoded = document.get(f"{name}_base64")
    value = document.get(name) if encoded is None else encoded
    return None if value is None else dumps_exactly(value).decode()


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as e:
        raise MissingDependency(f"{name} is not installed", hint=f"pip install {name}") from e
