"""What is said of the end of a stream: the texts are those of Spark 4.2, shortened."""

from __future__ import annotations

import pytest

from jobs.feeds.ended import said_of

PLAN = """
 SQLSTATE: 38000
=== Streaming Query ===
Current State: ACTIVE
+- ~Project [if (...) value#1 else cast(raise_error(USER_RAISED_EXCEPTION, map(errorMessage, ...
"""


def in_a_task(module: str, error: str) -> str:
    return f"""[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback:
  File "/x/pyspark_lakequeue/sink/writer.py", line 119, in write_files
    for rows in _files(shape(pa.Table.from_batches([b])) for b in batches):
  File "/x/pyspark_lakequeue/sink/{module}.py", line 40, in shape
    raise InvalidRequest(
lakequeue.errors.rejected.{error}{PLAN}"""


@pytest.mark.parametrize(
    ("module", "error", "detail"),
    [
        ("judged_values", "InvalidRequest", "a value for topic 'orders' breaks its schema; filter"),
        (
            "inbox_rows",
            "TooLarge",
            "a record of 215 bytes for topic 'orders', the limit is 5; less",
        ),
    ],
)
def test_of_a_record_that_its_topic_refuses_it_names_the_option_that_takes_it(
    module: str, error: str, detail: str
) -> None:
    said = said_of(in_a_task(module, f"{error}: {detail}"))
    assert said is not None
    assert said.splitlines()[0] == detail
    assert said.splitlines()[1].strip().startswith("--bad-topic NAME")


def test_a_line_that_is_no_json_goes_there_as_well() -> None:
    trace = f"[USER_RAISED_EXCEPTION] no JSON in file:/in/a.json: {{half SQLSTATE: P0001{PLAN}"
    said = (said_of(trace) or "").splitlines()
    assert said[0] == "no JSON in file:/in/a.json: {half"
    assert "--bad-topic" in said[1]


@pytest.mark.parametrize(
    ("trace", "said"),
    [
        (in_a_task("bad_rows", "InvalidRequest: topic 'bad' refuses one; give it"), "topic 'bad'"),
        (
            "[PYTHON_DATA_SOURCE_ERROR] Failed to initialize Python data source writer: Traceback"
            ' (most recent call last):\n  File "/x/pyspark_lakequeue/plain_errors.py", line 30, in'
            " plain\n    raise refused from None\nlakequeue.errors.rejected.InvalidRequest: column"
            f" 'headers' is int; it must be an array{PLAN}",
            "column 'headers' is int",
        ),
        (f"[USER_RAISED_EXCEPTION] mine SQLSTATE: P0001{PLAN}", "mine"),
    ],
)
def test_of_what_the_option_does_not_help_against_it_says_only_what_it_is(
    trace: str, said: str
) -> None:
    found = said_of(trace)
    assert found is not None
    assert found.startswith(said)
    assert "--bad-topic" not in found
    assert "Traceback" not in found


def test_what_is_not_ours_is_left_as_spark_says_it() -> None:
    assert said_of("[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `nothing` cannot be") is None
