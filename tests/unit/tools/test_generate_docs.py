"""The generated pages are those in the repository, and say everything that is declared."""

from __future__ import annotations

from lakequeue.settings import Settings
from queue_tables.schema.schemas import TABLES
from tools.generate_docs import DOCS, configuration_page, decisions_page, main, pages, tables_page


def test_the_committed_pages_are_not_stale() -> None:
    assert main(["--check"]) == 0


def test_a_stale_page_is_named(tmp_path, monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("tools.generate_docs.DOCS", tmp_path / "docs")
    (tmp_path / "docs").mkdir()
    assert main(["--check"]) == 1
    assert "docs/tables.md is stale" in capsys.readouterr().out
    assert main([]) == 0
    assert main(["--check"]) == 0
    assert all(path.exists() for path in pages())


def test_every_column_is_listed() -> None:
    page = tables_page(TABLES)
    for table in TABLES.values():
        for column in table.columns:
            assert f"| `{column.name}` |" in page


def test_every_setting_is_listed_with_its_variable() -> None:
    page = configuration_page(Settings)
    assert "`LAKEQUEUE_ROOT`" in page
    assert "`LAKEQUEUE_INGEST__LINGER_MS`" in page


def test_every_decision_is_in_the_index_by_its_title() -> None:
    index = decisions_page(DOCS / "decisions")
    numbered = list((DOCS / "decisions").glob("[0-9]*.md"))
    assert index.count("\n| [0") == len(numbered)
    assert "(0002-own-delta-commits.md) | lakequeue writes its own Delta commits |" in index
