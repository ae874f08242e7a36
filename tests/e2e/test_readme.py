"""The lines of the README and of the tutorial, in an empty folder, as they are printed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.test_up import banner, up

pytestmark = [
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]
README = Path(__file__).parents[2] / "README.md"
ROW = 'customer-4│{"id":17,"total":99.5}'


def blocks(language: str, page: Path = README) -> list[str]:
    """The code blocks of a page in `language`."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def run(program: str, folder: Path, until: str) -> None:
    """Run it in `folder` until it prints `until`; one that goes on for ever is interrupted then."""
    environment = {n: v for n, v in os.environ.items() if not n.startswith("LAKEQUEUE_")}
    with (folder / "program.err").open("w+") as err:
        process = subprocess.Popen(
            [sys.executable, "-u", "-c", program],
            cwd=folder,
            env=environment | {"PYTHONPATH": str(README.parent)},
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
        )
        assert process.stdout is not None
        said = []
        try:
            for line in process.stdout:
                said.append(line)
                if until in re.sub(r"\s*[│|]\s*", "│", line):
                    return
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
        err.seek(0)
        raise AssertionError("".join(said) + err.read()[-4_000:])


def test_the_dozen_lines(tmp_path: Path) -> None:
    shell = [line for block in blocks("bash") for line in block.splitlines() if line]
    create = next(line for line in shell if "topic create" in line).partition("#")[0]
    consume, spark, duck = blocks("python")
    with up(tmp_path / "lakequeue-data", 0, 0) as queue:
        banner(queue)
        command = create.replace(".venv/bin/lakequeue", f"{sys.executable} -m lakequeue_cli.app")
        subprocess.run(
            command.split(),
            cwd=tmp_path,
            check=True,
            env={**os.environ, "PYTHONPATH": str(README.parent)},
        )
        run(consume, tmp_path, "customer-4 {'id': 17, 'total': 99.5}")
        run(duck, tmp_path, ROW)
        run(spark, tmp_path, ROW)
        tutorial = blocks("python", README.parent / "docs" / "tutorial.md")
        run("\n".join([*tutorial, "print('the tutorial is over')"]), tmp_path, "tutorial is over")
