"""Every code block of a document is run by a test, or says why not; tables are whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakequeue.wire import GroupDescription, PartitionState
from tests.support.documents.blocks import (
    REASONS,
    REPOSITORY,
    SHOWN,
    Block,
    blocks_of,
    commands,
    uneven_tables,
)
from tests.support.documents.pages import PAGES, SPARK_PAGE, WITH_SPARK
from tests.support.documents.python_blocks import has_read_all

GENERATED = {"docs/reference.md", "docs/notebooks"}
"""Run from what they are made of: docstrings, notebooks."""
DOCUMENTS = [
    page
    for page in [
        REPOSITORY / "README.md",
        *sorted((REPOSITORY / "docs").rglob("*.md")),
        *sorted((REPOSITORY / "examples").rglob("*.md")),
    ]
    if not any(str(page.relative_to(REPOSITORY)).startswith(one) for one in GENERATED)
]
BLOCKS = [block for page in DOCUMENTS for block in blocks_of(page)]


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_every_block_is_run_or_says_why_not(block: Block) -> None:
    if block.run_by is not None:
        assert (REPOSITORY / block.run_by).exists()
    elif block.reason is not None:
        assert block.reason in REASONS
    elif block.language not in SHOWN:
        assert block.page in {*PAGES, *WITH_SPARK, SPARK_PAGE}


def test_every_reason_is_still_needed() -> None:
    assert {block.reason for block in BLOCKS} - {None} == set(REASONS)


@pytest.mark.parametrize(
    "page", [*DOCUMENTS, *(REPOSITORY / "docs" / "notebooks").glob("*.md")], ids=lambda p: p.name
)
def test_no_row_of_a_table_breaks(page: Path) -> None:
    assert uneven_tables(page) == []


def test_a_command_of_several_lines_is_one(tmp_path: Path) -> None:
    text = "$ curl a \\\n  b\n{}\n$ echo '{\n  1}'\nsaid\n"
    block = Block("page", 1, "console", text)
    assert list(commands(block)) == [
        ("curl a \\\n  b", "{}\n"),
        ("echo '{\n  1}'", "said\n"),
    ]


def test_a_row_with_one_cell_too_many_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("| a | b |\n|---|---|\n| `x | y` | 2 |\n| `x \\| y` | 2 |\n")
    assert uneven_tables(page) == ["page.md:3: | `x | y` | 2 |"]


def test_a_group_whose_member_is_joining_has_not_read_all() -> None:
    made = GroupDescription(group="billing", mode="stream", partitions=[], members=[])
    assert not has_read_all(made)
    row = PartitionState(topic="orders", partition=0, end_offset=1, lag=1)
    assert not has_read_all(made.model_copy(update={"partitions": [row]}))
