"""The options of a client in `help()`, each with its meaning and default.

Options are declared once, in a `TypedDict`, each with a text below it, which Python does not keep.
So the text is read from the source.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from functools import cache
from typing import TypeVar

C = TypeVar("C")
_IN = "    "


def options_of(source: str, name: str) -> list[tuple[str, str, str]]:
    """(option, type, what it means) of a `TypedDict` in a module's source. Pure."""
    (node,) = [n for n in ast.parse(source).body if isinstance(n, ast.ClassDef) and n.name == name]
    found = []
    for one, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            said = ""
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                said = " ".join(str(after.value.value).split())
            found.append((one.target.id, ast.unparse(one.annotation), said))
    return found


def options_in_help(options: type) -> Callable[[C], C]:
    """Have `help()` of a class or a function list the options that it takes."""

    def decorate(taker: C) -> C:
        text = inspect.cleandoc(taker.__doc__ or "")
        taker.__doc__ = f"{text}\n\nOptions:\n{_lines(options)}".lstrip()
        return taker

    return decorate


@cache
def _lines(options: type) -> str:
    try:
        source = inspect.getsource(options)
    except OSError:
        return f"    See `{options.__name__}`."  # installed without its source
    return "\n".join(
        textwrap.fill(f"{name} ({kind}): {said}", 92, initial_indent=_IN, subsequent_indent=2 * _IN)
        for name, kind, said in options_of(source, options.__name__)
    )
