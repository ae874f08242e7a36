"""Every setting, once: command line > `LAKEQUEUE_*` > `lakequeue.toml` > the defaults here.
`LAKEQUEUE_CONFIG` names another file in place of `lakequeue.toml`.

Each component is handed its own slice (`settings.ingest`, `settings.order`, …); nothing else in
the code reads the environment. `docs/configuration.md` is generated from this file.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from lakequeue.errors import InvalidSetting
from lakequeue.settings.doors import AccessSettings as AccessSettings
from lakequeue.settings.doors import FrontSettings as FrontSettings
from lakequeue.settings.doors import TlsSettings as TlsSettings
from lakequeue.settings.services import ConsoleSettings as ConsoleSettings
from lakequeue.settings.services import ConsumerSettings as ConsumerSettings
from lakequeue.settings.services import DriverSettings as DriverSettings
from lakequeue.settings.services import IngestSettings as IngestSettings
from lakequeue.settings.services import OffsetsSettings as OffsetsSettings
from lakequeue.settings.services import OrderSettings as OrderSettings
from lakequeue.settings.services import SqsSettings as SqsSettings
from lakequeue.settings.zookeeper import CoordinationSettings as CoordinationSettings
from lakequeue.settings.zookeeper import ServerSettings as ServerSettings

_PREFIX = "LAKEQUEUE_"
_IN_URL = re.compile(r"://[^/,]*@")
CONFIG_VARIABLE = "LAKEQUEUE_CONFIG"
"""Names the file of settings, for every command and process."""


class Settings(BaseSettings):
    """All settings; frozen. Raises `InvalidSetting` if one is wrong."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX,
        env_nested_delimiter="__",
        frozen=True,
        extra="forbid",
    )

    root: str = Field("./lakequeue-data", description="root URI or directory of the queue")
    zookeeper: str | None = Field(
        None,
        description="host:port,… of your own ensemble; without it an embedded server is started",
    )
    node: str | None = Field(None, description="name of this node; default <role>-<host>")
    work_dir: Path | None = Field(
        None,
        description="local folder for checkpoints and logs; default <root>/_work or temporary",
    )
    api_key: SecretStr | None = Field(
        None, description="API key or token that clients and the command line show"
    )
    api_key_file: Path | None = Field(
        None, description="file with the key or token; read again if it changes"
    )
    ca: Path | None = Field(
        None, description="file of the certificates that clients trust; default: the system's"
    )
    cert: Path | None = Field(None, description="file of a client's certificate")
    key: Path | None = Field(None, description="file of its private key, if it is another one")
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        BeforeValidator(lambda given: given.lower() if isinstance(given, str) else given),
    ] = Field("info", description="debug, info, warning or error")
    crash_at: str | None = Field(None, description="for fault tests: step[:count[:kill|stop]]")

    ingest: IngestSettings = IngestSettings()
    order: OrderSettings = OrderSettings()
    offsets: OffsetsSettings = OffsetsSettings()
    driver: DriverSettings = DriverSettings()
    front: FrontSettings = FrontSettings()
    access: AccessSettings = AccessSettings()
    tls: TlsSettings = TlsSettings()
    consumer: ConsumerSettings = ConsumerSettings()
    console: ConsoleSettings = ConsoleSettings()
    sqs: SqsSettings = SqsSettings()
    coordination: CoordinationSettings = CoordinationSettings()
    server: ServerSettings = ServerSettings()

    def __init__(self, **given: Any) -> None:
        # pydantic-settings skips variables whose first part names no field.
        known = {name.split(".")[0] for name in meanings()} | {"config"}
        stray = next(stray_variables(os.environ, known), None)
        if stray is not None:
            raise unknown(stray)
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise explain(error) from error
        except SettingsError as error:
            raise no_json(error) from None
        except tomllib.TOMLDecodeError as error:
            raise InvalidSetting(
                f"{settings_file()} is no TOML: {error}", hint="docs/configuration.md has examples"
            ) from None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Command line (given as init arguments) > environment > toml > defaults."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, settings_file())


def settings_file() -> Path:
    """The file of settings: `LAKEQUEUE_CONFIG`, else lakequeue.toml, which need not be there.

    Raises `InvalidSetting`.
    """
    named = os.environ.get(CONFIG_VARIABLE)
    if named is None:
        return Path("lakequeue.toml")
    if not Path(named).is_file():
        raise InvalidSetting(
            f"the settings file {named} does not exist",
            hint=f"{CONFIG_VARIABLE} or `lakequeue run … --config` must name an existing file",
        )
    return Path(named)


def meanings(model: type[BaseModel] = Settings, prefix: str = "") -> dict[str, str]:
    """Dotted name → meaning of each setting. Pure."""
    found: dict[str, str] = {}
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            found |= meanings(field.annotation, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = field.description or ""
    return found


def no_json(error: SettingsError) -> InvalidSetting:
    """What is wrong with a variable that is no JSON where a list or a slice is wanted. Pure."""
    field = str(error).partition('field "')[2].partition('"')[0]
    wanted = [name for name in meanings() if name.split(".")[0] == field]
    lists = ", ".join(variable(name) for name in wanted if "JSON list" in meanings()[name])
    as_list = f'{lists}: a list, as in ["a.example.org"]; ' if lists else ""
    return InvalidSetting(
        f"a value of {field} is no JSON", hint=f"{as_list}{variable(field)}: an object"
    )


def may_be_shown(parts: Sequence[str | int], model: type[BaseModel] = Settings) -> bool:
    """Whether what was given for a setting may stand in an error: no secret, and no slice that has
    one. Pure.
    """
    named = str(parts[0]) if parts else None
    for name, field in model.model_fields.items():
        kind = field.annotation
        if named not in {name, None}:
            continue
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            if not may_be_shown(parts[1:], kind):
                return False
        elif SecretStr in {kind, *get_args(kind)}:
            return False
    return True


def variable(name: str) -> str:
    """The environment variable of the setting with this dotted name. Pure."""
    return _PREFIX + name.upper().replace(".", "__")


def stray_variables(environ: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    """Dotted names that variables of ours give and whose first part is none of `known`. Pure."""
    for each in environ:
        if each.upper().startswith(_PREFIX):
            name = each[len(_PREFIX) :].lower().replace("__", ".")
            if name.split(".")[0] not in known:
                yield name


def unknown(name: str) -> InvalidSetting:
    """The error for a setting that does not exist. Pure."""
    near = difflib.get_close_matches(name, meanings(), n=1)
    guess = f"did you mean {near[0]} ({variable(near[0])})? " if near else ""
    return InvalidSetting(
        f"there is no setting {name} ({variable(name)})",
        hint=f"{guess}docs/configuration.md lists all settings",
    )


def explain(error: ValidationError) -> InvalidSetting:
    """What is wrong with the first setting at fault, and what to do. Pure."""
    problem = error.errors()[0]
    name = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return unknown(name)
    meaning = meanings().get(name)
    given = f" = {problem['input']!r}" if may_be_shown(problem["loc"]) else ""
    given = _IN_URL.sub("://…@", given)
    return InvalidSetting(
        f"setting {name}{given}: {problem['msg']}",
        hint=(f"{meaning}; " if meaning else "")
        + f"set it on the command line, by {variable(name)} or in lakequeue.toml",
    )
