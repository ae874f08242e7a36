"""Docstrings in the Google form, taken apart; what is public of the SDK. Pure."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

SECTIONS = ("Args", "Returns", "Raises", "Example")
_NAMED = re.compile(r"(\*{0,2}\w+): (.*)")

SDK = {
    "lakequeue.Producer": ("lakequeue/client/producing/producer.py", "Producer"),
    "lakequeue.Consumer": ("lakequeue/client/consuming/consumer.py", "Consumer"),
    "lakequeue.Queue": ("lakequeue/client/queue.py", "Queue"),
    "lakequeue.Admin": ("lakequeue/client/admin/__init__.py", "Admin"),
    "lakequeue.spark.register": ("pyspark_lakequeue/session/registration.py", "register"),
    "lakequeue.spark.create_views": ("pyspark_lakequeue/session/views.py", "create_views"),
    "lakequeue.spark.offsets_behind_latest": (
        "pyspark_lakequeue/session/progress.py",
        "offsets_behind_latest",
    ),
    "lakequeue.spark.records": ("pyspark_lakequeue/session/records.py", "records"),
    "lakequeue.spark.DeltaSink": ("pyspark_lakequeue/session/delta_sink.py", "DeltaSink"),
}
"""Public name → where it is declared."""
INHERITED = {
    "lakequeue.Admin": (
        ("lakequeue/client/admin/topics.py", "TopicCalls"),
        ("lakequeue/client/admin/groups.py", "GroupCalls"),
        ("lakequeue/client/admin/records.py", "RecordCalls"),
        ("lakequeue/client/admin/calls.py", "ServiceCalls"),
    )
}
"""Public name → the classes that it inherits public methods from."""
OPTIONS = {
    "ProducerOptions": "lakequeue/client/producing/producer_base.py",
    "RecordOptions": "lakequeue/client/producing/record_options.py",
    "ConsumerOptions": "lakequeue/client/consuming/consumer_base.py",
}


@dataclass(slots=True)
class Doc:
    """A docstring by its sections."""

    text: str
    args: dict[str, str] = field(default_factory=dict)
    returns: str = ""
    raises: dict[str, str] = field(default_factory=dict)
    example: str = ""


@dataclass(frozen=True, slots=True)
class Callable:
    """A public class, function or method, as it is written."""

    name: str
    parameters: tuple[str, ...]
    """As in a signature, with types and defaults; without `self`."""
    result: str
    doc: Doc

    @property
    def argument_names(self) -> list[str]:
        """Names as sections name them: `*topics`, `**options`."""
        return [re.split(r"[:=]", p)[0].strip() for p in self.parameters if p != "*"]


def doc_of(text: str) -> Doc:
    """The sections of a docstring."""
    parts = re.split(rf"^({'|'.join(SECTIONS)}):$", inspect.cleandoc(text), flags=re.MULTILINE)
    said = {
        name: inspect.cleandoc(body) for name, body in zip(parts[1::2], parts[2::2], strict=True)
    }
    return Doc(
        parts[0].strip(),
        dict(_named(said.get("Args", ""))),
        " ".join(said.get("Returns", "").split()),
        dict(_named(said.get("Raises", ""))),
        said.get("Example", ""),
    )


def _named(body: str) -> Iterator[tuple[str, str]]:
    """`name: what it is`, each over one line or several that are indented."""
    for item in re.split(r"\n(?! )", body):
        if match := _NAMED.fullmatch(" ".join(item.split())):
            yield match.group(1), match.group(2)


def public_of(*declared: tuple[str, str]) -> list[Callable]:
    """The class or function that is declared first, as (source, name), then its public methods.

    The others are the classes that it inherits from.
    """
    nodes = [_node(source, name) for source, name in declared]
    if isinstance(nodes[0], ast.FunctionDef):
        return [_callable(nodes[0], nodes[0])]
    methods = [n for node in nodes for n in node.body if isinstance(n, ast.FunctionDef)]
    init = next(n for n in methods if n.name == "__init__")
    found = [_callable(nodes[0], init)]
    return found + [_callable(n, n) for n in methods if not n.name.startswith("_")]


def _node(source: str, name: str) -> ast.ClassDef | ast.FunctionDef:
    (node,) = [n for n in ast.parse(source).body if getattr(n, "name", None) == name]
    assert isinstance(node, ast.ClassDef | ast.FunctionDef)
    return node


def _callable(documented: ast.ClassDef | ast.FunctionDef, node: ast.FunctionDef) -> Callable:
    given = node.args
    plain = [p for p in (*given.posonlyargs, *given.args) if p.arg not in {"self", "cls"}]
    defaults: list[ast.expr | None] = [None] * len(plain)
    if given.defaults:
        defaults[-len(given.defaults) :] = given.defaults
    shown = [_parameter(p, d) for p, d in zip(plain, defaults, strict=True)]
    if given.vararg:
        shown.append(f"*{given.vararg.arg}")
    elif given.kwonlyargs:
        shown.append("*")
    shown += [_parameter(p, d) for p, d in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    if given.kwarg:
        shown.append(f"**{given.kwarg.arg}")
    result = "" if node.returns is None or documented is not node else ast.unparse(node.returns)
    doc = doc_of(ast.get_docstring(documented) or "")
    return Callable(documented.name, tuple(shown), "" if result == "None" else result, doc)


def _parameter(parameter: ast.arg, default: ast.expr | None) -> str:
    kind = "" if parameter.annotation is None else f": {ast.unparse(parameter.annotation)}"
    return f"{parameter.arg}{kind}" + ("" if default is None else f" = {ast.unparse(default)}")


def sdk(project: Path) -> dict[str, list[Callable]]:
    """Public name → the class or function, then its methods."""
    return {
        public: public_of(
            *(
                ((project / path).read_text(), name)
                for path, name in (declared, *INHERITED.get(public, ()))
            )
        )
        for public, declared in SDK.items()
    }
