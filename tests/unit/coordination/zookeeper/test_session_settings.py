"""What a session refuses before it connects."""

import pytest

from coordination.zookeeper.session import Session, repeated
from lakequeue.errors import InvalidName, InvalidRequest
from lakequeue.settings import CoordinationSettings


def test_a_margin_that_leaves_no_trust_is_refused() -> None:
    settings = CoordinationSettings(session_timeout_s=2.0, lease_margin_s=1.5)
    with pytest.raises(InvalidRequest, match="at most half"):
        Session("127.0.0.1:1", "q", "a", settings)


def test_a_node_name_that_could_not_be_a_path_is_refused() -> None:
    with pytest.raises(InvalidName, match="node name 'a/b'"):
        Session("127.0.0.1:1", "q", "a/b")


def test_a_session_that_never_started_is_not_trusted() -> None:
    session = Session("127.0.0.1:1", "q", "a")
    assert not session.trusted()


def test_a_server_that_never_answers_costs_a_fraction_of_the_session_timeout() -> None:
    assert repeated("a:1") == "a:1,a:1,a:1,a:1,a:1"
    assert repeated("a:1,b:2,c:3/root") == "a:1,b:2,c:3,a:1,b:2,c:3/root"
