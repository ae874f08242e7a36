"""Whether values of one Protobuf message can be read with another. Pure.

Fields are the same if their numbers are. A field may be added or removed. What is read must be
what was written: `int32` may become `int64`, and not the other way round, though the bytes could be
read.
"""

from __future__ import annotations

from typing import Final

from queue_tables.schema.values.protobuf_schema import Field, Message, ProtobufSchema

_GROWN: Final = {
    ("bool", "int32"),
    ("bool", "int64"),
    ("bool", "uint32"),
    ("bool", "uint64"),
    ("enum", "int32"),
    ("enum", "int64"),
    ("int32", "int64"),
    ("sint32", "sint64"),
    ("string", "bytes"),
    ("uint32", "int64"),
    ("uint32", "uint64"),
}
"""(written as, read as)"""


def unreadable(reader: ProtobufSchema, writer: ProtobufSchema) -> str | None:
    """Why a reader with one schema cannot read all that is written with the other; None: it can."""
    todo = [(reader.root, writer.root, "")]
    compared = set()
    while todo:
        reads, wrote, place = todo.pop()
        if (reads.name, wrote.name) in compared:
            continue
        compared.add((reads.name, wrote.name))
        for number, field in sorted(reads.fields.items()):
            here = f"{place}/{field.name}"
            written = wrote.fields.get(number)
            found = _fault(field, written)
            if found is not None:
                return f"{found} (at {here[1:][:100]})"
            if written is not None and field.kind in {"message", "group"}:
                pair = (reader.messages[field.of], writer.messages[written.of])
                if pair[0].is_entry != pair[1].is_entry:
                    return f"a map is not a list of messages (at {here[1:][:100]})"
                todo.append((*pair, here))
        found = _apart(reads, wrote)
        if found is not None:
            return f"{found} (at {place[1:][:100]})" if place else found
    return None


def _fault(reads: Field, wrote: Field | None) -> str | None:
    if reads.required and (wrote is None or not wrote.required):
        return "the field is required, and is not in the other schema"
    if wrote is None:
        return None
    if wrote.repeated and not reads.repeated:
        return "the field was repeated"
    if reads.kind != wrote.kind:
        grown = (wrote.kind, reads.kind) in _GROWN
        return None if grown else f"{wrote.kind} cannot be read as {reads.kind}"
    if reads.numbers is not None and reads.kind == "enum":
        lost = [name for name, number in wrote.symbols if number not in reads.numbers]
        if lost:
            return f"{lost[0]} is gone from {reads.of}"
        if wrote.numbers is None:
            return f"{reads.of} is closed, and was open"
    return None


def _apart(reads: Message, wrote: Message) -> str | None:
    """Fields of one `oneof` that were not: only the last of them would be read."""
    seen: dict[str, Field] = {}
    for number, field in sorted(reads.fields.items()):
        written = wrote.fields.get(number)
        if field.one_of is None or written is None:
            continue
        other = seen.setdefault(field.one_of, written)
        if other is not written and (written.one_of is None or other.one_of != written.one_of):
            return f"{other.name} and {written.name} were not in one oneof"
    return None
