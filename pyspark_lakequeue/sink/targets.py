"""Topics that a write goes to, as they were when it began. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from lakequeue.wire.calls.topics import ValuePolicy
from queue_tables.schema.values.rules import EarlierSchema, Values, values_of


@dataclass(frozen=True, slots=True)
class Target:
    """A topic that is written to."""

    topic_id: str
    partitions: int
    partitioner: str
    ttl_ms: int | None
    max_record_bytes: int | None
    value_schema: str | None = None
    value_schema_type: str | None = None
    earlier_schemas: tuple[EarlierSchema, ...] = ()
    policy: ValuePolicy = "reject"
    """What becomes of a value that is not of the schema."""
    dead_letters: str = ""
    """Name of the topic for them, which is a target as well."""

    @property
    def values(self) -> Values | None:
        """The rule for its values; None: any value is taken."""
        return values_of(self.value_schema, self.value_schema_type, self.earlier_schemas)
