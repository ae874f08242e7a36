"""Write what comes from declarations: pages of `docs/`, and the dashboard of `deploy/grafana`.

`python -m tools.generate_docs` writes them; with `--check` it only says which are stale, and ends
with status 1 if any is.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from lakequeue.errors import Broken, Fenced, LakequeueError, Rejected, TryAgain, every
from lakequeue.metrics import ROLES
from lakequeue.metrics.declaring import MOST_VALUES, OTHER, Metric
from lakequeue.metrics.every import EVERY
from lakequeue.option_help import options_of
from lakequeue.settings import Settings
from lakequeue.wire import JoinRequest
from lakequeue.wire.calls.topics import TopicSettings
from lakequeue.wire.declared import Declared, declared
from lakequeue_cli.declared_options import option_of
from queue_access import rights as access_rights
from queue_access.calls import CALLS
from queue_tables.delta.columns import Table
from queue_tables.schema.formats import NUMBER
from queue_tables.schema.schemas import TABLES
from tools.dashboard import dashboard_json
from tools.documents.docstrings import OPTIONS, sdk
from tools.documents.http_reference import http_page
from tools.documents.openapi_documents import SERVICES, kept
from tools.documents.reference import reference_page

DOCS = Path(__file__).parents[1] / "docs"
GRAFANA = Path(__file__).parents[1] / "deploy" / "grafana"


def tables_page(tables: Mapping[str, Table]) -> str:
    """One section a table: where it lies, who commits to it, its columns."""
    lines = [
        "# Tables",
        "",
        "Generated from `queue_tables/schema/schemas.py` by `make docs`; do not edit.",
        "",
        f"Format {NUMBER}. All are Delta tables below the queue's root. Times are UTC, to the "
        "microsecond.",
        "",
        "| table | path | partitioned by | committed by |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| [{t.name}](#{t.name}) | `{_path(t)}` | {', '.join(t.partition_by) or '–'} "
        f"| {t.committed_by} |"
        for t in tables.values()
    ]
    for table in tables.values():
        lines += ["", f"## {table.name}", "", table.doc, ""]
        if table.stats:
            lines += [f"Statistics in each file: {', '.join(table.stats)}.", ""]
        lines += ["| column | type | meaning |", "|---|---|---|"]
        lines += [
            f"| `{name}` | {spark.lower()} | {_cell(column.doc)} |"
            for column, (name, spark) in zip(table.columns, _types(table), strict=True)
        ]
    return "\n".join(lines) + "\n"


def _path(table: Table) -> str:
    return f"{table.name}/<node>-<boot>" if table.sharded else table.name


def _types(table: Table) -> Iterator[tuple[str, str]]:
    """(name, Spark type) of each column."""
    for column in table.columns:
        alone = Table(table.name, "", "", (column,))
        name, _, spark = alone.spark_ddl.partition(" ")
        yield name.strip("`"), spark


def configuration_page(settings: type[BaseModel]) -> str:
    """Every setting: its three names, its default, what it does."""
    lines = [
        "# Configuration",
        "",
        "Generated from `lakequeue/settings/` by `make docs`; do not edit.",
        "",
        "A setting can come from four places. The first one that has it counts:",
        "",
        "1. an option of the command line,",
        "2. a variable `LAKEQUEUE_*` in the environment,",
        "3. `lakequeue.toml` in the working directory, or the file that `LAKEQUEUE_CONFIG` names,",
        "4. the default in the tables below.",
        "",
        "An unknown setting is an error.",
    ]
    slices: dict[str, type[BaseModel]] = {}
    top: dict[str, FieldInfo] = {}
    for name, info in settings.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            slices[name] = info.annotation
        else:
            top[name] = info
    lines += ["", "## The queue", "", *_settings_table(top, "")]
    for name, model in slices.items():
        title = (model.__doc__ or name).strip().rstrip(".")
        lines += ["", f"## `[{name}]`: {title}", "", *_settings_table(model.model_fields, name)]
    return "\n".join(lines) + "\n"


def _settings_table(fields: Mapping[str, FieldInfo], section: str) -> list[str]:
    lines = ["| `lakequeue.toml` | environment | default | meaning |", "|---|---|---|---|"]
    for name, info in fields.items():
        variable = "LAKEQUEUE_" + (f"{section}__{name}" if section else name).upper()
        default = _default(info.default)
        lines.append(f"| `{name}` | `{variable}` | {default} | {_cell(info.description or '')} |")
    return lines


def topic_settings_page() -> str:
    """Every setting of topics and of groups."""
    lines = [
        "# Settings of topics and groups",
        "",
        "Generated from `lakequeue/wire/calls/topics.py` and `groups.py` by `make docs`; do not "
        "edit.",
        "",
        "Whoever creates a topic gives its settings: `PUT /v1/topics/{topic}` with "
        '`{"partitions": 8}`, `admin.create_topic("orders", partitions=8)`, or '
        "`lakequeue topic create orders -p 8`. On the command line, times are written as `500ms`, "
        "`30s`, `12h` or `7d`.",
        "",
        "## Topics",
        "",
        *_declared_table(TopicSettings),
        "",
        "## Groups",
        "",
        "The first member of a group gives its options, and they stay until the group is deleted. "
        "`max_in_flight` is each member's own. The retry policy of a topic comes before that of "
        "a group. All but `predicate` and `undecodable` are for queue groups.",
        "",
        *_declared_table(JoinRequest),
    ]
    return "\n".join(lines) + "\n"


def _declared_table(model: type[BaseModel]) -> list[str]:
    lines = ["| setting | option | default | allowed | meaning |", "|---|---|---|---|---|"]
    for one in declared(model):
        setting = one.setting
        default = setting.null or setting.stands_for if one.default is None else one.default
        meaning = setting.doc + ("" if setting.alterable else "; cannot be altered")
        lines.append(
            f"| `{one.name}` | `{option_of(one)}` | {_cell(_plain(default))} | {_allowed(one)} "
            f"| {_cell(meaning)} |"
        )
    return lines


def _plain(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else str(value)


def _allowed(one: Declared) -> str:
    if one.type is bool:
        return "true, false"
    if one.type is int:
        return f"{one.setting.least:,} to {one.setting.most:,}"
    words = get_args(one.type)
    return " or ".join(f"`{word}`" for word in words) if words else "text"


def metrics_page() -> str:
    """Every metric, by the processes that export it."""
    lines = [
        "# Metrics",
        "",
        "Generated from `lakequeue/metrics/` by `make docs`; do not edit.",
        "",
        "Each process answers `GET /metrics` in Prometheus' text format: ingest nodes (port 8080), "
        "consumer-service nodes (8081) and drivers (8082). Each of them also exports the usual "
        "`process_*` metrics: memory, processor time, file descriptors. Gauges are computed when "
        "Prometheus scrapes them, and never in between.",
        "",
        f"In one process, a label `group` or `topic` has at most {MOST_VALUES} values. All further "
        f"values are counted together as `{OTHER}`. A value that was not counted for an hour makes "
        "room for a new one.",
        "",
        "Some metrics are known only to a leader, and only that leader exports them. So a sum over "
        "all instances counts nothing twice.",
        "",
        "How to scrape, the dashboard and the alerts: [operations.md](operations.md#watching-it).",
    ]
    sections: dict[str, Iterable[Metric]] = {"every process": EVERY, **ROLES}
    for title, metrics in sections.items():
        lines += ["", f"## {title[0].upper()}{title[1:]}", ""]
        lines += ["| metric | type | labels | meaning |", "|---|---|---|---|"]
        lines += [
            f"| `{m.name}` | {m.kind} | {', '.join(m.labels) or '–'} | {_cell(m.doc)} |"
            for m in metrics
        ]
    return "\n".join(lines) + "\n"


def decisions_page(folder: Path) -> str:
    """The index of the decisions, by their titles."""
    lines = [
        "# Decisions",
        "",
        "Generated from the titles of the pages by `make docs`; do not edit.",
        "",
        "Each page records one decision: the question, the decision, and what follows from it. A "
        "page has a date, and its substance never changes. If a newer decision extends or replaces "
        "an older one, the newer page says so.",
        "",
        "| number | what was decided |",
        "|---|---|",
    ]
    for page in sorted(folder.glob("[0-9]*.md")):
        title = page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        lines.append(f"| [{page.name[:4]}]({page.name}) | {_cell(title[4:].lstrip(' ·:'))} |")
    return "\n".join(lines) + "\n"


def errors_page() -> str:
    """Every error: its code, what it means for HTTP and for commands, and what to do."""
    lines = [
        "# Errors",
        "",
        "Generated from `lakequeue/errors/` by `make docs`; do not edit.",
        "",
        "A service answers an error as `application/problem+json` with `code`, `detail` (the "
        "numbers), `hint` (what to do) and `retryable`. The SDK raises a class of the same name, "
        "and a command ends with the exit code. If `retryable` is true, the same request can "
        "succeed later.",
    ]
    found = every().values()
    for branch in (Rejected, Fenced, TryAgain, Broken):
        lines += ["", f"## {branch.__name__}", "", _first_line(branch), ""]
        lines += ["| code | status | exit code | what to do |", "|---|---|---|---|"]
        lines += [
            f"| `{one.code}` | {one.http_status} | {one.exit_code} | {_cell(_first_line(one))} |"
            for one in sorted(found, key=lambda one: one.code)
            if issubclass(one, branch) and one is not branch
        ]
    return "\n".join(lines) + "\n"


def _first_line(error: type[LakequeueError]) -> str:
    return " ".join((error.__doc__ or "").partition("\n\n")[0].split())


def _default(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}" if value >= 100_000 else str(value)
    return f"`{value}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def rights_page() -> str:
    """Which right each call of each service needs."""
    lines = [
        "# Calls and rights",
        "",
        "Generated from `queue_access/calls.py` by `make docs`; do not edit.",
        "",
        "While authentication is on, a call needs the right in this table; else it is refused. "
        "*known*: whoever has shown who they are. *any*: any right over what the call is about. "
        "How rights are given: [security.md](security.md).",
    ]
    for service, calls in CALLS.items():
        lines += ["", f"## {service}", "", "| call | right | over | besides |", "|---|---|---|---|"]
        for call in calls:
            right = "nothing" if call.needs is None else str(call.needs)
            over = "" if call.needs in {None, "known"} else str(call.kind)
            also = "; ".join(f"{a.right} over the {a.kind} in `{a.field}`" for a in call.also)
            lines.append(f"| `{call.method} {call.path}` | {right} | {over} | {also} |")
    lines += ["", "## Roles", "", "| role | rights |", "|---|---|"]
    for name, parts in access_rights.ROLES.items():
        said = "; ".join(f"{right} over {', '.join(kinds)}" for right, kinds in parts)
        lines.append(f"| `{name}` | {said} |")
    return "\n".join(lines) + "\n"


def _reference(project: Path) -> str:
    options = {
        name: options_of((project / path).read_text(), name) for name, path in OPTIONS.items()
    }
    return reference_page(sdk(project), options)


def pages() -> dict[Path, str]:
    """Every generated page: path → content."""
    return {
        DOCS / "tables.md": tables_page(TABLES),
        DOCS / "configuration.md": configuration_page(Settings),
        DOCS / "topic-settings.md": topic_settings_page(),
        DOCS / "errors.md": errors_page(),
        DOCS / "metrics.md": metrics_page(),
        DOCS / "http-reference.md": http_page({name: kept(name) for name in SERVICES}),
        DOCS / "rights.md": rights_page(),
        DOCS / "reference.md": _reference(Path(__file__).parents[1]),
        DOCS / "decisions" / "README.md": decisions_page(DOCS / "decisions"),
        GRAFANA / "lakequeue.json": dashboard_json(),
    }


def main(arguments: list[str] | None = None) -> int:
    """Write the pages, or check them; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail when stale")
    check = parser.parse_args(arguments).check
    stale = [
        path
        for path, content in pages().items()
        if not path.exists() or path.read_text(encoding="utf-8") != content
    ]
    for path in stale:
        if check:
            print(f"{path.relative_to(DOCS.parent)} is stale: run `make docs` and commit it")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(pages()[path], encoding="utf-8")
            print(f"wrote {path.relative_to(DOCS.parent)}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
