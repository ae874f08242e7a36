"""Who gets in: hosts, origins, addresses, sessions, forms."""

from __future__ import annotations

import pytest

from console.asking.desk import Desk
from console.asking.patience import Kept, Patience
from console.asking.services import Addresses
from console.gate import ConsoleGate
from console.pages.sign_in import local
from console.sessions import IDLE_S, MOST, Sessions, told
from lakequeue.errors import (
    Forbidden,
    ForeignPage,
    LakequeueError,
    Unauthenticated,
    UnlockedDoors,
    Unreachable,
    WrongHost,
)
from serving.front.messages import Header, Request

NOWHERE = Addresses(("http://127.0.0.1:9",), ("http://127.0.0.1:9",))
KEY = "lq_abc123_verysecretindeed"


def asked(
    host: str = "127.0.0.1:8083",
    method: str = "GET",
    address: str = "127.0.0.1",
    **headers: str,
) -> Request:
    said: list[Header] = [(b"host", host.encode())]
    said += [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request(method, b"/", "/", "", said, address)


def gate(*, locked: bool = False, open_to_all: bool = False) -> ConsoleGate:
    return ConsoleGate(["127.0.0.1"], "http", lambda: locked, open_to_all=open_to_all)


@pytest.mark.parametrize(
    ("request_", "refused"),
    [
        (asked(), None),
        (asked("localhost:8083"), None),
        (asked("rebound.example.org:8083"), WrongHost),
        (asked(method="POST", origin="http://127.0.0.1:8083", sec_fetch_site="same-origin"), None),
        (asked(method="POST", origin="https://127.0.0.1:8083"), ForeignPage),
        (asked(method="POST", origin="http://evil.example"), ForeignPage),
        (asked(method="POST", origin="null"), ForeignPage),
        (asked(method="POST", sec_fetch_site="cross-site"), ForeignPage),
        (asked(sec_fetch_site="cross-site", sec_fetch_dest="image"), ForeignPage),
        (asked(sec_fetch_site="cross-site", sec_fetch_dest="document"), None),
        (asked(address="192.0.2.7"), UnlockedDoors),
    ],
)
def test_only_this_machine_and_pages_of_the_console_get_in(
    request_: Request, refused: type[LakequeueError] | None
) -> None:
    if refused is None:
        gate().admit(request_)
        return
    with pytest.raises(refused):
        gate().admit(request_)


def test_with_locked_doors_others_reach_it_by_any_name() -> None:
    gate(locked=True).admit(asked("console.example.org", address="192.0.2.7"))
    with pytest.raises(ForeignPage):
        gate(locked=True).admit(asked(method="POST", origin="http://evil.example"))
    gate(open_to_all=True).admit(asked(address="192.0.2.7"))


class Clock:
    """Stands until it is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def sessions(clock: Clock) -> Sessions:
    patience = Patience(1)
    desk = Desk(NOWHERE, None, None, patience)
    return Sessions(desk, lambda key: Desk(NOWHERE, key, None, patience), clock)


def test_a_session_is_kept_until_it_is_ended_or_idle() -> None:
    clock = Clock()
    known = sessions(clock)
    one = known.keep(known.of(KEY))
    assert known.find(one.id) is one
    assert known.find("") is None
    assert known.find(one.id[:-1]) is None
    clock.now += IDLE_S - 1
    assert known.find(one.id) is one
    clock.now += IDLE_S + 1
    assert known.find(one.id) is None
    two = known.keep(known.of(KEY))
    known.end(two.id)
    assert known.find(two.id) is None


def test_nobody_takes_all_memory_and_the_one_not_used_for_longest_makes_room() -> None:
    clock = Clock()
    known = sessions(clock)
    first = known.keep(known.of(KEY))
    for _ in range(MOST):
        clock.now += 1
        last = known.keep(known.of(KEY))
    assert known.find(first.id) is None
    assert known.find(last.id) is last


def test_a_key_that_is_tried_takes_nobodys_place() -> None:
    known = sessions(Clock())
    first = known.keep(known.of(KEY))
    tried = [known.of(f"{KEY}{number}") for number in range(MOST + 1)]
    assert known.find(first.id) is first
    assert known.find(tried[-1].id) is None


@pytest.mark.parametrize("refusal", [Unauthenticated, Forbidden])
def test_what_was_seen_before_a_refusal_is_not_shown_after_it(
    refusal: type[LakequeueError],
) -> None:
    answers: list[list[str] | LakequeueError] = [["payments"], Unreachable("away"), refusal("no")]

    def look() -> list[str]:
        answer = answers.pop(0)
        if isinstance(answer, LakequeueError):
            raise answer
        return answer

    topics = Kept(Patience(1), "the topics", look, every_s=0.0)
    assert topics.get().value == ["payments"]
    assert topics.get().value == ["payments"], "who does not answer has refused nobody"
    found = topics.get()
    assert (found.value, found.failed and found.failed.code) == (None, refusal.code)


def test_a_key_is_in_nothing_that_is_printed() -> None:
    session = sessions(Clock()).of(KEY)
    assert session.who == told(KEY) == "lq_abc123"
    assert told("eyJ.abc.def") == "a token"
    shown = f"{session!r} {session.desk.services.credentials!r} {vars(session.desk)!r}"
    assert "verysecret" not in shown
    assert session.id not in repr(session)


def test_a_form_is_of_one_browser() -> None:
    known = sessions(Clock())
    assert known.is_token("cookie", known.token("cookie"))
    assert not known.is_token("another", known.token("cookie"))
    assert not known.is_token("", known.token(""))
    assert not known.is_token("cookie", "")
    assert not known.is_token("cookie", "ü")


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("/topics/a?offset=1", "/topics/a?offset=1"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("/a\r\nSet-Cookie: x", "/"),
        ("", "/"),
    ],
)
def test_after_signing_in_nobody_is_sent_elsewhere(path: str, there: str) -> None:
    assert local(path) == there
