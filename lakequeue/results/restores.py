"""`RESTORE` in the history of a result table: which, and to what. Pure.

Delta Lake keeps the `txn`s and the history of a table that it restores, so a mark alone may speak
of rows that are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from lakequeue.errors import InvalidRequest

UNTOLD: Final = -1
"""A RESTORE to a time: the history tells that, in whatever zone, and not the version."""


class Restore(NamedTuple):
    """A commit that put the files of an earlier version back."""

    version: int
    to: int
    """The version that it went back to, or `UNTOLD`."""


def restored_to(parameters: Mapping[str, str | int | None]) -> int:
    """The version, of the `operationParameters` of a RESTORE."""
    version = parameters.get("version")
    return UNTOLD if version is None else int(version)


def untold(version: int) -> InvalidRequest:
    """For a RESTORE at `version` whose `to` is `UNTOLD`."""
    return InvalidRequest(
        f"version {version} restored the result table to a time, and to which version is not told",
        hint="DESCRIBE HISTORY shows which was the newest then: restore it again, to that version "
        "(TO VERSION AS OF), and start again",
    )


def undone_by(restores: Iterable[Restore], base: int, version: int) -> Restore | None:
    """The newest that undid, by `version`, what was committed from version `base` of the table."""
    later = [r for r in restores if base < r.version <= version]
    return max(later, default=None)


class Restores:
    """Those of one table, as far as they were asked for: each version is read once."""

    def __init__(self) -> None:
        self._known: tuple[int, int] | None = None
        """Above the one version, up to the other."""
        self._found: tuple[Restore, ...] = ()

    def since(
        self, base: int, version: int, read: Callable[[int, int], tuple[Restore, ...]]
    ) -> tuple[Restore, ...]:
        """Those above `base`, up to `version`, and maybe older ones; `read` has bounds alike."""
        begin, upto = self._known or (base, base)
        if base < begin:
            begin, upto, self._found = base, base, ()
        if version > upto:
            self._found += read(upto, version)
            self._known = (begin, version)
        return self._found
