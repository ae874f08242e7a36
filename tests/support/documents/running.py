"""Runs the blocks of a document on a queue, in the tools that they name.

Addresses and roots that a document writes for the reader are exchanged for those of the queue:
that is all that differs from what is printed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml

import lakequeue.duck
from lakequeue.calling.addresses import consumer_urls, ingest_urls, named
from lakequeue.processes.java import cache_dir
from lakequeue.settings import Settings
from tests.support.documents.blocks import REPOSITORY, SHELLS, Block, commands

_KEY = re.compile(r'"(\w+)":')
_LONGEST_S = 240


@dataclass(frozen=True)
class Reader:
    """Somebody who tries a document: where they stand, and which queue they have."""

    folder: Path
    root: str
    ingest_url: str
    consumer_url: str

    def exchanged(self, text: str) -> str:
        """The text with the addresses of this queue."""
        for written, real in (
            ("http://127.0.0.1:8080", self.ingest_url),
            ("http://127.0.0.1:8081", self.consumer_url),
            ("http://a:8080", self.ingest_url),
            ("http://b:8080", self.ingest_url),
            ("localhost:8080", self.ingest_url),
            ("localhost:8081", self.consumer_url),
            (".venv/bin/lakequeue", "lakequeue"),
            ("s3://bucket/queue-2", str(self.folder / "queue-2")),
            ("s3://bucket/queue", self.root),
            ("s3://elsewhere/queue", str(self.folder / "elsewhere")),
            ("s3://staging/queue", str(self.folder / "staging")),
            ("/data/report", str(self.folder / "report")),
        ):
            text = text.replace(written, real)
        return text

    @property
    def environment(self) -> dict[str, str]:
        """A shell in which `lakequeue` is installed, and which knows nothing else of a queue.

        The jars of Spark are there: to fetch them again would take ten seconds.
        """
        own = {n: v for n, v in os.environ.items() if not n.startswith("LAKEQUEUE_")}
        return own | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(REPOSITORY),
            "HOME": str(self.folder),
            "XDG_CACHE_HOME": str(cache_dir(os.environ).parent),
            "LAKEQUEUE_ROOT": self.root,
        }


def run_page(reader: Reader, blocks: Iterable[Block], prelude: str = "") -> None:
    """Run every block that is to be run; `prelude` is what the page takes for granted."""
    to_run = [block for block in blocks if block.is_run]
    run_python(reader, prelude, [block for block in to_run if block.language == "python"])
    for block in to_run:
        if block.language != "python":
            run_one(reader, block)


def run_one(reader: Reader, block: Block) -> None:
    """Run a block that is not Python."""
    match block.language:
        case "console":
            for command, shown in commands(block):
                printed = shell(reader, command, block)
                missing = set(_KEY.findall(shown)) - set(_KEY.findall(printed))
                assert not missing, f"{block}: no {missing} in {printed}"
        case language if language in SHELLS:
            shell(reader, block.text, block)
        case "json":
            json.loads(block.text)
        case "yaml":
            assert yaml.safe_load(block.text)
        case "toml":
            (reader.folder / "lakequeue.toml").write_text(reader.exchanged(block.text))
            shell(reader, "lakequeue config show", block)
            (reader.folder / "lakequeue.toml").unlink()
        case "sql":
            with lakequeue.duck.connect(reader.root) as duck:
                for statement in filter(str.strip, block.text.split(";")):
                    duck.sql(statement).fetchall()
        case other:
            raise AssertionError(f"{block}: nobody knows how to run {other!r}")


def shell(reader: Reader, command: str, where: Block) -> str:
    """What it prints. It has to succeed; a question is answered with yes."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", reader.exchanged(command)],
        cwd=reader.folder,
        env=reader.environment,
        input="y\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=_LONGEST_S,
    )
    assert done.returncode == 0, f"{where}: {command}\n{done.stdout}{done.stderr}"
    # `curl` succeeds whatever the service answers.
    assert '"urn:lakequeue:error' not in done.stdout, f"{where}: {command}\n{done.stdout}"
    return done.stdout


def run_python(reader: Reader, prelude: str, blocks: list[Block]) -> None:
    """Run Python blocks in one program."""
    given = {
        "prelude": reader.exchanged(prelude),
        "blocks": [[str(block), reader.exchanged(block.text)] for block in blocks],
    }
    done = subprocess.run(
        [sys.executable, "-u", "-m", "tests.support.documents.python_blocks"],
        cwd=reader.folder,
        env=reader.environment,
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
        timeout=_LONGEST_S,
    )
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-4_000:]


def reader_at(root: Path, folder: Path) -> Reader:
    """A reader in `folder`, of the queue that `lakequeue up` runs on `root`."""
    settings = Settings(root=str(root))
    ingest, consumer = ingest_urls(None, settings), consumer_urls(None, settings)
    return Reader(folder, str(root), named(ingest)[0], named(consumer)[0])
