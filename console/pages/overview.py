"""The first screen: is it moving, who owns what, how far behind, what is stuck."""

from __future__ import annotations

import time
from itertools import chain
from typing import Any

from flask import Blueprint, render_template

from console.asking.desk import Desk
from console.asking.patience import PATIENCE_S
from console.context import Context, session
from console.rules import attention, copies, flow
from console.rules.attention import Concern
from console.rules.charts import Chart, chart
from console.rules.rates import KEPT_S, History
from lakequeue import metrics
from lakequeue.wire import is_internal_group

_SHOWN = 12
_CHARTS = (
    ("In", "records/s", "in"),
    ("Ordered", "records/s", "ordered"),
    ("Out", "records/s", "out"),
)


def pages(context: Context) -> Blueprint:
    """The page, and the part of it that is live."""
    made = Blueprint("overview", __name__)

    @made.get("/")
    def show() -> str:
        return render_template("overview.html", **seen(context, session().desk))

    @made.get("/live/overview")
    def live() -> str:
        return render_template("_overview.html", **seen(context, session().desk))

    return made


def seen(context: Context, desk: Desk, within_s: float = PATIENCE_S) -> dict[str, Any]:
    """What the templates show. Takes `within_s` at most, whatever hangs."""
    until = time.monotonic() + within_s
    # All of them begin before one is waited for.
    for source in (desk.topics, desk.groups, desk.advice):
        source.get(0.0)
    looked = desk.look(within_s)
    may_read = looked.value is not None and looked.value.may_read
    tables = context.tables
    if may_read:
        for kept in (tables.hours, tables.order, tables.troubles):
            kept.get(0.0)
    left = max(0.0, until - time.monotonic())
    topics, groups = desk.topics.get(left), desk.groups.get(until - time.monotonic())
    each = looked.value.each if looked.value else ()
    # Only what the driver does not tell is waited for.
    told = any(one.scrape.all(metrics.driver.GROUP_LAG.name) for one in each)
    advice = desk.advice.get(0.0 if told else until - time.monotonic())
    lags = flow.group_lags(each, advice.value, groups.value or [])
    point = desk.history.newest
    concerns = [
        *attention.of_processes(each),
        *attention.of_order(point),
        *attention.of_groups(advice.value),
        *attention.of_idle(lags, groups.value or ()),
        *attention.of_deaths(each),
        *(_of_tables(context, until) if may_read else ()),
        *attention.of_parts((("topics", topics.failed), ("groups", groups.failed))),
    ]
    state, said = attention.verdict(each, point, concerns)
    return {
        "looked": looked,
        "each": each,
        "may_read": may_read,
        "state": state,
        "said": said,
        "point": point,
        "charts": charts(desk.history, time.time()),
        "concerns": concerns,
        "lags": lags[:_SHOWN],
        "all_lags": len(lags),
        "topics": flow.topic_lags(topics.value or [], lags)[:_SHOWN],
        "all_topics": len(topics.value or ()),
        "topics_failed": topics.failed,
        "groups_failed": groups.failed or (None if lags else advice.failed),
        "hours": tables.hours.get(0.0) if may_read else None,
        "all_groups": sum(not is_internal_group(g["group"]) for g in groups.value or ()),
        "sql": copies.sql_of_hours(tables.uri),
    }


def _of_tables(context: Context, until: float) -> list[Concern]:
    """What `lakequeue doctor` knows of the tables."""
    order = context.tables.order.get(max(0.0, until - time.monotonic()))
    troubles = context.tables.troubles.get(max(0.0, until - time.monotonic()))
    return [
        *(Concern("warn", one.detail, one.fix) for one in order.value or () if one.warns),
        *(
            Concern("stuck" if one.stops else "warn", f"{one.table}: {one.what}", one.remedy)
            for one in troubles.value or ()
        ),
        *attention.of_parts((("ordering", order.failed), ("tables", troubles.failed))),
    ]


def charts(history: History, now: float) -> list[Chart]:
    """The last hour."""
    since = now - KEPT_S
    points = history.since(since)
    rates = [
        chart(name, unit, [(p.at, p.rates.get(key)) for p in points], since, now)
        for name, unit, key in _CHARTS
    ]
    waits = [(p.at, _sum(p.levels.values())) for p in points]
    return [*rates, chart("Backlog", "records", waits, since, now)]


def _sum(levels: Any) -> float | None:
    known = [level for level in chain(levels) if level is not None]
    return sum(known) if known else None
