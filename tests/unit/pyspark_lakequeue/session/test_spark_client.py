"""`lakequeue.spark` where PySpark is the client of Spark Connect alone, without py4j."""

from __future__ import annotations

import subprocess
import sys

CLIENT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "py4j" or name == "pyspark.core":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
import lakequeue.spark
"""


def test_it_can_be_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CLIENT], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
