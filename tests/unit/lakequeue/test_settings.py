"""A setting that is wrong is named, with what to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from lakequeue.errors import InvalidSetting
from lakequeue.settings import Settings, meanings, stray_variables, variable


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("LAKEQUEUE_INGEST__PORTT", "1", "did you mean ingest.port (LAKEQUEUE_INGEST__PORT)?"),
        ("LAKEQUEUE_ZOOKEPER", "a:1", "did you mean zookeeper (LAKEQUEUE_ZOOKEEPER)?"),
        ("LAKEQUEUE_FOO__BAR", "1", "there is no setting foo.bar (LAKEQUEUE_FOO__BAR)"),
        ("LAKEQUEUE_ORDER__POLL_S", "soon", "by LAKEQUEUE_ORDER__POLL_S or in lakequeue.toml"),
        ("LAKEQUEUE_INGEST", "3", "setting ingest = 3"),
        ("LAKEQUEUE_LOG_LEVEL", "loud", "setting log_level = 'loud'"),
        ("LAKEQUEUE_ACCESS__HOSTS", "a.example.org", 'LAKEQUEUE_ACCESS__ORIGINS: a list, as in ["'),
        ("LAKEQUEUE_COORDINATION", '{"password": secret}', "a value of coordination is no JSON"),
        ("LAKEQUEUE_ORDER__POLL_S", "1e20", "order.poll_s = '1e20': Value error, at most 1000000"),
        ("LAKEQUEUE_CONSUMER__MAX_POLL_INTERVAL_MS", "9" * 20, "at most 1000000000000"),
        ("LAKEQUEUE_FRONT__MAX_WAITS", "9" * 20, "at most 4611686018427387904"),
        ("LAKEQUEUE_ORDER__DRIVER_MEMORY", "lots", "setting order.driver_memory = 'lots'"),
    ],
)
def test_a_variable_that_cannot_be_is_named(
    name: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(InvalidSetting) as caught:
        Settings()
    assert said in f"{caught.value.detail}; {caught.value.hint}"
    assert caught.value.hint


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("api_key = 20261129", "api_key"),
        ("coordination = 20261129", "coordination"),
        ("[coordination]\npassword = 20261129", "coordination.password"),
        ("[coordination]\npassword = [20261129]", "coordination.password"),
        ('[ingest]\nurl = "https://a:1,http://ada:20261129@b:8080/"', "ingest.url"),
    ],
)
def test_a_secret_of_a_wrong_kind_is_named_and_not_shown(
    nowhere: Path, file: str, name: str
) -> None:
    (nowhere / "lakequeue.toml").write_text(file)
    with pytest.raises(InvalidSetting) as caught:
        Settings()
    assert caught.value.detail.startswith(f"setting {name}")
    assert "20261129" not in f"{caught.value.detail} {caught.value.hint}"


def test_so_is_an_entry_of_the_file(nowhere: Path) -> None:
    (nowhere / "lakequeue.toml").write_text('roott = "x"\n')
    with pytest.raises(InvalidSetting, match="did you mean root "):
        Settings()


def test_a_file_that_is_no_toml_is_named_and_not_shown(nowhere: Path) -> None:
    (nowhere / "lakequeue.toml").write_text('api_key = "20261129\n')
    with pytest.raises(InvalidSetting, match=r"lakequeue\.toml is no TOML") as caught:
        Settings()
    assert "20261129" not in str(caught.value)


def test_every_setting_is_found_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert meanings()["ingest.port"]
    monkeypatch.setenv("LAKEQUEUE_INGEST__PORT", "7")
    monkeypatch.setenv("lakequeue_zookeeper", "a:1")
    settings = Settings()
    assert (settings.ingest.port, settings.zookeeper) == (7, "a:1")
    assert Settings(log_level="INFO").log_level == "info"
    assert list(stray_variables(["LAKEQUEUE_ROOT", "PATH", "LAKEQUEUE_X__Y"], ["root"])) == ["x.y"]


def test_another_file_of_settings_can_be_named(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (nowhere / "cluster.toml").write_text('root = "s3://bucket/queue"\n[server]\nnumber = 2\n')
    monkeypatch.setenv("LAKEQUEUE_CONFIG", str(nowhere / "cluster.toml"))
    assert (Settings().root, Settings().server.number) == ("s3://bucket/queue", 2)
    monkeypatch.setenv("LAKEQUEUE_CONFIG", "gone.toml")
    with pytest.raises(InvalidSetting, match="the settings file gone"):
        Settings()


def _numbers(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _numbers(field.annotation, f"{prefix}{name}.")
        elif field.annotation in {int, float}:
            yield f"{prefix}{name}", field


NUMBERS = dict(_numbers(Settings))


@pytest.mark.parametrize("name", NUMBERS)
def test_each_number_has_a_lowest_value_and_what_is_below_is_refused_by_name(name: str) -> None:
    assert any(hasattr(one, "ge") or hasattr(one, "gt") for one in NUMBERS[name].metadata)
    section, _, setting = name.partition(".")
    for wrong in (-1, "nan", "inf"):
        with pytest.raises(InvalidSetting, match=name.replace(".", r"\.")) as refused:
            Settings(**{section: {setting: wrong}})
        assert variable(name) in refused.value.hint
