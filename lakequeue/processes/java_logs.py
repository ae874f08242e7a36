"""The log of a Java process of ours, as log4j is told to write it: a JSON object a line."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

_WHEN = {"format": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'", "timeZone": "UTC"}
_LINE = {
    "event": "java.logged",
    "level": {"$resolver": "level", "field": "name"},
    "logger": {"$resolver": "logger", "field": "name"},
    "message": {"$resolver": "message", "stringified": True},
    "error": {
        "$resolver": "exception",
        "field": "stackTrace",
        "stackTrace": {"stringified": True},
    },
    "timestamp": {"$resolver": "timestamp", "pattern": _WHEN},
}
"""The names are those of the logs of our own processes. log4j leaves out what is empty."""


def log4j_settings(level: str, others: Mapping[str, str] | None = None) -> str:
    """The content of a `log4j2.properties`; `others`: classes that have a level of their own."""
    lines = [
        f"rootLogger.level = {level}",
        "rootLogger.appenderRef.stderr.ref = console",
        "appender.console.type = Console",
        "appender.console.name = console",
        "appender.console.target = SYSTEM_ERR",
        "appender.console.layout.type = JsonTemplateLayout",
        f"appender.console.layout.eventTemplate = {orjson.dumps(_LINE).decode()}",
    ]
    for number, (name, own) in enumerate((others or {}).items()):
        lines += [f"logger.own{number}.name = {name}", f"logger.own{number}.level = {own}"]
    return "\n".join(lines) + "\n"
