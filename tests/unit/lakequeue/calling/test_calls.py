"""Which node, how often, and what then: the script is run by hand, with chosen outcomes."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from lakequeue.calling.calls import Answer, CallPolicy, call, pause_before, problem_of
from lakequeue.calling.effects import Http, Reply, Request, Unanswered, Wait
from lakequeue.calling.nodes import Nodes
from lakequeue.errors import (
    InvalidRequest,
    LakequeueError,
    NotReady,
    Overloaded,
    StorageUnavailable,
    UnknownTopic,
    Unreachable,
)

OK = Reply(200, {}, b"{}")
REQUEST = Request("POST", "/v1/x", body=b"{}")
REFUSED = Unanswered("refused", sent=False)
BROKEN_OFF = Unanswered("reset", sent=True)


def problem(error: LakequeueError, **headers: str) -> Reply:
    return Reply(error.http_status, headers, orjson.dumps(error.to_problem()))


def redirect(to: str) -> Reply:
    return Reply(307, {"location": to}, b"")


class Run:
    """Runs a call against scripted outcomes; time passes only while it waits."""

    def __init__(self, urls: str, *outcomes: Reply | Unanswered, policy: CallPolicy | None = None):
        self.nodes = Nodes(urls)
        self.sent: list[str] = []
        self.waits: list[float] = []
        self._time = 0.0
        self.outcomes = list(outcomes)
        self.policy = policy or CallPolicy()

    def result(self) -> Answer:
        script = call(self.nodes, REQUEST, lambda: self._time, self.policy)
        step: Callable[[], Any] = lambda: next(script)  # noqa: E731
        try:
            while True:
                effect = step()
                if isinstance(effect, Wait):
                    self.waits.append(effect.timeout_s or 0.0)
                    self._time += effect.timeout_s or 0.0
                    step = lambda: script.send(False)  # noqa: E731
                    continue
                assert isinstance(effect, Http)
                assert effect.request is REQUEST, "every attempt sends the same bytes"
                self.sent.append(effect.url)
                outcome = self.outcomes.pop(0)
                if isinstance(outcome, Unanswered):
                    step = lambda o=outcome: script.throw(o)  # type: ignore[misc] # noqa: E731
                else:
                    step = lambda o=outcome: script.send(o)  # type: ignore[misc] # noqa: E731
        except StopIteration as stop:
            answer: Answer = stop.value
            return answer


def test_a_dead_node_is_left_at_once_and_the_next_one_stays() -> None:
    run = Run("http://a,http://b", REFUSED, OK)
    assert run.result().node == "http://b"
    assert (run.sent, run.waits) == (["http://a/v1/x", "http://b/v1/x"], [])
    assert run.nodes.current == "http://b"


def test_after_all_nodes_failed_there_is_a_pause() -> None:
    run = Run("http://a,http://b", REFUSED, REFUSED, OK)
    assert run.result().node == "http://a"
    assert len(run.waits) == 1


def test_retry_after_is_honoured_on_the_same_node() -> None:
    overloaded = problem(Overloaded("full", stored="no"), **{"retry-after": "3"})
    run = Run("http://a,http://b", overloaded, OK)
    run.result()
    assert run.sent == ["http://a/v1/x", "http://a/v1/x"]
    assert run.waits[0] >= 3.0


def test_a_draining_node_is_left() -> None:
    run = Run("http://a,http://b", problem(NotReady("stopping")), OK)
    assert run.result().node == "http://b"


def test_a_node_that_is_cut_off_from_the_storage_is_left_and_all_are_asked_before_a_pause() -> None:
    away = problem(StorageUnavailable("no answer", stored="no"), **{"retry-after": "5"})
    run = Run("http://a,http://b", away, OK)
    assert run.result().node == "http://b"
    assert run.waits == []
    run = Run("http://a,http://b", away, away, OK)
    assert run.result().node == "http://a"
    assert len(run.waits) == 1
    assert run.waits[0] >= 5.0


def test_what_stays_wrong_is_not_sent_again() -> None:
    run = Run("http://a", problem(UnknownTopic("no topic x")))
    with pytest.raises(UnknownTopic):
        run.result()
    assert len(run.sent) == 1


def test_redirects_are_followed_and_name_the_node() -> None:
    run = Run("http://a", redirect("http://b:1/v1/y"), redirect("/v1/z"), OK)
    assert run.result().node == "http://b:1"
    assert run.sent == ["http://a/v1/x", "http://b:1/v1/y", "http://b:1/v1/z"]


def test_a_circle_of_redirects_ends() -> None:
    run = Run("http://a", *[redirect("/v1/x")] * 6, policy=CallPolicy(0.0))
    with pytest.raises(Unreachable, match="redirects"):
        run.result()


@pytest.mark.parametrize(
    ("outcomes", "stored"),
    [
        ([REFUSED, REFUSED], "no"),
        ([BROKEN_OFF, REFUSED], "unknown"),
        ([problem(Overloaded("full", stored="no")), REFUSED], "no"),
        ([problem(StorageUnavailable("?", stored="unknown")), REFUSED], "unknown"),
        ([Reply(502, {}, b"<html>"), problem(Overloaded("full", stored="no"))], "unknown"),
        ([BROKEN_OFF, problem(UnknownTopic("gone", stored="no"))], "unknown"),
    ],
)
def test_stored_covers_every_attempt(outcomes: list[Any], stored: str) -> None:
    run = Run("http://a", *outcomes)
    run.policy.give_up = lambda: not run.outcomes
    with pytest.raises(LakequeueError) as caught:
        run.result()
    assert caught.value.stored == stored


def test_a_call_ends_with_its_last_error_at_the_deadline() -> None:
    run = Run("http://a", *[REFUSED] * 50, policy=CallPolicy(1.0))
    with pytest.raises(Unreachable, match="http://a does not answer"):
        run.result()
    assert sum(run.waits) <= 1.0


def test_pauses_double_with_jitter_up_to_five_seconds() -> None:
    assert all(0 < pause_before(n) <= min(5.0, 0.05 * 2 ** (n - 1)) for n in range(1, 30))


def test_a_reply_that_is_not_ours_is_judged_by_its_status() -> None:
    error = problem_of(Reply(502, {"retry-after": "1.5"}, b"<html>bad gateway"), "http://a")
    assert (error.retryable, error.retry_after_s) == (True, 1.5)
    assert "502" in error.detail


@pytest.mark.parametrize("urls", ["", "ftp://a", "localhost:8080", [" "]])
def test_urls_are_checked(urls: str | list[str]) -> None:
    with pytest.raises(InvalidRequest, match="URL"):
        Nodes(urls)
