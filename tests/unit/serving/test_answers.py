"""Answers that are the same at each call."""

from __future__ import annotations

from flask import Flask

from serving.answers import answer_document


def test_the_openapi_document_is_made_once() -> None:
    made: list[int] = []

    def make() -> dict[str, int]:
        made.append(1)
        return {"made": len(made)}

    app = Flask("small")
    answer_document(app, make)
    client = app.test_client()
    assert [client.get("/openapi.json").json for _ in range(3)] == [{"made": 1}] * 3
    assert client.get("/openapi.json").content_type == "application/json"
