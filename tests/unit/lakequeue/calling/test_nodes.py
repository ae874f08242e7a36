"""Which node a client goes to: by rendezvous, past those that are down, among those found."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakequeue.calling.discovery import find
from lakequeue.calling.effects import Http, Reply, Unanswered, Wait
from lakequeue.calling.nodes import (
    FIND_EVERY_S,
    FIND_SOON_S,
    FIRST_DOWN_S,
    Nodes,
    may_be_used,
    rendezvous,
)

NODES = st.sets(st.sampled_from([f"http://n{i}:80" for i in range(12)]), min_size=2)
KEYS = [f"orders/{partition}" for partition in range(200)]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@given(NODES, st.randoms())
def test_a_node_that_goes_moves_its_own_keys_alone(nodes: set[str], random: object) -> None:
    gone = sorted(nodes)[0]
    for key in KEYS:
        before, after = rendezvous(nodes, key), rendezvous(nodes - {gone}, key)
        assert after == [node for node in before if node != gone]


@given(NODES)
def test_a_node_that_comes_takes_keys_and_moves_none_between_others(nodes: set[str]) -> None:
    for key in KEYS:
        before, after = rendezvous(nodes, key)[0], rendezvous(nodes | {"http://new"}, key)[0]
        assert after in {before, "http://new"}


def test_every_node_is_first_for_its_share() -> None:
    nodes = [f"http://10.0.0.{i}:8080" for i in range(4)]
    first = [rendezvous(nodes, f"t/{n}")[0] for n in range(4_000)]
    assert all(800 <= first.count(node) <= 1_200 for node in nodes)


def test_the_order_does_not_depend_on_how_nodes_are_named_first() -> None:
    assert rendezvous(["b", "a", "c"], "k") == rendezvous(["c", "b", "a", "a"], "k")
    # As every release reckons it: clients of two releases go to the same node.
    assert rendezvous(["http://a:1", "http://b:1", "http://c:1"], "orders/0") == EXPECTED


EXPECTED = ["http://a:1", "http://b:1", "http://c:1"]


@pytest.mark.parametrize(
    ("found", "asked", "usable"),
    [
        ("http://10.0.0.2:8080", "http://lb", True),
        ("http://127.0.0.1:8080", "http://lb", False),
        ("http://localhost:8080", "http://10.0.0.1:8080", False),
        ("http://127.0.0.1:9", "http://localhost:8", True),
        ("http://[::1]:9", "http://127.0.0.1:8", True),
        ("http://10.0.0.2:8080", "https://lb", False),
        ("https://10.0.0.2:8080", "https://lb", True),
        ("ftp://10.0.0.2", "http://lb", False),
    ],
)
def test_loopback_and_plain_text_are_no_way_for_somebody_elsewhere(
    found: str, asked: str, *, usable: bool
) -> None:
    assert may_be_used(found, asked) is usable


def test_a_route_skips_a_node_that_failed_and_comes_back_to_it() -> None:
    clock = Clock()
    nodes = Nodes("http://a,http://b,http://c", now=clock)
    route = nodes.route("orders/0")
    first, second, third = route.order
    route.leave(first)
    assert route.order == [second, third, first]
    route.leave(second)
    route.leave(third)
    assert route.current == first, "all failed: whoever may be tried first"
    clock.now = FIRST_DOWN_S
    assert route.current == first
    route.leave(first)
    clock.now += FIRST_DOWN_S
    assert route.current == second, "it failed twice: twice as long"
    clock.now += FIRST_DOWN_S
    assert route.current == first
    route.leave(first)
    route.served(first)
    assert route.current == first, "it has answered somebody"


def test_calls_that_fail_together_count_once() -> None:
    clock = Clock()
    nodes = Nodes("http://a,http://b", now=clock)
    for _ in range(50):
        nodes.leave("http://a")
    assert nodes.down_until("http://a") == FIRST_DOWN_S


def test_one_may_be_sent_on_against_the_order() -> None:
    nodes = Nodes("http://a,http://b", now=Clock())
    route = nodes.route("k")
    other = route.order[1]
    route.prefer(other)
    assert route.current == other
    route.leave(other)
    assert route.current == route.order[0] != other


def told(*urls: str) -> Reply:
    nodes = [{"node": f"n{i}", "url": url} for i, url in enumerate(urls)]
    return Reply(200, {}, orjson.dumps({"ingest": nodes, "consumer": []}))


def ask(nodes: Nodes, clock: Clock, outcome: Reply | Unanswered) -> list[str]:
    """The URLs that were asked, each with the same outcome."""
    script, urls = find(nodes, "ingest", clock), []
    try:
        effect = next(script)
        while True:
            if isinstance(effect, Wait):
                clock.now += effect.timeout_s or 0.0
                effect = script.send(False)
                continue
            assert isinstance(effect, Http)
            urls.append(effect.url)
            effect = script.send(outcome) if isinstance(outcome, Reply) else script.throw(outcome)
    except StopIteration:
        return urls


def test_nodes_are_found_and_those_given_stay_a_last_way() -> None:
    clock = Clock()
    nodes = Nodes("http://lb", finds=True, now=clock)
    assert nodes.candidates == ["http://lb"]
    assert ask(nodes, clock, told("http://n1", "http://n2/")) == ["http://lb/v1/nodes"]
    assert nodes.candidates == ["http://n1", "http://n2"]
    assert nodes.route("k").order[-1] == "http://lb"
    assert ask(nodes, clock, told()) == [], "not before it is time"
    clock.now = FIND_EVERY_S
    ask(nodes, clock, told("http://n2", "http://n3"))
    assert nodes.candidates == ["http://n2", "http://n3"]
    clock.now += 1
    nodes.leave("http://n2")
    clock.now += FIND_SOON_S
    asked = ask(nodes, clock, Unanswered("refused", sent=False))
    assert len(set(asked)) == 3, "a failure is a reason to look, and to look elsewhere"
    assert nodes.candidates == ["http://n2", "http://n3"]


def test_who_does_not_find_goes_to_those_given() -> None:
    clock = Clock()
    nodes = Nodes("http://a,http://b", now=clock)
    assert ask(nodes, clock, told("http://n1")) == []
    assert sorted(nodes.candidates) == ["http://a", "http://b"]
