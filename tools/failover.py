"""Kill whoever leads, under load, and watch who takes over: `make failover`.

A cluster of three nodes of each service, two drivers and three ZooKeepers runs on this machine.
Producers and consumers are given one URL each. Then an ingest node, the order leader, the
controller and a consumer-service node are killed with SIGKILL, one after the other, and stay dead
until somebody has taken over. Nobody ends their ZooKeeper sessions for them: as on machines of
their own, the others learn of the death by the session timeout. At the end the history of all
clients is judged by the checker of the tests. Exit status 0: no anomaly, and all within the limits.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from coordination.zookeeper.election import leader
from coordination.zookeeper.session import Session
from history_checker import GroupRequirements, Requirements, Verdict, check
from history_checker.history import load
from history_checker.load import LoadConsumer, LoadProducer
from history_checker.truth import truth
from lakequeue.client.admin import Admin
from lakequeue.clock import boot_seconds
from lakequeue.errors import LakequeueError
from lakequeue_cli.supervisor.cluster import Cluster, ClusterOptions
from queue_tables.root import QueueRoot
from tools.failover_view import Pauses, Strike, View

TOPIC = GROUP = "failover"
PARTITIONS = 6
NODES = 3
GIVE_UP_S = 120.0
TICK_S = 0.1


class Failed(Exception):
    """Something did not come back."""


@dataclass
class Stage:
    """The cluster under load."""

    cluster: Cluster
    session: Session
    pauses: Pauses
    producers: list[LoadProducer]
    consumers: list[LoadConsumer]
    view: View
    session_timeout_s: float
    strikes: list[Strike] = field(default_factory=list)
    _tick: threading.Event = field(default_factory=threading.Event)

    def wait(self, what: str, done: Callable[[], bool]) -> None:
        """Wait, showing how it goes."""
        deadline = boot_seconds() + GIVE_UP_S
        while not done():
            self._tick.wait(TICK_S)
            self.pauses.read()
            self.view.show(self.pauses, self.strikes)
            if boot_seconds() > deadline:
                raise Failed(f"not within {GIVE_UP_S:g} s: {what}")

    def strike(
        self, what: str, victim: str, limit_s: float, successor: Callable[[], str | None]
    ) -> None:
        """Kill `victim`; wait until `successor` names somebody else, and all partitions go on."""
        strike = Strike(what, victim, limit_s)
        self.strikes.append(strike)
        self.pauses.begin()
        struck = boot_seconds()
        self.cluster.kill(victim, hold=True)

        def taken_over() -> bool:
            name = successor()
            if name is None or name == victim:
                return False
            strike.by, strike.took_s = name, boot_seconds() - struck
            return True

        self.wait(f"somebody takes over from {victim}", taken_over)
        self.pauses.all_anew()
        self.wait("every partition goes on", lambda: self.pauses.all_moved(PARTITIONS))
        strike.stopped_s = self.pauses.longest_s
        strike.ack_s = self.pauses.longest_ack_s
        self.cluster.revive(victim)
        self.wait("the dead one is back", self._ready)

    def _ready(self) -> bool:
        return all(child.state == "ready" for child in self.cluster.children)

    def acknowledged(self) -> list[int]:
        """Records of each producer."""
        return [producer.acknowledged for producer in self.producers]

    def controller(self) -> str | None:
        """The node that assigns partitions."""
        found = leader(self.session, "controller")
        return None if found is None else str(found["node"])

    def owners(self) -> Counter[str]:
        """Partitions of the group by consumer-service node."""
        with Admin(self.cluster.ingest_urls, self._living(), timeout_s=30) as admin:
            rows = admin.group(GROUP).partitions
        return Counter(row.node for row in rows if row.node is not None)

    def _living(self) -> list[str]:
        alive = {child.name for child in self.cluster.children if child.alive}
        names = [f"consumer-{n}" for n in range(1, NODES + 1)]
        return [self.cluster.url(name) for name in names if name in alive]


def kill_each(stage: Stage) -> None:
    """The four strikes."""
    timeout_s = stage.session_timeout_s
    acked = [producer.acknowledged for producer in stage.producers]

    def somebody_acks() -> str | None:
        now = [producer.acknowledged for producer in stage.producers]
        return (
            "the others" if all(n > before for n, before in zip(now, acked, strict=True)) else None
        )

    stage.strike("an ingest node", "ingest-1", 1.0, somebody_acks)
    order = stage.cluster.leader()
    if order is None:
        raise Failed("no driver leads")
    stage.strike("the order leader", order, timeout_s + 5, stage.cluster.leader)
    controller = stage.controller()
    if controller is None:
        raise Failed("there is no controller")
    stage.strike("the controller", controller, timeout_s + 1, stage.controller)
    owners = stage.owners()
    owners.pop(stage.controller() or "", None)
    busiest = max(owners, key=lambda name: owners[name])

    def all_owned() -> str | None:
        now = stage.owners()
        whole = now.total() == PARTITIONS and busiest not in now
        return "the others" if whole else None

    stage.strike("a consumer-service node", busiest, timeout_s + 1, all_owned)


@contextmanager
def stage_of(cluster: Cluster, folder: Path, rate: int, timeout_s: float) -> Iterator[Stage]:
    """The load on a cluster that is ready; what is sent is consumed when the block ends."""
    with ExitStack() as stack:
        queue_id = QueueRoot.open(cluster.root).queue_id
        session = Session(cluster.zookeeper, queue_id, "onlooker", cluster.coordination)
        session.start()
        stack.callback(session.stop)
        with Admin(cluster.ingest_urls) as admin:
            admin.create_topic(TOPIC, partitions=PARTITIONS)
        consumers: list[LoadConsumer] = []
        for number in range(4):
            consumer = LoadConsumer(
                cluster.consumer_urls[:1], TOPIC, GROUP, folder, f"c{number + 1}"
            )
            stack.callback(consumer.stop)
            consumers.append(consumer)
        producers = [
            LoadProducer(cluster.ingest_urls[:1], TOPIC, folder, f"p{n + 1}", rate // 2).start()
            for n in range(2)
        ]
        view = stack.enter_context(View())
        stage = Stage(cluster, session, Pauses(folder), producers, consumers, view, timeout_s)
        stage.wait("every partition is consumed", lambda: stage.pauses.all_moved(PARTITIONS))
        yield stage
        for producer in producers:
            producer.stop()
        sent = sum(producer.acknowledged for producer in producers)
        with Admin(cluster.ingest_urls, cluster.consumer_urls, timeout_s=30) as admin:
            stage.wait(
                "all is consumed",
                lambda: sum(p.committed_offset or 0 for p in admin.group(GROUP).partitions) >= sent,
            )


def main() -> int:
    """0: no anomaly, and everybody took over in time."""
    parser = argparse.ArgumentParser(prog="make failover", description=__doc__)
    parser.add_argument("--root", type=Path, default=Path("var/failover"), help="emptied first")
    parser.add_argument("--rate", type=int, default=200, help="records a second")
    parser.add_argument("--session-timeout-s", type=float, default=10.0, help="of ZooKeeper")
    args = parser.parse_args()
    shutil.rmtree(args.root, ignore_errors=True)
    folder = args.root / "history"
    folder.mkdir(parents=True)
    options = ClusterOptions(
        root=str(args.root / "queue"),
        ingest_nodes=NODES,
        consumer_nodes=NODES,
        drivers=2,
        zookeepers=3,
        close_dead_sessions=False,
        environ={"LAKEQUEUE_COORDINATION__SESSION_TIMEOUT_S": str(args.session_timeout_s)},
    )
    print("starting 3 ZooKeepers, 3 ingest and 3 consumer-service nodes, 2 drivers …", flush=True)
    try:
        with Cluster(options) as cluster:
            cluster.wait_ready()
            with stage_of(cluster, folder, args.rate, args.session_timeout_s) as stage:
                kill_each(stage)
            events = [*load(folder.glob("*.jsonl")), *truth(cluster.root, [TOPIC], [GROUP])]
    except (LakequeueError, Failed, TimeoutError) as error:
        print(f"failover: {error}")
        return 1
    verdict = check(events, Requirements({GROUP: GroupRequirements(topics=(TOPIC,), drained=True)}))
    return report(stage.strikes, verdict, args.session_timeout_s)


def report(strikes: list[Strike], verdict: Verdict, timeout_s: float) -> int:
    """Print what was measured and the verdict; the exit status."""
    for strike in strikes:
        print(strike.line)
    late = [strike.what for strike in strikes if not strike.in_time]
    unsent = verdict.sent - verdict.acknowledged
    print(verdict)
    # Take-overs are work: on a machine that has other things to do they take longer.
    load, cores = os.getloadavg()[1], os.cpu_count()
    print(f"this machine: {cores} cores, {load:.1f} processes that wanted one")
    print(
        f"session timeout {timeout_s:g} s; sends that failed: {unsent}; "
        + (f"too late: {', '.join(late)}" if late else "all took over in time")
    )
    return 0 if verdict.ok and not late and not unsent else 1


if __name__ == "__main__":
    sys.exit(main())
