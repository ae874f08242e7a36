"""`import lakequeue` and the SDK stay light."""

import subprocess
import sys

import lakequeue

PROGRAM = """
import sys
import lakequeue
assert "httpx2" not in sys.modules, "nothing is loaded before it is used"
from lakequeue import Admin, AsyncConsumer, AsyncProducer, Consumer, Producer
heavy = {"pyspark", "deltalake", "obstore", "pyarrow", "kazoo", "flask", "pandas", "numpy"}
print(sorted(heavy & {m.split(".")[0] for m in sys.modules}))
"""


def test_the_sdk_loads_neither_spark_nor_delta_nor_arrow_nor_zookeeper_nor_flask() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_old_public_names_are_still_valid() -> None:
    assert lakequeue.Delivered is lakequeue.RecordMetadata


TESTING = """
import sys
from lakequeue.testing import MemoryQueue
heavy = {"pyspark", "deltalake", "obstore", "pyarrow", "kazoo", "flask", "pandas"}
print(sorted(heavy & {m.split(".")[0] for m in sys.modules}))
"""


def test_the_memory_queue_loads_none_of_them_either() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TESTING], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
