"""The code blocks of a document, and the reasons for which one may not be run. Pure.

A block that the tests do not run has a comment above it, which GitHub does not show:

    <!-- not run: docker -->            one of `REASONS`
    <!-- run by tests/….py -->          another test runs it
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parents[3]
REASONS: Final = {
    "starts a queue": "the queue of the test runs already",
    "docker": "needs a container engine",
    "databricks": "needs a workspace",
    "cluster": "needs several machines",
    "old queue": "needs a queue that has been there for hours",
    "spark": "needs Spark, which the queue of the test has not",
}
"""Why a block is not run. A new reason is a decision: there are six."""
SHELLS: Final = ("bash", "sh", "console")
SHOWN: Final = ("text", "mermaid")
"""What is to be looked at, and is no code."""
_FENCE = re.compile(
    r"^(?:<!-- (?P<comment>[^>]*) -->\n+)?^```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Block:
    """One block of a document."""

    page: str
    """Relative to the repository."""
    line: int
    language: str
    text: str
    reason: str | None = None
    """Why it is not run: one of `REASONS`."""
    run_by: str | None = None
    """The test that runs it instead."""

    @property
    def is_run(self) -> bool:
        """Whether the runner of the documents runs it."""
        return self.reason is None and self.run_by is None and self.language not in SHOWN

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    """Every fenced block of `page` that names a language."""
    text = page.read_text()
    found = []
    for fence in _FENCE.finditer(text):
        comment = fence["comment"] or ""
        found.append(
            Block(
                str(page.relative_to(REPOSITORY)),
                text.count("\n", 0, fence.start("language")) + 1,
                fence["language"],
                fence["text"],
                comment.removeprefix("not run: ") if comment.startswith("not run: ") else None,
                comment.removeprefix("run by ") if comment.startswith("run by ") else None,
            )
        )
    return found


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """The commands of a console block, each with what it is shown to print."""
    lines = iter(block.text.splitlines())
    command, shown = "", ""
    for line in lines:
        if not line.startswith("$ "):
            shown += line + "\n"
            continue
        if command:
            yield command, shown
        command, shown = line[2:], ""
        while not _complete(command):
            command += "\n" + next(lines)
    if command:
        yield command, shown


def _complete(command: str) -> bool:
    """Whether a shell would run this, or ask for another line."""
    if command.endswith("\\"):
        return False
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return False
    return True


def uneven_tables(page: Path) -> list[str]:
    """Rows of tables that have another number of cells than the head: GitHub breaks these."""
    found, width, fenced = [], 0, False
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        fenced ^= line.startswith("```")
        if fenced or not line.startswith("|"):
            width = 0
            continue
        cells = len(re.findall(r"(?<!\\)\|", line))
        width = width or cells
        if cells != width:
            found.append(f"{page.name}:{number}: {line[:60]}")
    return found
