"""`lakequeue up`: the whole queue on this machine, until Ctrl-C.

Exit codes: 0 drained and stopped; 2 wrong usage; 3 a port is in use; 4 the root cannot be used;
5 another `up` serves this root; 6 Java or the jars are missing; 7 a service did not become ready;
1 anything else.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakequeue.calling.addresses import (
    consumer_urls,
    ingest_urls,
    named,
    remove_addresses,
    write_addresses,
)
from lakequeue.clock import boot_seconds
from lakequeue.errors import LakequeueError, StartFailed, Unreachable
from lakequeue.processes.folders import local_root
from lakequeue.settings import Settings
from lakequeue_cli.packages import need_server
from lakequeue_cli.progress import Show, in_lines, waiting

if TYPE_CHECKING:
    from lakequeue_cli.supervisor.cluster import Cluster


def up(
    root: Annotated[str | None, typer.Option(help="Root folder or URI of the queue.")] = None,
    zookeeper: Annotated[
        str | None,
        typer.Option(help="host:port,… of your own ensemble; without it a server is started."),
    ] = None,
    ingest_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port of the ingest service; 0: any.")
    ] = None,
    consumer_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port of the consumer service; 0: any.")
    ] = None,
    console_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port of the console; 0: any.")
    ] = None,
    console: Annotated[
        bool, typer.Option("--console/--no-console", help="Run the console, a page to look at.")
    ] = True,
    sqs_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Run an SQS gateway at this port; 0: any."),
    ] = None,
    standby: Annotated[
        bool, typer.Option("--standby", help="Run a second order driver, ready to take over.")
    ] = False,
    nodes: Annotated[
        int,
        typer.Option(
            min=1,
            max=9,
            help="Nodes of each service. 2 or more: a standby driver. 3 or more: three ZooKeepers.",
        ),
    ] = 1,
    work_dir: Annotated[
        Path | None, typer.Option(help="Local folder for logs and checkpoints.")
    ] = None,
    log_level: Annotated[
        str | None, typer.Option(help="debug, info, warning or error, for all services.")
    ] = None,
) -> None:
    """Run the queue on this machine: ZooKeeper, ingest, consumer service, order driver.

    A service that dies is started again. Ctrl-C drains them in order; a second one kills. With
    --nodes 3 it is a cluster: the ports are those of the first nodes, the others take free ones.

    Exit codes: 0 stopped, 2 usage, 3 port in use, 4 root unusable, 5 already running, 6 Java or
    jars missing, 7 not ready, 1 anything else.
    """
    try:
        need_server()
    except LakequeueError as error:
        _say(f"error: {error}")
        raise typer.Exit(error.exit_code) from error
    # Loaded here: a machine with the SDK and CLI alone has no storage or Spark packages.
    from lakequeue_cli.supervisor.cluster import Cluster, ClusterOptions
    from serving.tls import tls_of

    given: dict[str, Any] = {
        "root": root,
        "zookeeper": zookeeper,
        "work_dir": work_dir,
        "log_level": log_level,
    }
    settings = Settings(**{name: value for name, value in given.items() if value is not None})
    # Files that cannot be used are found before anything is started.
    tls = tls_of(settings.tls)
    started_at = boot_seconds()
    cluster: Cluster | None = None
    try:
        cluster = Cluster(
            ClusterOptions(
                root=settings.root,
                zookeeper=settings.zookeeper,
                host=settings.ingest.host,
                ingest_port=settings.ingest.port if ingest_port is None else ingest_port,
                consumer_port=settings.consumer.port if consumer_port is None else consumer_port,
                console=_console(settings, console_port) if console else None,
                console_port_may_change=console_port is None,
                sqs=None if sqs_port is None else (settings.sqs.host, sqs_port),
                ingest_nodes=nodes,
                consumer_nodes=nodes,
                drivers=2 if standby or nodes > 1 else 1,
                zookeepers=3 if nodes >= 3 else 1,
                work_dir=settings.work_dir,
                log_level=settings.log_level,
                coordination=settings.coordination,
                tls=tls is not None,
            ),
            report=_report,
        )
        signals = _Signals(cluster)
        signals.install()
        _say(f"starting (about {10 if nodes == 1 else 60} s, the first time longer)")
        cluster.start()
        # From here on its ports are its own: clients wait for it, and go nowhere else.
        write_addresses(cluster.root, cluster.ingest_urls, cluster.consumer_urls, starting=True)
        # A signal that came before there was anything to stop.
        if signals.count:
            cluster.request_stop()
        _stay(cluster, signals, started_at)
    except LakequeueError as error:
        _say(f"error: {error}")
        raise typer.Exit(error.exit_code) from error
    finally:
        if cluster is not None:
            remove_addresses(cluster.root)
            cluster.stop()
    _say("stopped")


def banner(cluster: Cluster, took_s: float) -> str:
    """What is said when the queue is ready: where everything is."""
    lines = [f"lakequeue is ready after {took_s:.1f} s", ""]
    lines += [f"  ingest      {url}" for url in cluster.ingest_urls]
    lines += [f"  consumers   {url}" for url in cluster.consumer_urls]
    lines += [f"  driver      {url}/metrics" for url in cluster.driver_urls]
    lines += [f"  console     {cluster.console_url}"] if cluster.console_url else []
    sqs_url = cluster.layout.beside_url(cluster.layout.sqs)
    lines += [f"  SQS         {sqs_url}"] if sqs_url else []
    lines += [
        f"  ZooKeeper   {cluster.zookeeper}{_password(cluster)}",
        f"  root        {cluster.root}",
        f"  logs        {cluster.log_dir}",
        "",
    ]
    lakequeue = called()
    tries = [
        *exports(cluster.root, cluster.ingest_urls, cluster.consumer_urls),
        f"{lakequeue} topic create hello && echo hi | {lakequeue} produce hello",
        f"{lakequeue} consume hello -g me -o earliest",
    ]
    lines += [f"  {word:<12}{line}" for word, line in zip_longest(["try"], tries, fillvalue="")]
    return "\n".join([*lines, "  stop        Ctrl-C"])


def called() -> str:
    """How a shell in this folder calls this very `lakequeue`."""
    ours = Path(sys.executable).with_name("lakequeue")
    found = shutil.which("lakequeue")
    if not ours.exists() or (found is not None and Path(found).absolute() == ours):
        return "lakequeue"
    here = Path.cwd()
    return shlex.quote(str(ours.relative_to(here) if ours.is_relative_to(here) else ours))


def _console(settings: Settings, port: int | None) -> tuple[str, int]:
    return settings.console.host, settings.console.port if port is None else port


def exports(root: str, ingest: Sequence[str], consumer: Sequence[str]) -> list[str]:
    """Lines for a shell in this folder, without which its clients would not find the queue."""
    with contextlib.suppress(Unreachable):  # no queue runs where such a client would look
        if {*named(ingest_urls()), *named(consumer_urls())} <= {*ingest, *consumer}:
            return []
    if local_root(root) is not None:
        return [f"export LAKEQUEUE_ROOT={shlex.quote(root)}"]
    return [
        f"export LAKEQUEUE_INGEST__URL={','.join(ingest)}",
        f"export LAKEQUEUE_CONSUMER__URL={','.join(consumer)}",
    ]


def _password(cluster: Cluster) -> str:
    file = cluster.coordination.password_file
    return "" if file is None else f" (password in {file})"


@dataclass
class _Signals:
    """The first signal drains, the next kills."""

    cluster: Cluster
    count: int = 0

    def install(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._arrived)

    def _arrived(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        if self.count == 1:
            _say("draining: ingest, order driver, consumers, ZooKeeper (Ctrl-C again kills)")
            self.cluster.request_stop()
        else:
            self.cluster.request_kill()


def _stay(cluster: Cluster, signals: _Signals, started_at: float) -> None:
    from lakequeue_cli.supervisor.class_archive import make_later

    try:
        with waiting("starting", len(cluster.children)) as bar:
            show = bar if sys.stderr.isatty() else in_lines(_say)
            cluster.wait_ready(look=lambda: _show(cluster, show))
    except StartFailed:
        if signals.count:
            # It was stopped while it started, as asked.
            return
        raise
    write_addresses(cluster.root, cluster.ingest_urls, cluster.consumer_urls)
    sys.stdout.write(f"{banner(cluster, boot_seconds() - started_at)}\n")
    sys.stdout.flush()
    make_later()
    cluster.join()


def _show(cluster: Cluster, show: Show) -> None:
    """How far the start is."""
    late = [child.name for child in cluster.children if child.state != "ready"]
    what = f"waiting for {', '.join(late)}" if late else "waiting for a driver to lead"
    show(len(cluster.children) - len(late), what)


def _report(name: str, what: str) -> None:
    _say(f"{name}: {what}")


def _say(text: str) -> None:
    """A line on standard error; it is lost if nobody can take it: the queue runs on."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"lakequeue: {text}\n")
        sys.stderr.flush()
