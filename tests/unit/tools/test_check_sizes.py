from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.check_sizes import faults, full_folders, long_modules, long_subjects, main


def test_a_long_module_is_named() -> None:
    modules = {"a.py": "x\n" * 400, "b.py": "x\n" * 401}
    assert [fault.split()[0] for fault in long_modules(modules)] == ["b.py"]


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
    """A commit with a long subject, and after it another one and a long module."""
    git(tmp_path, "init")
    (tmp_path / "old.py").write_text("")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "o" * 90)
    (tmp_path / "new.py").write_text("x\n" * 401)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "n" * 80)
    return tmp_path


def git(project: Path, *arguments: str) -> None:
    name = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run(["git", *name, *arguments], cwd=project, check=True, capture_output=True)


def test_commits_count_since_the_check_is_there(project: Path) -> None:
    long, subject = faults(project, since="HEAD~1")
    assert long.startswith("new.py has 401 lines")
    assert subject.endswith("n" * 80)


def test_a_history_that_does_not_reach_back_is_not_looked_at(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(project) == 1
    assert capsys.readouterr().out.splitlines() == [*faults(project, since="0" * 40)]


def test_a_module_that_was_deleted_and_is_still_listed_is_skipped(project: Path) -> None:
    (project / "new.py").unlink()
    assert faults(project, since="HEAD") == []
