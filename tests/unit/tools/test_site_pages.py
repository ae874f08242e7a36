"""The pages of docs/ as a site: links that fit it, and no page that is forgotten."""

from __future__ import annotations

import re

from tests.support.documents.blocks import REPOSITORY
from tools.documents.http_reference import http_page
from tools.documents.site_pages import moved


def test_links_are_those_of_the_site() -> None:
    for markdown, source, folder, expected in [
        ("[a](docs/sdk.md#x)", "README.md", "docs/", "[a](sdk.md#x)"),
        ("[a](../README.md)", "docs/sdk.md", "docs/", "a (`README.md`)"),
        ("[`deploy/`](../deploy/)", "docs/operations.md", "docs/", "`deploy`"),
        ("[all](decisions/README.md)", "docs/sdk.md", "docs/", "[all](decisions/README.md)"),
        ("[all](../decisions/)", "docs/protocols/x.md", "docs/protocols", None),
        ("![p](p.png) [x](#y) [z](https://a.b)", "docs/sdk.md", "docs/", None),
    ]:
        found = moved(markdown, source, folder)
        if expected is None:
            expected = markdown.replace("../decisions/", "../decisions/README.md")
        assert found == expected


def test_each_page_has_its_place_in_the_list_of_the_site() -> None:
    text = (REPOSITORY / "mkdocs.yml").read_text()
    listed = set(re.findall(r"^ +- (\S+\.md)$", text, re.MULTILINE)) - {"index.md"}
    there = {path.name for path in (REPOSITORY / "docs").glob("*.md")}
    assert listed - {"runbooks/README.md", "benchmarks/README.md"} == there


def test_the_page_of_calls_has_what_a_document_says() -> None:
    answer = {"description": "OK", "content": {"a": {"schema": {"$ref": "#/c/schemas/One"}}}}
    late = {"description": "Too late"}
    call = {
        "summary": "Do it",
        "parameters": [{"name": "wait", "in": "query", "schema": {"enum": ["a", "b"]}}],
        "responses": {"200": answer, "408": late},
    }
    other = {"summary": "Do more", "responses": {"201": answer, "408": late}}
    one = {"required": ["n"], "properties": {"n": {"type": "integer", "description": "a | b"}}}
    page = http_page(
        {
            "ingest": {
                "paths": {"/x": {"get": call, "put": other}},
                "components": {"schemas": {"One": one}},
            }
        }
    )
    assert page.count("Too late") == 1, "what all calls have in common is said once"
    for part in (
        "### `GET /x`\n\nDo it.",
        "| `wait` | query | `a`, `b` | – |",
        "| 200 | OK: `One` |",
        "| `n` | integer (required) | a \\| b |",
    ):
        assert part in page
