"""Which files a lane hands to pytest, by the marks that stand in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.rooms import Pick, picked

REPOSITORY = Path(__file__).parents[3]
SPARK, OTHERS = Pick(having=("spark",)), Pick(lacking=("spark",))
NOW = Pick(lacking=("faults", "matrix"))
FILES = {
    "plain": "def test_it(): pass\n",
    "spark": "pytestmark = pytest.mark.spark\ndef test_it(): pass\n",
    "listed": "pytestmark = [\n    pytest.mark.spark,\n    pytest.mark.faults,\n]\nX = [\n]\n",
    "mixed": "@pytest.mark.spark\ndef test_one(): pass\ndef test_two(): pass\n",
    "kinds": '@pytest.mark.parametrize("step", one_now(STEPS))\ndef test_it(step): pass\n',
    "words": "# No session of Spark, no faults and no matrix.\ndef test_it(): pass\n",
}


@pytest.mark.parametrize(
    ("pick", "names"),
    [
        (SPARK & NOW, {"spark", "mixed"}),
        (OTHERS & NOW, {"plain", "mixed", "kinds", "words"}),
        (SPARK & Pick(having=("faults",)), {"listed"}),
        (OTHERS & Pick(having=("faults",)), {"kinds"}),
        (Pick(having=("matrix",)), set()),
        (Pick(), set(FILES)),
    ],
    ids=lambda value: str(value) if isinstance(value, Pick) else "",
)
def test_files_without_a_test_of_the_pick_are_left_out(
    pick: Pick, names: set[str], tmp_path: Path
) -> None:
    for name, text in FILES.items():
        (tmp_path / f"test_{name}.py").write_text(text)
    found = picked(str(tmp_path), pick)
    if names == set(FILES):
        assert found == [str(tmp_path)]
    else:
        assert {Path(file).stem.removeprefix("test_") for file in found} == names


def test_folders_inside_a_folder_are_not_picked_with_it(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    for folder in (tmp_path, inner):
        (folder / "test_it.py").write_text(FILES["plain"])
    assert picked(str(tmp_path), Pick()) == [str(tmp_path / "test_it.py")]
    assert picked(str(inner), Pick()) == [str(inner)]


def test_a_file_that_is_not_there_is_left_to_pytest_to_refuse() -> None:
    assert picked("missing.py", SPARK) == ["missing.py"]


def test_marks_that_divide_tests_stand_in_their_own_files() -> None:
    # A mark that is brought along from elsewhere would not be seen by `picked`.
    elsewhere = [
        file
        for file in (REPOSITORY / "tests").rglob("*.py")
        if not file.name.startswith("test_")
        and re.search(r"mark\.(spark|faults|matrix)\b", file.read_text())
    ]
    assert elsewhere == [REPOSITORY / "tests/support/kinds.py"]
