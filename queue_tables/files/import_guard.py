"""Keep pandas out of this process: pyarrow imports it at its first array; services have no use.

Where pandas is installed (it comes with PySpark) that costs the start or the first request a
quarter of a second of CPU, and the process tens of MiB for good. pyarrow asks once, and goes
without if it is not to be had.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import pyarrow as pa


class _NoPandas(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Refuse pandas, leave everything else to the finders behind."""
        if fullname == "pandas":
            raise ImportError("pandas is kept out of this process")
        return None


def keep_pandas_out() -> None:
    """Have pyarrow ask for pandas now, and not find it. Afterwards pandas can be imported again."""
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
