"""The commands that pages show are commands: their names, options and arguments exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from lakequeue_cli.app import app
from tests.support.documents.blocks import REPOSITORY, SHELLS, blocks_of, commands

ROOTS = (REPOSITORY, REPOSITORY / "deploy", REPOSITORY / "bench")
DOCUMENTS = [
    *(page for folder in ROOTS for page in sorted(folder.glob("*.md"))),
    *sorted((REPOSITORY / "docs").rglob("*.md")),
    *sorted((REPOSITORY / "examples").rglob("*.md")),
]
_CALL = re.compile(r"^(?:\$ )?(?:\.venv/bin/)?lakequeue (?=\S)")
_INLINE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_ENDS_COMMAND = {"|", "||", "&&", ";", "&", ">", ">>", "<", "#"}
_LEFT_OUT = "…"
_PROSE = ("lakequeue is ready", "lakequeue does not support")
"""What programs print, and no command."""
PROGRAM: Any = typer.main.get_command(app)


def leaves(command: Any = PROGRAM, path: str = "") -> Iterator[str]:
    """Each command as it is written: `auth key create`."""
    for name, part in getattr(command, "commands", {}).items():
        if not part.hidden:
            yield from leaves(part, f"{path} {name}".strip())
    if not hasattr(command, "commands"):
        yield path


def fault(line: str, *, whole: bool = True) -> str | None:
    """What the program would say against `lakequeue LINE`.

    Names alone (`group seek`) speak of a command. With an option or an argument it is one to run,
    and has to be `whole`; where `…` leaves something out, only names are judged.
    """
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    words = []
    for word in lexer:
        if word in _ENDS_COMMAND:
            break
        words.append(word)
    command = PROGRAM
    while words and hasattr(command, "commands") and not words[0].startswith("-"):
        name = words.pop(0)
        if name.isupper() or _LEFT_OUT in name:
            return None
        if name not in command.commands:
            return f"no command {name!r}"
        command = command.commands[name]
    if not words or line.startswith("job run"):
        return None  # a job reads its options by itself
    if hasattr(command, "commands") or _LEFT_OUT in line or not whole:
        known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
        unknown = {word for word in words if word.startswith("--")} - known - {"--help"}
        return f"no option {sorted(unknown)}" if unknown else None
    try:
        command.make_context(command.name, words)
    except Exception as error:  # noqa: BLE001 (whatever it says is what the reader would see)
        said = error.format_message() if hasattr(error, "format_message") else str(error)
        # The reader has the file; `--help` ends without an error.
        return None if not said or "does not exist" in said or error.args == (0,) else said
    return None


def shown(page: Path) -> Iterator[str]:
    """What follows `lakequeue` in the code of a page, in blocks and within lines."""
    for block in blocks_of(page):
        if block.language == "console":
            lines = [command for command, _ in commands(block)]
        elif block.language in {*SHELLS, "text"}:
            lines = block.text.replace("\\\n", " ").splitlines()
        else:
            lines = []
        yield from (_CALL.sub("", line) for line in lines if _CALL.match(line))
    for span in _INLINE.findall(_FENCED.sub("", page.read_text())):
        flat = " ".join(span.replace("\\|", "|").split())
        if _CALL.match(flat) and not flat.startswith(_PROSE):
            yield _CALL.sub("", flat)


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_the_commands_of_a_page_can_be_run(page: Path) -> None:
    # What was new is named there, not shown.
    whole = page.name != "CHANGELOG.md"
    assert {line: said for line in shown(page) if (said := fault(line, whole=whole))} == {}


@pytest.mark.parametrize("command", list(leaves()))
def test_every_command_is_on_its_page(command: str) -> None:
    named = re.findall(r"`([a-z -]+)", (REPOSITORY / "docs" / "cli.md").read_text())
    assert any(f"{name} ".startswith(f"{command} ") for name in named)


def test_rows_of_the_page_are_commands() -> None:
    page = (REPOSITORY / "docs" / "cli.md").read_text()
    cells = re.findall(r"^\| (`.*?`) \|", page, re.MULTILINE)
    lines = [line for cell in cells for line in _INLINE.findall(cell)]
    lines = [line for line in lines if line.partition(" ")[0] in PROGRAM.commands]
    assert len(lines) > 40
    assert {line: said for line in lines if (said := fault(line))} == {}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("redrive", "no command 'redrive'"),
        ("group lag billing --watch", "requires an argument"),
        ("group pause -t orders", "Missing"),
        ("auth grant corp/ada read topic '*'", "unexpected extra"),
        ("doctor --lode", "No such option"),
    ],
)
def test_a_command_that_cannot_be_run_is_found(line: str, said: str) -> None:
    found = fault(line)
    assert found is not None
    assert said in found
