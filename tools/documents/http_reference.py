"""The page of all HTTP calls, from the OpenAPI documents that lie in `docs/openapi/`. Pure.

The documents are what the services answer at `/openapi.json`; `tests/integration` compares them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Document = Mapping[str, Any]

TITLES = {
    "ingest": "Topics and producing (port 8080)",
    "consumer": "Groups and consuming (port 8081)",
}


def http_page(documents: Mapping[str, Document]) -> str:
    """Every call of both services: parameters, bodies, answers."""
    shared = _shared(documents.values())
    lines = [
        "# HTTP reference",
        "",
        "Generated from the OpenAPI documents of the services by `make docs`; do not edit.",
        "",
        "A node answers with its own document at `/openapi.json`; both also lie in "
        "[openapi/](openapi/ingest.json). [http-ingest.md](http-ingest.md) and "
        "[http-consumer.md](http-consumer.md) explain the calls with examples. "
        "[errors.md](errors.md) lists the errors, [rights.md](rights.md) the right that each call "
        "needs.",
        "",
        "Any call may also be answered with one of these:",
        "",
        *_table(shared),
    ]
    for name, document in documents.items():
        lines += ["", f"## {TITLES[name]}"]
        for path, methods in document["paths"].items():
            for method, call in methods.items():
                lines += ["", *_call(method, path, call, shared)]
        lines += ["", f"### Bodies of {name}"]
        for kind, schema in sorted(document["components"]["schemas"].items()):
            if schema.get("properties"):
                lines += ["", *_schema(kind, schema, name)]
    return "\n".join(lines) + "\n"


def _call(
    method: str, path: str, call: Mapping[str, Any], shared: Mapping[str, Any]
) -> Iterator[str]:
    yield f"### `{method.upper()} {path}`"
    yield ""
    yield _plain(call.get("description") or call.get("summary") or "") + "."
    parameters = [p for p in call.get("parameters", []) if p["in"] != "header" or p.get("required")]
    if parameters:
        yield ""
        yield "| parameter | in | type | meaning |"
        yield "|---|---|---|---|"
        for one in parameters:
            yield (
                f"| `{one['name']}` | {one['in']} | {_type(one.get('schema', {}))} "
                f"| {_plain(one.get('description') or '–')} |"
            )
    content = call.get("requestBody", {}).get("content", {})
    if content:
        yield ""
        kinds = [f"`{kind}` {_type(one.get('schema', {}))}" for kind, one in content.items()]
        yield f"Body: {'; '.join(kinds)}"
    yield ""
    yield from _table({s: a for s, a in call["responses"].items() if s not in shared})


def _shared(documents: Iterable[Document]) -> dict[str, Any]:
    """The answers that all calls have in common."""
    calls = [
        call["responses"]
        for document in documents
        for methods in document["paths"].values()
        for call in methods.values()
    ]
    first, *others = calls
    return {s: a for s, a in first.items() if all(s in other for other in others)}


def _table(answers: Mapping[str, Any]) -> Iterator[str]:
    yield "| status | answer |"
    yield "|---|---|"
    for status, answer in sorted(answers.items()):
        kinds = [_type(one.get("schema", {})) for one in answer.get("content", {}).values()]
        said = [_plain(answer.get("description") or ""), *dict.fromkeys(kinds)]
        yield f"| {status} | {': '.join(word for word in said if word not in ('', '–'))} |"


def _schema(kind: str, schema: Mapping[str, Any], service: str) -> Iterator[str]:
    yield f'#### <a id="{service}-{kind.lower()}"></a>{kind}'
    if schema.get("description"):
        yield ""
        yield _plain(schema["description"])
    yield ""
    yield "| field | type | meaning |"
    yield "|---|---|---|"
    needed = set(schema.get("required", []))
    for name, field in schema["properties"].items():
        must = " (required)" if name in needed else ""
        yield f"| `{name}` | {_type(field)}{must} | {_plain(field.get('description') or '–')} |"


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return f"`{schema['$ref'].rsplit('/', 1)[1]}`"
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(_type(one) for one in schema[several]))
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    match schema.get("type"):
        case "array":
            return f"list of {_type(schema.get('items', {}))}"
        case "object" if isinstance(inner := schema.get("additionalProperties"), Mapping):
            return f"object of {_type(inner)}"
        case list() as kinds:
            return " or ".join(kinds)
        case None:
            return "–"
        case kind:
            return str(kind)


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").rstrip(".")
