"""Docstrings in the Google form, taken apart; what is public of the SDK. Pure."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

SECTIONS = ("Args", "Returns", "Raises", "Example")
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Declared = ast.ClassDef | _Function
_NAMED = re.compile(r"(\*{0,2}\w+): (.*)")

SDK = {
    "lakequeue.Producer": ("lakequeue/client/producing/producer.py", "Producer"),
    "lakequeue.Consumer": ("lakequeue/client/consuming/consumer.py", "Consumer"),
    "lakequeue.Queue": ("lakequeue/client/queue.py", "Queue"),
    "lakequeue.Admin": ("lakequeue/client/admin/__init__.py", "Admin"),
    "lakequeue.redrive_async": ("lakequeue/client/redrive.py", "redrive_async"),
    "lakequeue.spark.session": ("pyspark_lakequeue/session/local_session.py", "session"),
    "lakequeue.spark.register": ("pyspark_lakequeue/session/registration.py", "register"),
    "lakequeue.spark.create_views": ("pyspark_lakequeue/session/views.py", "create_views"),
    "lakequeue.spark.offsets_behind_latest": (
        "pyspark_lakequeue/session/progress.py",
        "offsets_behind_latest",
    ),
    "lakequeue.spark.records": ("pyspark_lakequeue/session/records.py", "records"),
    "lakequeue.spark.DeltaSink": ("pyspark_lakequeue/session/delta_sink.py", "DeltaSink"),
    "lakequeue.duck.connect": ("lakequeue/duck.py", "connect"),
    "lakequeue.duck.refresh": ("lakequeue/duck.py", "refresh"),
    "lakequeue.testing.MemoryQueue": ("memory_queue/memory_queue.py", "MemoryQueue"),
}
"""Public name → where it is declared: what programs begin with."""
VALUES = {
    "lakequeue.Message": ("lakequeue/client/message.py", "Message"),
    "lakequeue.Messages": ("lakequeue/client/messages.py", "Messages"),
    "lakequeue.Record": ("lakequeue/client/record.py", "Record"),
    "lakequeue.RecordMetadata": ("lakequeue/client/producing/outgoing.py", "RecordMetadata"),
    "lakequeue.Lost": ("lakequeue/client/consuming/fetch_buffer.py", "Lost"),
    "lakequeue.Wanted": ("lakequeue/client/redriven.py", "Wanted"),
    "lakequeue.Redriven": ("lakequeue/client/redriven.py", "Redriven"),
    "lakequeue.DeadLetters": ("lakequeue/client/redriven.py", "DeadLetters"),
    "lakequeue.Credentials": ("lakequeue/calling/credentials.py", "Credentials"),
    "lakequeue.LakequeueError": ("lakequeue/errors/base.py", "LakequeueError"),
    "lakequeue.testing.Clock": ("memory_queue/clock.py", "Clock"),
}
"""The same of what calls take and give: these have attributes, and no constructor that is shown."""
INHERITED = {
    "lakequeue.Producer": (("lakequeue/client/producing/producer_base.py", "ProducerBase"),),
    "lakequeue.Consumer": (("lakequeue/client/consuming/consumer_base.py", "ConsumerBase"),),
    "lakequeue.Message": (("lakequeue/client/record.py", "Record"),),
    "lakequeue.Admin": (
        ("lakequeue/client/admin/topics.py", "TopicCalls"),
        ("lakequeue/client/admin/groups.py", "GroupCalls"),
        ("lakequeue/client/admin/records.py", "RecordCalls"),
        ("lakequeue/client/admin/calls.py", "ServiceCalls"),
    ),
}
"""Public name → the classes that it inherits public methods and attributes from."""
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
class Attribute:
    """What can be read of an object: a field or a property."""

    name: str
    kind: str
    said: str


@dataclass(frozen=True, slots=True)
class Callable:
    """A public class, function or method, as it is written."""

    name: str
    parameters: tuple[str, ...]
    """As in a signature, with types and defaults; without `self`."""
    result: str
    doc: Doc
    attributes: tuple[Attribute, ...] = ()
    """Of a class."""
    is_called: bool = True
    """False: a class that programs get, or make of its attributes."""

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


def public_of(*declared: tuple[str, str], is_value: bool = False) -> list[Callable]:
    """The class or function that is declared first, as (source, name), then its public methods.

    The others are the classes that it inherits from. Of what is a value no constructor is shown.
    """
    nodes = [_node(source, name) for source, name in declared]
    if isinstance(nodes[0], _Function):
        return [_callable(nodes[0], nodes[0])]
    methods = [n for node in nodes for n in node.body if isinstance(n, _Function)]
    read = {name: one for node in nodes[::-1] for name, one in _attributes(node)}
    top = Callable(nodes[0].name, (), "", doc_of(ast.get_docstring(nodes[0]) or ""))
    if not is_value:
        top = _callable(nodes[0], next(n for n in methods if n.name == "__init__"))
    own = {n.name: n for n in methods[::-1] if not n.name.startswith("_") and n.name not in read}
    return [
        replace(top, attributes=tuple(read.values()), is_called=not is_value),
        *(_callable(n, n) for n in reversed(own.values())),
    ]


def _attributes(node: _Declared) -> Iterator[tuple[str, Attribute]]:
    """Of a class: fields and what `__init__` sets, each with the text below it; properties."""
    for one, after in _with_next(node.body):
        if isinstance(one, ast.AnnAssign):
            yield from _field(one.target, one.annotation, after)
        elif isinstance(one, _Function) and one.name == "__init__":
            for line, below in _with_next(one.body):
                if isinstance(line, ast.Assign) and isinstance(below, ast.Expr):
                    kinds = {p.arg: p.annotation for p in (*one.args.args, *one.args.kwonlyargs)}
                    given = line.value.id if isinstance(line.value, ast.Name) else ""
                    yield from _field(line.targets[0], kinds.get(given), below)
                elif isinstance(line, ast.AnnAssign):
                    yield from _field(line.target, line.annotation, below)
        elif isinstance(one, _Function) and any(
            isinstance(d, ast.Name) and d.id == "property" for d in one.decorator_list
        ):
            said = " ".join((ast.get_docstring(one) or "").split())
            kind = "" if one.returns is None else ast.unparse(one.returns)
            if not one.name.startswith("_"):
                yield one.name, Attribute(one.name, kind, said)


def _with_next(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, ast.stmt | None]]:
    yield from zip(body, [*body[1:], None], strict=True)


def _field(
    target: ast.expr, kind: ast.expr | None, after: ast.stmt | None
) -> Iterator[tuple[str, Attribute]]:
    name = target.attr if isinstance(target, ast.Attribute) else ast.unparse(target)
    if name.startswith("_"):
        return
    said = ""
    if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
        said = " ".join(str(after.value.value).split())
    shown = "" if kind is None else re.sub(r"ClassVar\[(.*)\]", r"\1", ast.unparse(kind))
    yield name, Attribute(name, shown, said)


def _node(source: str, name: str) -> _Declared:
    (node,) = [n for n in ast.parse(source).body if getattr(n, "name", None) == name]
    assert isinstance(node, _Declared)
    return node


def _callable(documented: _Declared, node: _Function) -> Callable:
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
            ),
            is_value=public in VALUES,
        )
        for public, declared in (SDK | VALUES).items()
    }
