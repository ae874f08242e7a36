"""What a client shows: one key or token, and nothing that an error would print."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakequeue.calling.credentials import Credentials
from lakequeue.errors import InvalidSetting

KEY = "lq_abc_c2VjcmV0"


@pytest.mark.parametrize("given", [KEY, f"{KEY}\n", f" {KEY}\r\n"])
def test_white_space_around_a_key_is_no_part_of_it(given: str, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(given)
    assert Credentials(given).secret == KEY
    assert Credentials(lambda: given).secret == KEY
    assert Credentials(api_key_file=file).secret == KEY


@pytest.mark.parametrize("given", ["", " \n"])
def test_an_empty_one_is_none(given: str) -> None:
    assert Credentials(given).secret is None


@pytest.mark.parametrize("given", [f"{KEY}\r\nlq_b_c", f"{KEY} # mine", f"{KEY}\x7f", f"ü{KEY}"])
def test_what_no_header_takes_is_refused_before_a_library_prints_it(
    given: str, tmp_path: Path
) -> None:
    file = tmp_path / "key"
    file.write_text(given)
    for credentials in (Credentials(given), Credentials(api_key_file=file)):
        with pytest.raises(InvalidSetting) as refused:
            _ = credentials.secret
        assert "c2VjcmV0" not in str(refused.value)


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidSetting, match="it is no text"):
        _ = Credentials(api_key_file=file).secret
