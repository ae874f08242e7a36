"""What failed is run once more, and never hidden; a room that dies takes no other with it."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path

import pytest

from tools import run_services
from tools.rooms import Pick, rooms
from tools.run_services import MOST, Rest, check, in_turn, main

REPOSITORY = Path(__file__).parents[3]

SHAKY = """
import os
import threading
from pathlib import Path
import pytest


def seen(number):
    runs = Path("runs")
    with runs.open("a") as file:
        file.write(f"{{number}}\\n")
    return runs.read_text().split().count(str(number))


def test_steady():
    pass


@pytest.mark.parametrize("number", range({count}))
def test_shaky(number):
    if seen(number) < {passes_at}:
        {fault}
"""
FAILS = "pytest.fail('too early')"
MARKERS = "[pytest]\nmarkers =\n  spark: a\n  matrix: b\n  faults: c\n  zookeeper: d\n"


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def write(name: str, count: int, passes_at: int, fault: str) -> str:
    Path(name).write_text(SHAKY.format(count=count, passes_at=passes_at, fault=fault))
    return name


@pytest.mark.parametrize(
    ("count", "passes_at", "code", "runs_each", "unstable"),
    [
        (MOST, 2, 0, 2, True),
        (1, 3, 1, 2, False),
        (MOST + 1, 2, 1, 1, False),
    ],
    ids=["pass when repeated", "fail again", "too many"],
)
def test_what_fails_is_run_once_more_and_named(
    capfd: pytest.CaptureFixture[str],
    count: int,
    passes_at: int,
    code: int,
    runs_each: int,
    unstable: bool,
) -> None:
    assert main([write("test_sample.py", count, passes_at, FAILS)]) == code
    assert Path("runs").read_text().split().count("0") == runs_each
    out = capfd.readouterr().out
    assert ("UNSTABLE" in out) == unstable
    if unstable:
        assert "test_shaky[0]" in out.partition("UNSTABLE")[2]
        assert "test_steady" not in out.partition("UNSTABLE")[2]


@pytest.mark.parametrize(
    "fault",
    ["os._exit(1)", "os.abort()"],
    ids=["exits", "crashes"],
)
def test_a_room_that_dies_is_run_once_more_as_a_whole_after_the_others(
    capfd: pytest.CaptureFixture[str], fault: str
) -> None:
    dies = write("test_dies.py", 1, 2, fault)
    Path("test_other.py").write_text("def test_other():\n    pass\n")
    assert main([dies, "test_other.py"]) == 0
    out = capfd.readouterr().out
    assert out.index("test_other.py .") < out.index("once more") < out.index("test_dies.py ..")
    assert "test_dies.py" in out.partition("UNSTABLE")[2]


def test_a_room_that_hangs_is_ended(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_services, "LONGEST_S", 0.5)
    assert main([write("test_hangs.py", 1, 3, "threading.Event().wait()")]) == 1
    assert capfd.readouterr().out.count("took more than") == 2


def test_tests_with_spark_run_beside_the_others_and_what_each_says_stays_together(
    capfd: pytest.CaptureFixture[str],
) -> None:
    Path("pytest.ini").write_text(MARKERS)
    Path("room").mkdir()
    meets = "def test_{0}():\n    os.close(os.open('meeting', os.{1}))\n\n"
    os.mkfifo("meeting")  # opened by both ends or by none
    Path("room/test_both.py").write_text(
        "import os\nimport pytest\n\n"
        + meets.format("waits", "O_WRONLY")
        + "@pytest.mark.spark\n"
        + meets.format("computes", "O_RDONLY")
        + "@pytest.mark.matrix\ndef test_of_the_matrix():\n    pytest.fail('is not chosen')\n"
    )
    assert main(["room"]) == 0
    assert capfd.readouterr().out.count("1 passed, 2 deselected") == 2


@pytest.mark.parametrize(
    ("option", "run"), [([], "plain"), (["--faults"], "faults"), (["--matrix"], "matrix")]
)
def test_each_test_is_run_by_one_command(
    option: list[str], run: str, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("pytest.ini").write_text(MARKERS)
    marks = {"plain": "", "faults": "@pytest.mark.faults\n", "matrix": "@pytest.mark.matrix\n"}
    tests = [
        f"{mark}def test_{name}():\n    assert {name!r} == {run!r}\n"
        for name, mark in marks.items()
    ]
    Path("test_marked.py").write_text("\n".join(["import pytest", *tests]))
    Path("test_unmarked.py").write_text("def test_it():\n    pass\n")
    assert main([*option, "test_marked.py", "test_unmarked.py"]) == 0
    out = capfd.readouterr().out
    assert out.count("1 passed, 2 deselected") == 1
    assert ("begun: test_unmarked.py" in out) == (run == "plain")


def test_behaviour_of_the_memory_queue_is_left_to_the_unit_tests(
    capfd: pytest.CaptureFixture[str],
) -> None:
    Path("pytest.ini").write_text(MARKERS)
    Path("tests/behaviour").mkdir(parents=True)
    Path("tests/behaviour/test_both.py").write_text(
        "import pytest\n\ndef test_memory():\n    pytest.fail('a unit test')\n\n"
        "@pytest.mark.zookeeper\ndef test_real():\n    pass\n"
    )
    assert main(["tests/behaviour"]) == 0
    assert "1 passed, 1 deselected" in capfd.readouterr().out


def test_a_run_that_could_not_begin_is_not_repeated(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["missing.py"]) == pytest.ExitCode.USAGE_ERROR
    assert "once more" not in capfd.readouterr().out


def test_every_test_is_in_a_room_or_a_unit_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    files = {str(path.parent) for path in Path("tests").rglob("test_*.py")}
    folders = [f"{folder}/" for folder in files if not folder.startswith("tests/unit")]
    all_rooms = tuple(f"{room}/" for room in rooms())
    assert [folder for folder in folders if not folder.startswith(all_rooms)] == []
    assert [room for room in all_rooms if not any(map(room.__eq__, folders))] == []


def test_what_is_unstable_twice_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(run_services.LEDGER, str(tmp_path / "unstable.jsonl"))
    for code in (0, 1):
        Path("runs").unlink(missing_ok=True)
        assert main([write("test_sample.py", 1, 2, FAILS)]) == code
    assert "unstable in several of the last" in capfd.readouterr().out
    Path("runs").unlink()
    assert main([write("test_sample.py", 1, 1, FAILS)]) == 0, "it was stable this time"


def test_folders_of_a_room_are_run_by_themselves(
    capfd: pytest.CaptureFixture[str],
) -> None:
    Path("pytest.ini").write_text(MARKERS)
    Path("room/inner").mkdir(parents=True)
    (Path("room") / "inner" / "only_a_helper").mkdir()
    one = (
        "import pytest\n\ndef test_{0}():\n    pass\n\n"
        "@pytest.mark.spark\ndef test_{0}_spark():\n    pass\n"
    )
    Path("room/test_outer.py").write_text(one.format("outer"))
    Path("room/inner/test_inner.py").write_text(one.format("inner"))
    assert main(["room"]) == 0
    out = capfd.readouterr().out
    assert out.count("1 passed, 1 deselected") == 4


def test_with_faults_runs_what_either_call_runs(capfd: pytest.CaptureFixture[str]) -> None:
    Path("pytest.ini").write_text(MARKERS)
    Path("test_all.py").write_text(
        "import pytest\n\ndef test_plain():\n    pass\n\n"
        "@pytest.mark.faults\ndef test_long():\n    pass\n\n"
        "@pytest.mark.matrix\ndef test_of_the_matrix():\n    pytest.fail('is not chosen')\n"
    )
    for options, passed in (([], 1), (["--faults"], 1), (["--with-faults"], 2)):
        assert main([*options, "test_all.py"]) == 0
        assert f"{passed} passed" in capfd.readouterr().out


def test_a_plugin_that_is_slow_to_load_is_loaded_for_tests_that_name_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    test = "def test_it(pytestconfig):\n    assert pytestconfig.pluginmanager.hasplugin({}) is {}\n"
    Path("test_plain.py").write_text(test.format("'schema' + 'thesis'", False))
    Path("test_user.py").write_text(test.format("'schemathesis'", True))
    # One that fails is run once more by its id.
    assert main(["test_plain.py", "test_user.py", "test_user.py::test_it"]) == 0


def test_lanes_of_spark_run_others_when_there_is_no_spark_left() -> None:
    Path("pytest.ini").write_text(MARKERS)
    meets = (
        "import os\n\ndef test_it():\n    for fifo in {0}:\n        os.close(os.open(fifo, {1}))"
    )
    fifos = [f"fifo{number}" for number in range(1, len(run_services._LANES))]
    for fifo in fifos:
        os.mkfifo(fifo)
        Path(f"test_{fifo}.py").write_text(meets.format([fifo], "os.O_WRONLY"))
    # It begins first, for it is the largest, and lets go first who is last in the queue.
    Path("test_largest.py").write_text(meets.format(fifos[::-1], "os.O_RDONLY"))
    assert main(["test_largest.py", *(f"test_{fifo}.py" for fifo in fifos)]) == 0


@pytest.mark.parametrize(("command", "code"), [("true", 0), ("false", 1)])
def test_checks_run_beside_the_rooms_and_fail_with_them(
    command: str, code: int, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_services, "CHECKS", (command,))
    write("test_sample.py", 1, 1, FAILS)
    assert main(["--checks", "test_sample.py"]) == code
    assert f"ended: {command} after" in capfd.readouterr().out
    assert main(["test_sample.py"]) == 0, "they are run if they are asked for"


def test_no_room_begins_after_the_checks_have_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    every = Pick()
    rest = Rest({every: deque([[write("test_sample.py", 1, 1, FAILS)]])}, every, 60)
    monkeypatch.setattr(run_services, "CHECKS", ("false",))
    assert check(rest) == 1
    assert in_turn(rest, [every]) == 0
    assert not Path("runs").exists()


def test_folders_with_few_tests_of_spark_share_a_session(
    capfd: pytest.CaptureFixture[str],
) -> None:
    Path("pytest.ini").write_text(MARKERS)
    for folder in ("tests/integration/guard", "tests/integration/jobs"):
        Path(folder).mkdir(parents=True)
        Path(folder, f"test_{Path(folder).name}.py").write_text(
            "import pytest\n\n@pytest.mark.spark\ndef test_spark():\n    pass\n\n"
            "def test_plain():\n    pass\n"
        )
    assert main(["tests/integration/guard", "tests/integration/jobs"]) == 0
    out = capfd.readouterr().out
    assert (out.count("2 passed, 2 deselected"), out.count("1 passed, 1 deselected")) == (1, 2)


def test_every_folder_that_shares_a_session_is_there() -> None:
    assert [one for one in run_services._ONE_SESSION if not (REPOSITORY / one).is_dir()] == []
