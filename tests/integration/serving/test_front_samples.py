"""What a front says of itself in `/metrics`."""

from __future__ import annotations

from lakequeue.metrics.front import FRONT, HTTP_SECONDS
from serving.front_samples import FrontSamples
from tests.support.services.fronts import Running, running
from tests.support.services.small_app import BIG, App
from tests.support.services.zookeeper import wait_for


def told(front: Running) -> dict[tuple[str, ...], float]:
    """By name (without what all have in front) and labels."""
    samples = FrontSamples()
    samples.began(front.front)
    found = list(samples.samples())
    # Of calls there is a series as soon as one was answered.
    assert {HTTP_SECONDS, *(sample.metric for sample in found)} == set(FRONT)
    return {
        (one.metric.name.removeprefix("lakequeue_front_"), *one.labels): one.value for one in found
    }


def test_nothing_is_told_before_the_front_serves() -> None:
    assert list(FrontSamples().samples()) == []


def test_answers_are_counted_by_their_status(app: App) -> None:
    with running(app.flask, app.ways()) as front:
        link = front.connect()
        assert [link.get(path).status for path in ("/healthz", "/healthz", "/none")] == [
            *(200, 200, 404),
        ]
        samples = FrontSamples()
        samples.began(front.front)
        times = {s.labels: s.times for s in samples.samples() if s.metric is HTTP_SECONDS}
        # An application without the table of calls: which one it was is not known.
        assert times == {("other", "200"): 2, ("other", "404"): 1}


def test_limits_that_are_reached_are_counted(app: App) -> None:
    with running(app.flask, app.ways(), connections=4, bodies=1_000) as front:
        waits = [front.connect() for _ in range(3)]
        for raw in waits:
            raw.send(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
        wait_for(lambda: front.front.shares["wait"].parked == 3, "they wait")
        one = front.connect()
        assert one.post("/echo", b"x" * 2_000).status == 429
        one.send(b"GET /hold HTTP/1.1\r\nHost: a\r\n\r\n")
        wait_for(lambda: front.front.shares["hold"].busy == 1, "it is run")
        assert front.connect().read().status == 429
        seen = told(front)
        assert (seen["calls", "hold"], seen["waiting_calls", "wait"]) == (1, 3)
        assert (seen["refused_total", "connections"], seen["refused_total", "bodies"]) == (1, 1)
        assert seen["budget_limit_bytes", "bodies"] == 1_000
        assert seen["connections",] >= 4
        app.held.set()
        app.wake.set()


def test_deadlines_that_are_over_are_counted(app: App) -> None:
    with running(
        app.flask,
        app.ways(),
        header_s=0.3,
        idle_s=0.3,
        body_grace_s=0.3,
        write_s=0.3,
        write_bytes_per_s=1e9,
    ) as front:
        silent, slow, idle, body, reader = (front.connect(4_096) for _ in range(5))
        slow.send(b"G")
        assert idle.get("/healthz").status == 200
        body.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nx")
        reader.send(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n")
        wait_for(lambda: told(front)["budget_bytes", "answers: big"] > BIG // 2, "it is not read")
        assert silent.closed()
        assert idle.closed()
        assert slow.read().status == body.read().status == 408
        wait_for(lambda: front.front.late["answer"] == 1, "the reader is let go")
        seen = told(front)
        assert seen["deadlines_total", "headers"] == 2
        assert seen["deadlines_total", "idle"] == seen["deadlines_total", "body"] == 1
        assert seen["budget_bytes", "answers: big"] == 0
