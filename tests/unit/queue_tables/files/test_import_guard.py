"""Starting without what is not needed."""

from __future__ import annotations

import subprocess
import sys


def test_services_make_arrays_without_pandas_and_users_of_pandas_are_not_hindered() -> None:
    script = """
import sys
import pyarrow as pa
import consumer_service.server
import ingest.server
assert "pandas" not in sys.modules, "an array was made while a service was imported"
from queue_tables.files.import_guard import keep_pandas_out
keep_pandas_out()
assert pa.array(["a", None]).to_pylist() == ["a", None]
assert pa.table({"a": pa.array([1])}).to_pylist() == [{"a": 1}]
assert "pandas" not in sys.modules
assert not any(type(f).__name__ == "_NoPandas" for f in sys.meta_path)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
