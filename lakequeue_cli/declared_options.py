"""Options of commands that come from the declarations of settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from pydantic import BaseModel

from lakequeue.arguments import duration_ms_of
from lakequeue.protobuf import text_of_file
from lakequeue.wire.declared import Declared, declared


def with_settings(
    *settings: Declared,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each setting, in place of its parameter `settings`.

    The command gets the settings that were typed, by name.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters.values()
        options = [_option(one) for one in settings]
        names = {one.name: option.name for one, option in zip(settings, options, strict=True)}

        def run(**given: Any) -> None:
            typed = {one.name: (one, given.pop(names[one.name])) for one in settings}
            command(settings=dict(_said(typed)), **given)

        shown: list[inspect.Parameter] = []
        for parameter in own:
            shown += options if parameter.name == "settings" else [parameter]
        keywords = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in shown]
        run.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined] # of functions
        run.__annotations__ = {p.name: p.annotation for p in keywords}
        run.__doc__, run.__name__ = command.__doc__, command.__name__
        return run

    return decorate


def settings_of(model: type[BaseModel], *names: str, alterable: bool = False) -> list[Declared]:
    """The settings of a model: those of these names, or all; or those that may be altered."""
    found = [one for one in declared(model) if one.setting.alterable or not alterable]
    return [one for one in found if not names or one.name in names]


def option_of(one: Declared) -> str:
    """The option of a setting: its name without the unit, unless it says otherwise."""
    plain = one.name.removesuffix("_ms").removesuffix("_percent")
    return one.setting.option or "--" + plain.replace("_", "-")


def _option(one: Declared) -> inspect.Parameter:
    setting = one.setting
    declarations = option_of(one).split("/")
    long = declarations[-1]
    kind: Any = one.type
    least = most = None
    if one.unit == "ms":
        kind = str
    elif kind is bool:
        declarations = [f"{long}/{setting.negation}"]
    elif setting.from_file:
        kind = Path
    elif kind is int:
        least, most = 0 if _taken_back(one) else setting.least, setting.most
    text = f"queue groups: {setting.doc}" if setting.of_queues else setting.doc
    info = typer.Option(
        *declarations,
        help=f"{text[0].upper()}{text[1:]}{_ending(one)}.",
        show_default=False,
        exists=setting.from_file,
        dir_okay=not setting.from_file,
        parser=_whole(least, most) if kind is int else None,
        # A terminal has 80 columns: the names of options take most of them.
        metavar=None if kind is bool else _metavar(one, kind),
    )
    name = long.removeprefix("--").replace("-", "_")
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, info],
    )


def _whole(least: int | None, most: int | None) -> Callable[[str], int]:
    """Reads a number within these bounds, as a range of typer does; `--help` has no room for it."""

    def whole(text: str) -> int:
        try:
            number = int(text)
        except ValueError as error:
            raise typer.BadParameter(f"{text!r} is no whole number") from error
        if (least is not None and number < least) or (most is not None and number > most):
            raise typer.BadParameter(f"{number} is not in the range {least}<=x<={most}")
        return number

    return whole


def _metavar(one: Declared, kind: Any) -> str:
    if one.unit == "ms":
        return "TIME"
    words = "|".join(get_args(kind))
    return {int: "N", Path: "FILE", str: "TEXT"}.get(kind, words if 0 < len(words) < 9 else "WORD")


def _ending(one: Declared) -> str:
    """What can be typed that is no plain number or word."""
    setting = one.setting
    terminal_states = ["500ms, 30s, 12h, 7d"] if one.unit == "ms" else []
    if setting.null is not None and not setting.from_file:
        zero = {"ms": "0s"}.get(one.unit or "", '""' if one.type is str else "0")
        terminal_states += (
            [f"{zero}: {setting.null}"] if _taken_back(one) else [f"default: {setting.null}"]
        )
    default = setting.stands_for if one.default is None and setting.null is None else one.default
    if default is not None and one.type is not bool:
        terminal_states += [f"default: {_duration(default) if one.unit == 'ms' else default}"]
    return f" ({'; '.join(terminal_states)})" if terminal_states else ""


def _duration(ms: Any) -> str:
    unit, name = next(u for u in _UNITS if ms % u[0] == 0)
    return f"{ms // unit}{name}"


_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms"))


def _taken_back(one: Declared) -> bool:
    """Whether 0 (of text: none) can be typed for null."""
    setting = one.setting
    return setting.null is not None and setting.least != 0 and not setting.from_file


def _said(typed: Mapping[str, tuple[Declared, Any]]) -> Iterator[tuple[str, Any]]:
    for name, (one, value) in typed.items():
        if value is None:
            continue
        if one.unit == "ms":
            value = duration_ms_of(value)
        elif one.setting.from_file:
            data = value.read_bytes()
            value = text_of_file(data) if name == "value_schema" else data.decode()
        yield name, value or None if _taken_back(one) else value
