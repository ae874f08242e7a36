"""What holds for the entries of every batch. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqs_gateway.rules.errors import (
    EMPTY_BATCH,
    IDS_NOT_DISTINCT,
    INVALID_ENTRY_ID,
    TOO_MANY_ENTRIES,
    SqsError,
    missing,
)
from sqs_gateway.rules.operations import MAX_BATCH
from sqs_gateway.rules.shapes import Input

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,80}\Z")


def checked_entries(given: Input) -> list[Input]:
    """The entries of a batch. Raises `SqsError` for what is wrong with the batch as a whole."""
    entries: Sequence[Input] = given.get("Entries") or []
    if not entries:
        raise SqsError(EMPTY_BATCH, "There should be at least one entry in the request.")
    if len(entries) > MAX_BATCH:
        raise SqsError(
            TOO_MANY_ENTRIES,
            f"Maximum number of entries per request are {MAX_BATCH}. You have sent {len(entries)}.",
        )
    ids = [entry.get("Id") for entry in entries]
    for one in ids:
        if one is None:
            raise missing("Id")
        if not _ID.match(one):
            raise SqsError(
                INVALID_ENTRY_ID,
                "A batch entry id can only contain alphanumeric characters, hyphens and"
                " underscores. It can be at most 80 letters long.",
            )
    twice = next((one for one in ids if ids.count(one) > 1), None)
    if twice is not None:
        raise SqsError(IDS_NOT_DISTINCT, f"Id {twice} repeated.")
    return list(entries)


@dataclass(slots=True)
class Outcomes:
    """What became of each entry."""

    done: list[dict[str, Any]] = field(default_factory=list)
    failed: list[dict[str, Any]] = field(default_factory=list)

    def failed_by(self, entry_id: str, error: SqsError) -> None:
        """This entry failed, and the others may not have."""
        self.failed.append(
            {
                "Id": entry_id,
                "Code": error.code.query,
                "Message": error.message,
                "SenderFault": error.code.sender,
            }
        )

    def each(self, entries: Sequence[Input], judge: Callable[[Input], Any]) -> dict[str, Any]:
        """What `judge` makes of each entry, by its id; an entry that it refuses is failed."""
        found: dict[str, Any] = {}
        for entry in entries:
            try:
                found[entry["Id"]] = judge(entry)
            except SqsError as error:
                self.failed_by(entry["Id"], error)
        return found

    def answer(self) -> dict[str, Any]:
        """As both protocols answer: a list that is empty is not there."""
        return {
            name: some
            for name, some in (("Successful", self.done), ("Failed", self.failed))
            if some
        }
