"""Rooms of tests, and which of their files have what a lane is to run.

Marks are looked for in the text of the files: pytest takes two seconds to say of a folder that
nothing in it has a mark, and there are forty folders and two kinds of lanes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_TESTS = Path("tests")
_NO_ROOMS = {"unit", "support", "integration"}
_MARK = re.compile(r"\bmark\.(\w+)")
_OF_A_MODULE = re.compile(r"^pytestmark = (\[\n(?: .*\n)*\]|.*)$", re.MULTILINE)
_HELPER = "one_now("
"""Of `tests/support/kinds.py`: it marks as `faults` what it leaves out."""


@dataclass(frozen=True)
class Pick:
    """Tests that have all marks of `having`, and none of `lacking`."""

    having: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As pytest wants it."""
        return " and ".join([*self.having, *(f"not {mark}" for mark in self.lacking)])

    def __and__(self, other: Pick) -> Pick:
        """What both pick."""
        return Pick((*self.having, *other.having), (*self.lacking, *other.lacking))

    def may_be_in(self, file: Path) -> bool:
        """Whether a test of this file may be picked; True of a file that is not there."""
        text = file.read_text() if file.exists() else None
        if text is None:
            return True
        of_one = {*_MARK.findall(text), *(["faults"] if _HELPER in text else [])}
        of_all = _OF_A_MODULE.search(text)
        return of_one.issuperset(self.having) and (
            of_all is None or not {*_MARK.findall(of_all[1])}.intersection(self.lacking)
        )


def rooms() -> list[str]:
    """The folders with tests of real services."""
    found = [*_TESTS.iterdir(), *(_TESTS / "integration").iterdir()]
    return sorted(
        str(folder)
        for folder in found
        if folder.name not in _NO_ROOMS and any(folder.glob("test_*.py"))
    )


def folders(room: str) -> list[str]:
    """The folders of a room that have tests themselves, the room among them; or the file it is."""
    inside = [Path(room), *Path(room).rglob("*")]
    found = [str(one) for one in inside if one.is_dir() and any(one.glob("test_*.py"))]
    return sorted(found) or [room]


def picked(folder: str, pick: Pick) -> list[str]:
    """What to hand to pytest for a folder's own tests, not for those of folders inside it."""
    own = sorted(Path(folder).glob("test_*.py"))
    if not own:
        return [folder] if pick.may_be_in(Path(folder.partition("::")[0])) else []
    found = [file for file in own if pick.may_be_in(file)]
    alone = len(folders(folder)) == 1
    return [folder] if found == own and alone else [*map(str, found)]


def size(what: Iterable[str]) -> int:
    """Bytes of tests, as a measure of how long they take."""
    return sum(file.stat().st_size for one in what for file in files(Path(one)))


def files(room: Path) -> list[Path]:
    """All Python files of a folder; or the file itself, if it is one."""
    return list(room.rglob("*.py")) if room.is_dir() else [room] * room.exists()
