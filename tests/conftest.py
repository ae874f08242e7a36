"""Fixtures that many tests share. Fixtures of one folder stand in its own conftest."""

from __future__ import annotations

import functools
import gc
import os
import resource
from collections.abc import Iterator
from typing import TYPE_CHECKING

import httpcore2
import pytest
from hypothesis import HealthCheck, settings

from lakequeue.processes.java import QUICK_COMPILER
from tests.support.examples import examples
from tests.support.services.zookeeper import own_zookeeper, sessions, zookeeper

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["own_zookeeper", "sessions", "zookeeper"]

# How quick an example is depends on what else the machine does: no property is about that.
settings.register_profile(
    "any-machine",
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("any-machine")

# The quick compiler and the simple collector: a Java machine of a test ends before the others pay.
# A session's start takes 5 s of processor time and not 9, a table's first commits half. Classes are
# those of published jars: to verify them again is a twelfth of a short session.
JAVA = (
    f"{QUICK_COMPILER} -XX:+UseSerialGC "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
for options in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ.setdefault(options, JAVA)

# To make Java code of a plan, and compile it, pays for more rows than tests have: it was a fifth of
# the time of a session that asks much. Documents and notebooks are tested as users have it.
NO_CODE = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}

# A call by `httpx2.get` reads all authorities that the machine trusts, also where the node that it
# asks has no TLS. They are read once, for all clients that name none of their own.
vars(httpcore2)["default_ssl_context"] = functools.cache(httpcore2.default_ssl_context)

# What is collected stays to the end: to look for garbage in it again and again took a third of the
# collection, and a tenth of the unit tests.
gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """From now on there is garbage."""
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what the run took of the processors, with the processes that have ended."""
    own, others = (
        sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    terminalreporter.write_line(f"processor time: {own:.0f} s, and {others:.0f} s of processes")


@pytest.fixture(scope="session")
def java_home() -> str:
    """A Java that fits, in this process's environment from now on."""
    from lakequeue.processes.java import find_java

    home = str(find_java().home)
    os.environ["JAVA_HOME"] = home
    return home


@pytest.fixture(scope="session")
def spark(java_home: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark session with Delta Lake for the whole run: two cores, 1 GiB, no user interface."""
    from tests.support.spark.spark_session import start_spark

    session = start_spark(tmp_path_factory.mktemp("spark"), NO_CODE)
    yield session
    session.stop()
