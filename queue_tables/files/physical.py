"""What a Parquet file holds physically, as the columns that are declared. Pure.

The queue writes its files exactly as declared. Other engines write the same rows otherwise: times
in nanoseconds or as INT96, strings as views or dictionaries, columns in another order, columns of
their own, or none for a column that came later. Whatever reads a data file passes it through here,
so that nothing else has to know. For the queue's own files this costs one comparison.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakequeue.errors import CorruptTable
from queue_tables.delta.columns import Table
from queue_tables.schema.schemas import TABLES

OPENED_WITH: dict[str, Any] = {
    "page_checksum_verification": True,
    # As nanoseconds, years before 1678 and after 2262 would be read as others, silently.
    "coerce_int96_timestamp_unit": "us",
}
"""How every data file is opened."""


def declared_at(table_path: str) -> Table | None:
    """The declaration of the table at a path (`log`, `inbox/<shard>`); None: not one of ours."""
    return TABLES.get(table_path.partition("/")[0])


def schema_of(table: Table, columns: Sequence[str] | None = None) -> pa.Schema:
    """The schema of these columns of the table's files; of all that are declared, if None."""
    return _schema(table.name, None if columns is None else tuple(columns))


@functools.lru_cache(maxsize=256)
def _schema(name: str, columns: tuple[str, ...] | None) -> pa.Schema:
    whole = TABLES[name].file_arrow
    return whole if columns is None else pa.schema([whole.field(n) for n in columns])


def as_declared(rows: pa.Table, schema: pa.Schema, path: str) -> pa.Table:
    """`rows`, read from the file at `path`, as a table of exactly `schema`.

    A column that the file does not have is null; columns that are not in `schema` are left out.
    Raises `CorruptTable`, with file and column, for a value that the declared type cannot hold.
    """
    if rows.schema.equals(schema):
        return rows
    have = set(rows.column_names)
    columns = []
    for field in schema:
        if field.name not in have:
            columns.append(pa.nulls(rows.num_rows, field.type))
            continue
        found = rows.column(field.name)
        try:
            columns.append(_column(found, field.type))
        except pa.ArrowException as error:
            raise CorruptTable(
                f"data file {path}: column {field.name} holds {found.type}, which cannot be read"
                f" as {field.type}: {error}",
                hint="another engine wrote the file: lakequeue repair, or RESTORE the table to"
                " the version before",
            ) from error
    return pa.table(columns, schema=schema)


def _column(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if column.type == wanted:
        return column
    return pa.chunked_array([_array(chunk, wanted) for chunk in column.chunks], wanted)


def _array(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    found = array.type
    if found == wanted:
        return array
    if pa.types.is_dictionary(found):
        return _array(array.dictionary_decode(), wanted)
    if pa.types.is_null(found):
        return pa.nulls(len(array), wanted)
    if pa.types.is_list(wanted):
        return _list(array, wanted)
    if pa.types.is_struct(wanted):
        return _struct(array, wanted)
    if pa.types.is_timestamp(wanted):
        return _time(array, wanted)
    if not _alike(found, wanted):
        raise pa.ArrowTypeError("it is of another kind")
    return array.cast(wanted)  # lossless, or an error


def _alike(found: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_integer(wanted):
        return bool(pa.types.is_integer(found) or pa.types.is_decimal(found))
    if pa.types.is_boolean(wanted):
        return False
    # Text and bytes: text that is not UTF-8 is refused by the cast.
    return any(kind(found) for kind in _BYTES)


_BYTES = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)


def _time(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Microseconds of UTC. A time without a zone is UTC, as INT96 is; parts of one are cut off."""
    if not pa.types.is_timestamp(array.type):
        raise pa.ArrowTypeError("it is not a time")
    naive = array.cast(pa.timestamp(array.type.unit))  # the instant is kept: both count from UTC
    if array.type.unit == "ns":
        naive = pc.floor_temporal(naive, unit="microsecond")
    return naive.cast(pa.timestamp(wanted.unit)).cast(wanted)


def _list(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if any(kind(array.type) for kind in (pa.types.is_list_view, pa.types.is_large_list_view)):
        array = array.cast(pa.large_list(array.type.value_type))
    elif not any(kind(array.type) for kind in kinds):
        raise pa.ArrowTypeError("it is not a list")
    flat = _array(array.flatten(), wanted.value_type)
    lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
    return pa.ListArray.from_arrays(offsets, flat, type=wanted, mask=array.is_null())


def _struct(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if not pa.types.is_struct(array.type):
        raise pa.ArrowTypeError("it is not a struct")
    names = [array.type.field(i).name for i in range(array.type.num_fields)]
    parts = [
        # `field` of a struct leaves out the nulls of the struct itself, which the mask has.
        _array(array.field(names.index(field.name)), field.type)
        if field.name in names
        else pa.nulls(len(array), field.type)
        for field in wanted
    ]
    return pa.StructArray.from_arrays(parts, fields=list(wanted), mask=array.is_null())
