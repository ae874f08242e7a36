"""What the console makes of numbers: samples, rates, charts, verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from console.asking.processes import WANTED
from console.rules import attention, flow
from console.rules.charts import chart, short
from console.rules.exposition import Scrape, read
from console.rules.found import ASKING, Failed, late
from console.rules.rates import History, Point

TEXT = r"""# HELP lakequeue_ingest_records_total records acknowledged
lakequeue_ingest_records_total 41.0
lakequeue_group_lag_records{group="a \"b\"",topic="t"} 7.0
lakequeue_group_lag_records{group="c",topic="t"} 1e+03
lakequeue_other 3
lakequeue_group_lag_records{group="broken",topic="t"} much
"""


NOTHING = Scrape({})


@dataclass(frozen=True)
class One:
    """A process."""

    role: str = "driver"
    name: str = "driver-1"
    url: str = "http://d"
    state: str = "ready"
    why: tuple[str, ...] = ()
    leads: tuple[str, ...] = ("offsets", "order")
    scrape: Scrape = NOTHING


def test_samples_are_read_with_their_labels() -> None:
    names = ["lakequeue_ingest_records_total", "lakequeue_group_lag_records"]
    scrape = read(TEXT, names)
    assert scrape.total("lakequeue_ingest_records_total") == 41
    assert scrape.total("lakequeue_group_lag_records", topic="t") == 1007
    assert scrape.total("lakequeue_group_lag_records", group='a "b"') == 7
    assert scrape.total("lakequeue_other") is None
    assert scrape.total("lakequeue_group_lag_records", topic="u") is None


def test_a_rate_counts_a_process_that_began_again_from_nothing_and_no_new_one() -> None:
    history = History()
    history.add(100, {"in": {"a": 1000, "b": 50}}, {})
    history.add(104, {"in": {"a": 20, "b": 70, "c": 9999}}, {"lag": 3})
    assert history.newest == Point(104, {"in": 10.0}, {"lag": 3})
    history.add(108, {"in": {}}, {})
    assert history.newest is not None
    assert history.newest.rates == {"in": None}


def test_an_hour_of_points_is_kept() -> None:
    history = History(every_s=5)
    for n in range(1_000):
        history.add(5.0 * n, {"in": {"a": n}}, {})
    assert len(history.points) == 720
    assert len(history.since(4_500)) == 100


def test_a_chart_says_in_words_what_it_draws_and_breaks_where_nothing_is_known() -> None:
    points = [(0.0, 1.0), (5.0, 3.0), (10.0, None), (15.0, 2.0), (20.0, 4.0)]
    drawn = chart("In", "records/s", points, 0, 100)
    assert drawn.text == "In: now 4, on average 2.5, at most 4 records/s"
    assert (len(drawn.lines), len(drawn.areas)) == (2, 2)
    assert chart("In", "records/s", [], 0, 1).text.endswith("nothing is known of the last hour yet")


@pytest.mark.parametrize(
    ("value", "said"),
    [(0, "0"), (9.25, "9.2"), (1234, "1234"), (12_345, "12.3 k"), (3.4e7, "34 M"), (None, "–")],
)
def test_numbers_are_short(value: float | None, said: str) -> None:
    assert short(value) == said


def test_whoever_is_gone_is_named_with_what_to_do() -> None:
    gone = One("consumer", "consumer-2", "http://c", "silent", ("no answer",), ())
    (concern,) = attention.of_processes([One(), gone])
    assert (concern.level, concern.what) == ("stuck", "consumer-2 does not answer")
    assert concern.fix


def test_a_queue_without_an_order_leader_is_stuck() -> None:
    concerns = list(attention.of_processes([One(leads=("offsets",))]))
    assert [c.what for c in concerns] == ["nothing is ordered: no driver leads the order job"]
    assert attention.verdict([One()], None, concerns) == ("stuck", "1 thing is stuck.")
    # Whoever may not see it is told nothing about leaders.
    assert not list(attention.of_processes([One(state="refused", leads=())]))


def test_records_that_wait_and_are_not_ordered_are_told() -> None:
    point = Point(0, {"in": 5.0, "ordered": 0.0}, {"backlog": 12})
    (concern,) = attention.of_order(point)
    assert concern.what.startswith("12 records are acknowledged and none is ordered")
    assert not list(attention.of_order(Point(0, {"in": 5.0, "ordered": 5.0}, {"backlog": 12})))


def test_advice_comes_before_the_course_of_the_same_group() -> None:
    trend = {"group": "g", "topic": "t", "course": "falling_behind", "lag": 9}
    advice = {"group": "g", "topic": "t", "detail": "g falls behind", "do": "start 2 more"}
    stuck: dict[str, Any] = {"group": "h", "topic": "t", "course": "stuck", "lag": 4}
    found = list(attention.of_groups({"advice": [advice], "trends": [trend, stuck]}))
    assert [(c.level, c.fix[:5], c.about) for c in found] == [
        ("warn", "start", "/groups/g"),
        ("stuck", "look ", "/groups/h"),
    ]


@pytest.mark.parametrize(
    ("rates", "levels", "said"),
    [
        ({"in": 3.0}, {}, "It moves."),
        ({"in": 0.0}, {"lag": 0}, "At rest: nothing comes in, nothing waits."),
        ({"in": 0.0}, {"lag": 7}, "Nothing moves, and records wait."),
    ],
)
def test_one_look_says_whether_it_moves(
    rates: dict[str, float | None], levels: dict[str, float | None], said: str
) -> None:
    assert attention.verdict([One()], Point(0, rates, levels), [])[1] == said
    assert attention.verdict([One(state="silent")], None, [])[1] == "No process answers."


def test_lag_is_that_of_the_fold_and_else_that_of_the_look() -> None:
    names = ["lakequeue_group_lag_records"]
    trends = [
        {"group": "c", "topic": "t", "course": "steady", "lag": 1, "members": 2},
        {"group": "new", "topic": "u", "course": "idle", "lag": 3, "members": 0},
    ]
    lags = flow.group_lags([One(scrape=read(TEXT, names))], {"trends": trends}, [])
    assert [(row.group, row.lag, row.course) for row in lags] == [
        ("c", 1000, "steady"),
        ('a "b"', 7, None),
        ("new", 3, "idle"),
    ]
    topics = [{"topic": name, "partitions": 2} for name in ("t", "u", "v")]
    assert [(row.topic, row.lag, row.groups) for row in flow.topic_lags(topics, lags)] == [
        ("t", 1007, 2),
        ("u", 3, 1),
        ("v", None, 0),
    ]


def test_groups_with_records_and_nobody_to_get_them_are_named() -> None:
    row = flow.GroupLag
    lags = [
        row("mails", "t", 5, members=0),
        row("mails", "u", 2, members=0),
        row("busy", "t", 9, members=1),
        row("done", "t", 0, members=0),
        row("unknown", "t", 9),
        row("reports", "t", 3, members=0),
    ]
    groups = [{"group": "mails", "mode": "queue"}, {"group": "reports", "mode": "stream"}]
    found = list(attention.of_idle(lags, groups))
    assert [(c.level, c.what, c.about) for c in found] == [
        ("warn", "the queue mails has no worker, and 7 records wait", "/groups/mails"),
        ("note", "the group reports has no consumer, and is 3 records behind", "/groups/reports"),
    ]


def test_records_that_died_are_told_by_group() -> None:
    text = """lakequeue_consumer_dead_letters_total{group="mails"} 2.0
lakequeue_consumer_dead_letters_total{group="quiet"} 0.0
lakequeue_ingest_faulty_values_total 1.0
"""
    scrape = read(text, WANTED)
    each = [One("consumer", scrape=scrape), One("consumer", scrape=scrape), One("ingest")]
    found = list(attention.of_deaths(each))
    assert [(c.level, c.what, c.about) for c in found] == [
        ("note", "4 records of the group mails have died since its nodes started", "/dead-letters"),
        (
            "note",
            "2 values that were sent are not of the schemas of their topics",
            "/dead-letters",
        ),
    ]


def test_groups_that_commands_make_for_themselves_do_not_count() -> None:
    names = ["lakequeue_group_lag_records"]
    text = 'lakequeue_group_lag_records{group="%s",topic="t.dlq"} 4.0\n'
    own = One(scrape=read(text % "redrive.t.dlq" + text % "cli-0123456789ab", names))
    assert flow.levels([own])["lag"] == 0
    assert flow.group_lags([own], None, ()) == []
    assert len(flow.group_lags([own], None, (), internal=True)) == 2
    assert flow.levels([own, One(scrape=read(text % "g", names))])["lag"] == 4
    assert flow.levels([One()])["lag"] is None


def test_what_was_asked_for_just_now_is_no_failure_yet() -> None:
    assert late("storage", 0.1).code == ASKING
    assert not list(attention.of_parts([("tables", late("storage", 0.1)), ("x", None)]))
    (concern,) = attention.of_parts([("tables", Failed("storage hangs", "mend it", "no_answer"))])
    assert (concern.what, concern.fix) == ("tables cannot be shown: storage hangs", "mend it")
