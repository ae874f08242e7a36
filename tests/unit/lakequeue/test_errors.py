"""The same error on both sides of the wire."""

import pytest

from lakequeue import errors


def test_an_error_survives_the_wire() -> None:
    sent = errors.Overloaded("64 MiB wait", hint="slow down", stored="no", retry_after_s=2.0, n=7)
    got = errors.from_problem(sent.to_problem(), sent.http_status)
    assert type(got) is errors.Overloaded
    assert (got.detail, got.hint, got.stored) == ("64 MiB wait", "slow down", "no")
    assert (got.retry_after_s, got.extra) == (2.0, {"n": 7})


@pytest.mark.parametrize(
    ("status", "kind"), [(502, errors.TryAgain), (429, errors.TryAgain), (418, errors.Rejected)]
)
def test_unknown_codes_are_judged_by_their_status(
    status: int, kind: type[errors.LakequeueError]
) -> None:
    assert isinstance(errors.from_problem({"code": "from_the_future"}, status), kind)
