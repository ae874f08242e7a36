"""Lists in pages: each name once, whatever comes and goes meanwhile."""

from __future__ import annotations

from sqs_gateway.rules.pages import page_of


def test_ten_thousand_queues_come_each_once_while_others_come_and_go() -> None:
    names = [f"q{number:05}" for number in range(10_000)]
    assert len(page_of(names, {}, "QueueUrls", str)["QueueUrls"]) == 1_000, "no page is larger"
    assert "NextToken" not in page_of(names, {}, "QueueUrls", str)
    found: list[str] = []
    given: dict[str, object] = {"MaxResults": 900}
    while True:
        page = page_of(names, given, "QueueUrls", str)
        found += page["QueueUrls"]
        if "NextToken" not in page:
            break
        given["NextToken"] = page["NextToken"]
        # The one that the token names is deleted, and one before it is made.
        names = sorted([*(name for name in names if name != found[-1]), f"p{len(found)}"])
    assert found == [f"q{number:05}" for number in range(10_000)]
    assert page_of([], {"MaxResults": 5}, "QueueUrls", str) == {}
