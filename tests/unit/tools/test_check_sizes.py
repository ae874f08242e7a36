from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.check_sizes import faults, full_folders, long_modules, long_subjects, main


def test_a_long_module_has_to_say_why() -> None:
    modules = {
        "a.py": "x\n" * 400,
        "b.py": "x\n" * 401,
        "c.py": "# longer than 400 lines: one grammar\n" + "x\n" * 500,
        "d.py": "# longer than 400 lines:\n" + "x\n" * 500,
    }
    assert [fault.split()[0] for fault in long_modules(modules)] == ["b.py", "d.py"]


def test_a_full_folder_is_named_and_what_every_folder_has_does_not_count() -> None:
    fifteen = [f"full/m{n}.py" for n in range(15)]
    assert not list(full_folders([*fifteen, "full/__init__.py", "full/sub/more.py"]))
    (fault,) = full_folders([*fifteen, "full/one_more.py"])
    assert fault.startswith("full/ has 16 modules")


def test_a_long_subject_is_named() -> None:
    assert not list(long_subjects(["x" * 72]))
    assert "has 73 characters" in next(long_subjects(["x" * 73]))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    def git(*arguments: str) -> None:
        name = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(["git", *name, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    (tmp_path / "old.py").write_text("")
    git("add", ".")
    git("commit", "-m", "o" * 90)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/check_sizes.py").write_text("")
    git("add", ".")
    git("commit", "-m", "Check sizes")
    (tmp_path / "new.py").write_text("x\n" * 401)
    git("add", ".")
    git("commit", "-m", "n" * 80)
    return tmp_path


def test_commits_count_since_the_check_is_there(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(project) == 1
    said = capsys.readouterr().out
    assert "new.py has 401 lines" in said
    assert "n" * 80 in said
    assert "o" * 80 not in said


def test_a_working_copy_without_a_module_that_was_deleted_is_looked_at(project: Path) -> None:
    (project / "new.py").unlink()
    assert [fault.split()[:2] for fault in faults(project)] == [["a", "commit's"]]
