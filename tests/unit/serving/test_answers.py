"""Answers that are the same at each call."""

from __future__ import annotations

from serving.answers import made_once


def test_the_openapi_document_is_made_once() -> None:
    made: list[int] = []

    def make() -> dict[str, int]:
        made.append(1)
        return {"made": len(made)}

    document = made_once(make)
    assert [document().json for _ in range(3)] == [{"made": 1}] * 3
    assert document().content_type == "application/json"
