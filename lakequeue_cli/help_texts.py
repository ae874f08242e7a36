"""Help of commands as paragraphs: what prints it breaks lines, by the terminal's width. Pure."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import typer


def paragraphs(text: str) -> str:
    """The text with each paragraph in one line; lines of a list stay lines."""
    return "\n\n".join(map(_one_line, text.split("\n\n")))


def _one_line(paragraph: str) -> str:
    lines = [line.strip() for line in paragraph.splitlines()]
    return ("\n" if any(line.startswith("- ") for line in lines) else " ").join(lines)


def unwrap(app: typer.Typer) -> None:
    """Let the help of every command of `app`, and of those below it, be paragraphs.

    A docstring is wrapped for its source: in a narrower terminal each of its lines would be broken
    once more, and end in a line of two words.
    """
    for command in app.registered_commands:
        callback: Callable[..., object] | None = command.callback
        doc = command.help or (inspect.getdoc(callback) if callback is not None else None)
        command.help = None if doc is None else paragraphs(doc)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            unwrap(group.typer_instance)
