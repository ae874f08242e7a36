"""A Spark standalone cluster on this machine: a master, and two workers with one core each."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from lakequeue.processes.java import QUICK_COMPILER
from tests.support.services.zookeeper import wait_for

HOST = "127.0.0.1"
START_S = 120.0
_MASTER_AT = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = "Successfully registered with master"


class StandaloneCluster:
    """A context manager; every process is killed at its end, with all that it has started."""

    def __init__(self, folder: Path, java_home: str, environ: Mapping[str, str]) -> None:
        """`environ`: more environment for the workers, and so for what runs on them."""
        self._folder = folder
        self._environ = dict(environ)
        self._base = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "SPARK_HOME"}}
        self._base |= {
            "JAVA_HOME": java_home,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "128m",
            "SPARK_DAEMON_JAVA_OPTS": f"-XX:+UseSerialGC {QUICK_COMPILER}",
        }
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._held = ExitStack()
        self.url = ""
        """`spark://…`, once started."""

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._held.close()
            raise
        return self

    def _start(self) -> None:
        self._daemon("master", "master.Master", {})
        found = wait_for(lambda: _MASTER_AT.findall(self._said("master")), "a master", START_S)
        self.url = found[0]
        for number in (1, 2):
            place = self._folder / f"worker-{number}"
            options = ("--cores", "1", "--memory", "600m", "--work-dir", str(place), self.url)
            self._daemon(f"worker-{number}", "worker.Worker", self._environ, *options)

        def registered() -> bool:
            return all(_REGISTERED in self._said(f"worker-{number}") for number in (1, 2))

        wait_for(registered, "both workers are registered", START_S)

    def _daemon(self, name: str, main: str, environ: Mapping[str, str], *options: str) -> None:
        spark_class = Path(sys.executable).parent / "spark-class"
        command = [str(spark_class), f"org.apache.spark.deploy.{main}", "--host", HOST]
        command += ["--port", "0", "--webui-port", "0", *options]
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command, cwd=self._folder, env={**self._base, **environ}, stdout=log, stderr=log
            )
        self._held.callback(_kill_all, process)
        self._daemons[name] = process

    def _said(self, name: str) -> str:
        said = (self._folder / f"{name}.log").read_text(errors="replace")
        assert self._daemons[name].poll() is None, said[-2_000:]
        return said

    def lose_machine_of(self, pid: int) -> None:
        """Kill the worker under which process `pid` runs, and all that runs there: a power cut."""
        above = {parent.pid for parent in psutil.Process(pid).parents()}
        (worker,) = (daemon for daemon in self._daemons.values() if daemon.pid in above)
        _kill_all(worker)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._held.close()


def _kill_all(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL it and its descendants, and wait until it is gone."""
    try:
        family = [*psutil.Process(process.pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        family = []
    process.kill()
    for each in family:
        if each.is_running():
            each.kill()
    process.wait()
    psutil.wait_procs(family, timeout=30)
