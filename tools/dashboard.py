"""The Grafana dashboard, made of `tools/panels.py`: `deploy/grafana/lakequeue.json`."""

from __future__ import annotations

import json
from typing import Any

from tools.panels import ROWS, Panel

_WIDTH, _HEIGHT, _COLUMNS = 8, 7, 3
_SOURCE = {"type": "prometheus", "uid": "${source}"}


def queries() -> list[str]:
    """Every query of the dashboard."""
    return [
        query for panels in ROWS.values() for panel in panels for query in panel.queries.values()
    ]


def dashboard_json() -> str:
    """The file that Grafana imports."""
    panels: list[dict[str, Any]] = []
    top = 0
    for row, graphs in ROWS.items():
        panels.append(
            {
                "id": len(panels) + 1,
                "type": "row",
                "title": row,
                "gridPos": {"x": 0, "y": top, "w": 24, "h": 1},
                "panels": [],
            }
        )
        top += 1
        for number, graph in enumerate(graphs):
            line, column = divmod(number, _COLUMNS)
            place = {
                "x": column * _WIDTH,
                "y": top + line * _HEIGHT,
                "w": _WIDTH,
                "h": _HEIGHT,
            }
            panels.append(_graph(len(panels) + 1, graph, place))
        top += -(-len(graphs) // _COLUMNS) * _HEIGHT
    return json.dumps(_dashboard(panels), indent=1, ensure_ascii=False) + "\n"


def _graph(number: int, graph: Panel, place: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": "timeseries",
        "title": graph.title,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": graph.unit, "min": None}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _SOURCE,
                "expr": query,
                "legendFormat": legend,
            }
            for index, (legend, query) in enumerate(graph.queries.items())
        ],
    }


def _dashboard(panels: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "uid": "lakequeue",
        "title": "lakequeue",
        "tags": ["lakequeue"],
        "timezone": "browser",
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "templating": {
            "list": [
                {
                    "name": "source",
                    "label": "Data source",
                    "type": "datasource",
                    "query": "prometheus",
                    "current": {},
                }
            ]
        },
        "panels": panels,
    }
