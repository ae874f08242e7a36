"""What the command lines of the console and of the gateway set."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import pytest

import console.__main__ as console
import sqs_gateway.__main__ as sqs
from serving.asking_command import settings_of


@pytest.mark.parametrize(("section", "module"), [("console", console), ("sqs", sqs)])
def test_options_are_set_in_the_section_of_the_process(section: str, module: Any) -> None:
    parser: Callable[[], argparse.ArgumentParser] = module.parser
    options = ["--port", "0", "--ingest-url", "http://a:1,http://b:1", "--log-level", "debug"]
    args = parser().parse_args(options)
    settings = settings_of(args, section, module.own(args))
    assert getattr(settings, section).port == 0
    assert settings.log_level == "debug"
    assert settings.ingest.url == "http://a:1,http://b:1"


def test_what_is_not_given_is_left_to_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEQUEUE_CONSOLE__PORT", "9999")
    args = console.parser().parse_args(["--read-only", "--driver-url", "http://d:1,http://e:1"])
    found = settings_of(args, "console", console.own(args)).console
    assert (found.port, found.read_only) == (9999, True)
    assert found.drivers == ("http://d:1", "http://e:1")
