"""A head that is known says what the parser said of it, and what is not plain is never known."""

from __future__ import annotations

import pytest

from serving.front.heads import MOST, KnownHeads
from serving.front.messages import Request

HEAD = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n"


def request(body: bytes = b"abc", *, keep_alive: bool = True, **headers: str) -> Request:
    named = [(n.replace("_", "-").encode(), v.encode()) for n, v in headers.items()]
    return Request("POST", b"/a", "/a", "", named, "", keep_alive=keep_alive, body=body)


def test_the_same_head_with_another_body_of_its_length_is_known() -> None:
    heads = KnownHeads()
    assert heads.find(HEAD + b"abc") is None
    heads.learn(HEAD + b"abc", request())
    known = heads.find(HEAD + b"xyz")
    assert known is not None
    assert (known.path, known.size) == ("/a", len(HEAD))


@pytest.mark.parametrize(
    "data",
    [HEAD, HEAD + b"ab", HEAD + b"abcd", HEAD + b"abc" + HEAD, HEAD[:-1], b"\r\n" + HEAD + b"abc"],
)
def test_what_is_more_or_less_than_one_request_is_not(data: bytes) -> None:
    heads = KnownHeads()
    heads.learn(HEAD + b"abc", request())
    assert heads.find(data) is None


@pytest.mark.parametrize(
    "one",
    [
        request(transfer_encoding="chunked"),
        request(expect="100-continue"),
        request(upgrade="h2c"),
        request(keep_alive=False),
        request(b"ab"),
    ],
    ids=["chunks", "expects", "upgrades", "the last", "another body"],
)
def test_what_is_not_plain_is_never_known(one: Request) -> None:
    heads = KnownHeads()
    heads.learn(HEAD + b"abc", one)
    assert heads.find(HEAD + b"abc") is None


def test_no_more_than_so_many_are_kept() -> None:
    heads = KnownHeads()
    for number in range(MOST + 1):
        head = HEAD.replace(b"/a", b"/%d" % number)
        heads.learn(head + b"abc", request())
    assert heads.find(HEAD.replace(b"/a", b"/0") + b"abc") is None
    assert heads.find(HEAD.replace(b"/a", b"/%d" % MOST) + b"abc") is not None
