"""Who had a record can be read from the id of a member."""

from __future__ import annotations

import pytest

from queue_rules.groups.member_names import MOST_CHARS, member_id_of


@pytest.mark.parametrize(
    ("client", "found"),
    [
        ("till-7", "till-7-u"),
        ("host.example.org", "host.example.org-u"),
        ("a worker/of ours", "a-worker-of-ours-u"),
        ("::1", "1-u"),
        ("…", "u"),
        ("", "u"),
        ("..", "u"),
        ("x" * 300, "x" * MOST_CHARS + "-u"),
    ],
)
def test_an_id_begins_with_the_name_and_can_stand_in_a_path(client: str, found: str) -> None:
    assert member_id_of(client, "u") == found
