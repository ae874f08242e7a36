"""`docs/reference.md`: the public SDK, from its docstrings. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tools.documents.docstrings import Callable


def reference_page(
    sdk: Mapping[str, Sequence[Callable]], options: Mapping[str, Sequence[tuple[str, str, str]]]
) -> str:
    """One section for each public class and function, one for each `TypedDict` of options."""
    lines = [
        "# Reference of the Python client",
        "",
        "Generated from the docstrings by `make docs`; do not edit. How things work together is in "
        "[sdk.md](sdk.md), [queues.md](queues.md) and [spark.md](spark.md).",
        "",
        "`AsyncProducer` and `AsyncConsumer` have the same methods as `Producer` and `Consumer`, "
        "as coroutines. `Wanted` and `Credentials` are made with their attributes as arguments. "
        "`Delivered` is the old name of `RecordMetadata`, until 0.3. All errors are in "
        "[errors.md](errors.md).",
    ]
    for public, (top, *methods) in sdk.items():
        lines += ["", f"## {public}", "", *_shown(top, public.rpartition(".")[2])]
        for method in methods:
            lines += ["", f"### {top.name}.{method.name}", "", *_shown(method, method.name)]
    for name, rows in options.items():
        lines += ["", f"## {name}", "", "| option | type | meaning |", "|---|---|---|"]
        lines += [f"| `{o}` | `{_cell(kind)}` | {_cell(said)} |" for o, kind, said in rows]
    return "\n".join(lines) + "\n"


def _shown(one: Callable, name: str) -> Iterator[str]:
    if one.is_called:
        yield from ["```python", _signature(one, name), "```", ""]
    yield one.doc.text
    if one.attributes:
        yield from ["", "| attribute | type | meaning |", "|---|---|---|"]
        yield from (f"| `{a.name}` | {_code(a.kind)} | {_cell(a.said)} |" for a in one.attributes)
    if one.doc.args:
        yield from ["", "| argument | meaning |", "|---|---|"]
        yield from (f"| `{arg}` | {_cell(said)} |" for arg, said in one.doc.args.items())
    if one.doc.returns:
        yield from ["", f"**Returns** {_lower(one.doc.returns)}"]
    if one.doc.raises:
        yield from ["", "**Raises**", ""]
        yield from (f"- `{error}`: {_lower(said)}" for error, said in one.doc.raises.items())
    if one.doc.example:
        yield from ["", "```python", one.doc.example, "```"]


def _signature(one: Callable, name: str) -> str:
    after = f" -> {one.result}" if one.result else ""
    line = f"{name}({', '.join(one.parameters)}){after}"
    if len(line) <= 100:
        return line
    return "\n".join([f"{name}(", *(f"    {p}," for p in one.parameters), f"){after}"])


def _lower(text: str) -> str:
    """A sentence as the rest of another one; a name or code stays as it is."""
    return text if text[:1] == "`" or text[1:2].isupper() else text[0].lower() + text[1:]


def _code(kind: str) -> str:
    return f"`{_cell(kind)}`" if kind else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
