"""Whoever has folders `jobs/`, `ingest/`, … of their own uses the installed wheel among them."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordination.embedded import EmbeddedZooKeeper
from lakequeue.records import Offset, Partition
from lakequeue_cli.supervisor.preflight import free_port
from queue_tables.log.reader import LogReader
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore
from tests.support.deployed.installed import PROJECT, Installed

pytestmark = [
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.faults,
    pytest.mark.timeout(900),
]
FOLDERS = ("jobs", "ingest", "coordination", "serving", "consumer_service", "tests", "tools")
"""Names that a repository of a user may have as well as we do."""
SENT_AND_TAKEN = """
import sys
import jobs
from lakequeue import Admin, Consumer, Producer
ingest, consumers = sys.argv[1:]
with Admin(ingest, consumers) as admin:
    admin.create_topic("t", partitions=1)
with Producer(ingest, acks="ordered", delivery_timeout_s=120) as producer:
    producer.send("t", "one").result()
with Consumer("t", group="g", urls=consumers) as consumer:
    values = []
    while not values:
        for message in consumer.poll(10):
            values.append(message.value)
            message.ack()
print(values, jobs.WHOSE)
"""
SPARK = """
import sys
import jobs
from pyspark.sql import SparkSession
root, table = sys.argv[1:]
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.createDataFrame([("t", b"two")], "topic STRING, value BINARY")
rows.write.format("lakequeue").option("root", root).mode("append").save()
queue = spark.read.format("lakequeue").option("root", root).option("subscribe", "t").load()
queue.selectExpr("CAST(value AS STRING)", "offset").write.json(table)
print(jobs.WHOSE)
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Folders of the user's, which say so, and which nobody else may import from."""
    for name in FOLDERS:
        folder = tmp_path / "repository" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text('WHOSE = "the user\'s"\n')
    return tmp_path / "repository"


@pytest.fixture
def environ(tmp_path: Path, repository: Path, java_home: str) -> dict[str, str]:
    """Of a shell that has the repository on PYTHONPATH, as many have."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LAKEQUEUE_", "PYSPARK_"))}
    kept.pop("SPARK_HOME", None)
    work = str(tmp_path / "work")
    return kept | {"PYTHONPATH": ".", "JAVA_HOME": java_home, "LAKEQUEUE_WORK_DIR": work}


class Shell:
    """Runs what the user runs, in the repository."""

    def __init__(self, installed: Installed, repository: Path, environ: dict[str, str]) -> None:
        self._installed = installed
        self.repository = repository
        self.environ = environ | {"PYSPARK_PYTHON": installed.program("python")}

    def run(self, program: str, *argv: str) -> str:
        """Its output, once it has ended well."""
        done = subprocess.run(
            [self._installed.program(program), *argv],
            cwd=self.repository,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def script(self, text: str) -> str:
        """A program of the user's beside the folders; its name."""
        (self.repository / "program.py").write_text(text)
        return "program.py"

    def submit(self, job: str, *argv: str) -> str:
        """`spark-submit` of a job of ours, or of the user's."""
        path = "lib/python*/site-packages/pyspark/bin/spark-submit"
        (program,) = Path(sys.prefix).glob(path)
        command = [str(program), "--master", "local[1]", "--conf", "spark.ui.enabled=false"]
        done = subprocess.run(
            [*command, job, *argv],
            cwd=self.repository,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def shell(installed: Installed, repository: Path, environ: dict[str, str]) -> Shell:
    return Shell(installed, repository, environ)


@pytest.fixture
def up(installed: Installed, shell: Shell, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """`lakequeue up` in the repository: the addresses of its two services."""
    ports = [str(free_port("127.0.0.1")) for _ in range(2)]
    command = [installed.program("lakequeue"), "up", "--root", str(tmp_path / "root")]
    command += ["--ingest-port", ports[0], "--consumer-port", ports[1]]
    said = tmp_path / "up.err"
    with said.open("w") as err:
        process = subprocess.Popen(
            command,
            cwd=shell.repository,
            env=shell.environ,
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
        )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if "Ctrl-C" in line:
                break
        else:
            pytest.fail(said.read_text())
        yield f"http://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}"
    finally:
        process.terminate()
        process.communicate(timeout=90)


def test_the_queue_the_client_and_a_session_of_the_users(
    up: tuple[str, str], shell: Shell, tmp_path: Path
) -> None:
    assert shell.run("python", shell.script(SENT_AND_TAKEN), *up) == "['one'] the user's\n"
    root, table = str(tmp_path / "root"), tmp_path / "table"
    # By the program itself, then submitted.
    assert "the user's" in shell.run("python", shell.script(SPARK), root, str(table))
    assert values(table)[0] == {"value": "one", "offset": 0}
    assert "the user's" in shell.submit(shell.script(SPARK), root, str(tmp_path / "again"))
    assert values(tmp_path / "again")[:2] == [
        {"value": "one", "offset": 0},
        {"value": "two", "offset": 1},
    ]
    assert "restart" not in (tmp_path / "up.err").read_text()


def values(table: Path) -> list[dict[str, object]]:
    lines = [line for file in table.glob("*.json") for line in file.read_text().splitlines()]
    return sorted(map(json.loads, lines), key=lambda row: int(row["offset"]))


def test_a_job_that_is_submitted_and_one_by_name(
    shell: Shell, installed: Installed, tmp_path: Path
) -> None:
    root = QueueRoot.open(str(tmp_path / "root"), create=True)
    topic = TopicStore(root).create("t", partitions=1)[0]
    landing = tmp_path / "landing"
    landing.mkdir()
    (landing / "a.json").write_text('{"n": 1}\n')
    jobs = installed.site / "jobs"
    shell.submit(
        str(jobs / "stream_in.py"),
        *("json", "--path", str(landing), "--topic", "t", "--root", root.uri),
        *("--checkpoint", str(tmp_path / "checkpoint"), "--available-now"),
    )
    server = EmbeddedZooKeeper(tmp_path / "zookeeper")
    server.start()
    try:
        at = ("--root", root.uri, "--zookeeper", server.hosts, "--node", "once", "--available-now")
        shell.submit(str(jobs / "order.py"), *at)
        assert LogReader(root).end_offset(topic.topic_id, Partition(0)) == 1
        shell.run("lakequeue", "job", "run", "offsets", *at)
    finally:
        server.stop()
    shell.run("lakequeue", "job", "run", "retention", "--root", root.uri)
    rows = LogReader(root).read_range(topic.topic_id, Partition(0), Offset(0), 1)
    assert rows.column("value").to_pylist() == [b'{"n": 1}']


def test_what_notebooks_import(shell: Shell) -> None:
    lines = {
        ast.unparse(line)
        for notebook in (PROJECT / "notebooks").glob("*.py")
        for line in ast.walk(ast.parse(notebook.read_text()))
        if isinstance(line, ast.Import | ast.ImportFrom)
    }
    assert "import lakequeue.spark" in lines
    own = "import jobs, ingest, tests\nprint(jobs.WHOSE, ingest.WHOSE, tests.WHOSE)"
    shown = shell.run(
        "python", "-c", "\n".join([*sorted(lines), "import lakequeue.duck, lakequeue.testing", own])
    )
    assert shown == "the user's the user's the user's\n"
