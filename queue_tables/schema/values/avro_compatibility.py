"""Whether records of one Avro schema can be read with another: schema resolution. Pure.

The rules are those of the Avro specification. Names of types count without their namespace.
"""

from __future__ import annotations

from queue_tables.schema.values.avro_cost import Node
from queue_tables.schema.values.avro_schema import AvroSchema

_PROMOTED = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
    ("string", "bytes"),
    ("bytes", "string"),
}
"""(written as, read as)"""


def unreadable(reader: AvroSchema, writer: AvroSchema) -> str | None:
    """Why a reader with one schema cannot read all that is written with the other; None: it can."""
    return _Resolution(reader, writer).fault(reader.root, writer.root, "")


class _Resolution:
    """Of one pair of schemas."""

    def __init__(self, reader: AvroSchema, writer: AvroSchema) -> None:
        self._reader = reader
        self._writer = writer
        self._assumed: set[tuple[str, str]] = set()
        """Types that are being compared, or were: a record may hold itself."""

    def fault(self, reads: Node, wrote: Node, place: str) -> str | None:
        reads, wrote = self._reader.resolved(reads), self._writer.resolved(wrote)
        if wrote.kind == "union":
            faults = (self.fault(reads, branch, place) for _, branch in wrote.parts)
            return next((one for one in faults if one is not None), None)
        if reads.kind == "union":
            if any(self.fault(branch, wrote, place) is None for _, branch in reads.parts):
                return None
            return _said(f"no branch of the union reads {_called(wrote)}", place)
        if reads.kind != wrote.kind:
            if (wrote.kind, reads.kind) in _PROMOTED:
                return None
            return _said(f"{_called(wrote)} cannot be read as {_called(reads)}", place)
        if reads.kind in {"array", "map"}:
            return self.fault(reads.parts[0][1], wrote.parts[0][1], f"{place}/*")
        if reads.kind in {"record", "enum", "fixed"}:
            return self._named(reads, wrote, place)
        return None

    def _named(self, reads: Node, wrote: Node, place: str) -> str | None:
        names = {_short(one) for one in (reads.name, *reads.aliases.get("", ()))}
        if _short(wrote.name) not in names:
            return _said(f"{_called(wrote)} cannot be read as {_called(reads)}", place)
        if reads.kind == "fixed":
            same = reads.size == wrote.size
            return None if same else _said(f"{wrote.size} bytes, not {reads.size}", place)
        if reads.kind == "enum":
            lost = sorted(set(wrote.symbols) - set(reads.symbols))
            if not lost or reads.defaults:
                return None
            return _said(f"the symbol {lost[0]} is gone, and there is no default", place)
        pair = (reads.name, wrote.name)
        if pair in self._assumed:
            return None
        self._assumed.add(pair)
        found = self._fields(reads, wrote, place)
        if found is not None:
            self._assumed.discard(pair)
        return found

    def _fields(self, reads: Node, wrote: Node, place: str) -> str | None:
        written = dict(wrote.parts)
        for name, part in reads.parts:
            here = f"{place}/{name}"
            known = next((n for n in (name, *reads.aliases.get(name, ())) if n in written), None)
            if known is not None:
                found = self.fault(part, written[known], here)
                if found is not None:
                    return found
            elif name not in reads.defaults:
                return _said("the field is not in the other schema, and has no default", here)
        return None


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _called(node: Node) -> str:
    return f"{node.kind} {node.name}".strip()


def _said(why: str, place: str) -> str:
    return f"{why} (at {place[1:][:100]})" if place else why
