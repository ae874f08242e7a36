"""Looking at records without a group: by offset, by time, by key."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from lakequeue.wire.limits import MAX_REQUEST_RECORDS, MAX_WHOLE
from lakequeue.wire.shapes import AnswerShape, RequestShape
from lakequeue.wire.times import TimeOnTheWire


class BrowseQuery(RequestShape):
    """Query parameters of `GET /v1/topics/{topic}/records`.

    Begins at `offset`, or at the first record whose timestamp is not before `time`, else at the
    first that still exists. With `key` only records with that key (its bytes as UTF-8) come, from
    the one partition that the topic's partitioner gives it, unless `partition` names another.
    """

    partition: int | None = Field(None, ge=0)
    offset: int | None = Field(None, ge=0, le=MAX_WHOLE)
    time: TimeOnTheWire | None = None
    """Microseconds since 1970 UTC, or RFC 3339 text with an offset."""
    key: str | None = None
    max: int = Field(100, ge=1, le=MAX_REQUEST_RECORDS)

    @model_validator(mode="after")
    def _goes_together(self) -> BrowseQuery:
        if self.offset is not None and self.time is not None:
            raise ValueError("give offset or time, not both")
        if self.partition is None and self.key is None:
            raise ValueError("give partition, or a key that determines it")
        return self


class BrowseAnswer(AnswerShape):
    """200: records in offset order. Go on at `next_offset` while it is below `end_offset`.

    One answer looks at a bounded number of records, so that with `key` it may have none although
    there are some further on.
    """

    partition: int
    records: list[dict[str, Any]]
    next_offset: int
    start_offset: int
    end_offset: int
