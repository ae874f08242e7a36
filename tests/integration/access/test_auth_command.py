"""`lakequeue auth`, as people type it. As a process it runs in `tests/e2e/test_locked_up.py`."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from deltalake import DeltaTable

from queue_access.calls import CALLS, Calls
from queue_access.doors import Doors
from queue_access.registry import Registry
from queue_tables.entries import AccessTable
from queue_tables.root import QueueRoot
from tests.support.access.locked import secret_of
from tests.support.command import lakequeue


def run(root: Path, *words: str, code: int = 0) -> str:
    """Standard output of a command."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "200")
        done = lakequeue("auth", *words, "--root", str(root))
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def registry(root: Path) -> Registry:
    return AccessTable(QueueRoot.existing(str(root))).registry()


@pytest.mark.timeout(300)
def test_a_queue_is_locked_and_a_program_gets_a_key(tmp_path: Path) -> None:
    root = tmp_path / "queue"
    admin = run(root, "init").strip()
    doors = Doors(Calls(CALLS["ingest"]), lambda: 0.0)
    doors.registry = registry(root)
    assert doors.admit("DELETE", "/v1/topics/orders", f"Bearer {admin}")[0].principal == "admin"
    assert "on already" in run(root, "init", code=8)

    file = tmp_path / "till.key"
    assert run(root, "key", "create", "till", "--expires", "90d", "--key-file", str(file)) == ""
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    run(root, "grant", "till", "producer", "--topic", "orders-*", "--topic", "bills")
    key = file.read_text().strip()
    doors.registry = registry(root)
    assert doors.admit("POST", "/v1/topics/orders-eu/records", f"Bearer {key}")[0].until > 0
    assert "over nothing" in run(root, "grant", "till", "producer", code=8)

    listed = json.loads(run(root, "key", "list", "--json"))
    assert sorted(one["principal"] for one in listed) == ["admin", "till"]
    everything = run(root, "list", "--json") + run(root, "list") + run(root, "key", "list")
    for secret in (admin, key):
        assert secret_of(secret) not in everything

    run(root, "key", "revoke", key)
    assert "no key" in run(root, "key", "revoke", key, code=8)
    run(root, "ungrant", "till", "producer", "--topic", "bills")
    assert "no such grant" in run(root, "ungrant", "till", "producer", "--topic", "bills", code=8)
    assert {g.pattern for g in registry(root).grants["till"]} == {"orders-*"}
    assert [k.principal for k in registry(root).keys.values()] == ["admin"]

    # A file that is there already is left alone, and no key counts that nobody has.
    keys = set(registry(root).keys)
    assert "does not exist yet" in run(
        root, "key", "create", "till", "--key-file", str(file), code=8
    )
    assert file.read_text().strip() == key
    assert set(registry(root).keys) == keys

    rows = DeltaTable(f"{root}/audit").to_pyarrow_table().to_pylist()
    assert [row["call"] for row in rows][:1] == ["lakequeue auth init"] or len(rows) >= 5
    assert {row["node"] for row in rows} == {"cli"}
    assert "till" in {row["name"] for row in rows}
    [granted] = [row for row in rows if row["call"] == "lakequeue auth grant producer"]
    assert "orders-*" in granted["after"]
    [taken] = [row for row in rows if row["call"] == "lakequeue auth ungrant producer"]
    assert "bills" in taken["before"]
    assert taken["after"] is None


def test_issuers_and_quotas_are_set_and_doors_opened_only_in_words(tmp_path: Path) -> None:
    root = tmp_path / "queue"
    run(root, "init")
    place = ("--url", "https://id.example.org/", "--jwks-url", "https://id.example.org/jwks")
    run(root, "issuer", "add", "corp", *place, "--audience", "lakequeue")
    assert "HS256" in run(
        root, "issuer", "add", "bad", *place, "--audience", "q", "--algorithm", "HS256", code=8
    )
    run(root, "grant", "corp/groups/analysts", "reader", "--topic", "*")
    run(root, "quota", "corp/ada", "--records-per-s", "100")
    found = registry(root)
    assert found.issuers["https://id.example.org/"].name == "corp"
    assert found.quota_of("corp/ada").records_per_s == 100
    run(root, "issuer", "remove", "corp")
    assert registry(root).issuers == {}
    assert "anybody" in run(root, "off", code=8)
    assert registry(root).locked
    run(root, "off", "--anybody-may-do-everything")
    assert not registry(root).locked


@pytest.mark.parametrize("name", ["a b", "a/b", "nodes-of-this-queue", "everybody", "", "a.b"])
def test_names_that_mean_somebody_else_are_refused(tmp_path: Path, name: str) -> None:
    root = tmp_path / "queue"
    QueueRoot.open(str(root))
    assert "principal" in run(root, "key", "create", name, code=8)
