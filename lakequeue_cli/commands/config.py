"""`lakequeue config show`: every setting, its value and where that comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import typer
from pydantic import BaseModel
from pydantic_settings import EnvSettingsSource, TomlConfigSettingsSource

from lakequeue.settings import Settings, settings_file
from lakequeue_cli.options import AsJson
from lakequeue_cli.output import print_json, print_table

app = typer.Typer(help="Show the settings.", no_args_is_help=True)


@app.callback()
def settings() -> None:
    """Settings come from the command line, LAKEQUEUE_*, lakequeue.toml or the defaults."""


@app.command()
def show(as_json: AsJson = False) -> None:
    """Show every setting with its value and source: environment, lakequeue.toml or default."""
    current = Settings()
    sources = {
        "environment": EnvSettingsSource(Settings)(),
        settings_file().name: TomlConfigSettingsSource(Settings, settings_file())(),
    }
    rows = [(name, value, source_of(name, sources)) for name, value in leaves(current)]
    if as_json:
        print_json({n: {"value": _plain(v), "source": s} for n, v, s in rows})
    else:
        print_table(("SETTING", "VALUE", "SOURCE"), rows)


def leaves(model: BaseModel, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted name, value) of each setting. Pure."""
    for name in type(model).model_fields:
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def source_of(name: str, sources: Mapping[str, Mapping[str, Any]]) -> str:
    """The first source that has the setting; "default" if none has. Pure."""
    for source, values in sources.items():
        found: Any = values
        for part in name.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        if found is not None:
            return source
    return "default"


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else str(value)
