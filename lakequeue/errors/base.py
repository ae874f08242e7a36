"""What every error has, and the list of all."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

Stored = Literal["no", "unknown", "yes"]


class LakequeueError(Exception):
    """Base of every error that lakequeue raises on purpose."""

    code: ClassVar[str] = "error"
    """Name of the kind of error, on the wire and in logs."""
    http_status: ClassVar[int] = 500
    """Status that the services answer with."""
    retryable: ClassVar[bool] = False
    """Whether the same call may succeed later."""
    exit_code: ClassVar[int] = 1
    """What a command ends with that fails for it."""

    def __init__(
        self,
        detail: str,
        *,
        hint: str = "",
        stored: Stored | None = None,
        retry_after_s: float | None = None,
        **extra: Any,
    ) -> None:
        super().__init__(f"{detail}; {hint}" if hint else detail)
        self.detail = detail
        """What happened."""
        self.hint = hint
        """What to do about it; empty if nothing is known."""
        self.stored = stored
        """Whether what was sent is stored, where that is a question."""
        self.retry_after_s = retry_after_s
        """Seconds to wait before the same call, if the service says so."""
        self.extra: dict[str, Any] = extra
        """What else the problem says: topic, partition, field, …"""

    def to_problem(self) -> dict[str, Any]:
        """The error as the services send it.

        Returns:
            The body of problem+json: type, title, status, code, detail, hint, retryable, ….
        """
        body: dict[str, Any] = {
            "type": f"urn:lakequeue:error:{self.code}",
            "title": self.code.replace("_", " "),
            "status": self.http_status,
            "code": self.code,
            "detail": self.detail,
            "hint": self.hint,
            "retryable": self.retryable,
        }
        said = {"stored": self.stored, "retry_after_s": self.retry_after_s}
        return body | {k: v for k, v in said.items() if v is not None} | self.extra


def every() -> dict[str, type[LakequeueError]]:
    """Every error that there is, by its code."""
    found: dict[str, type[LakequeueError]] = {}
    classes: list[type[LakequeueError]] = [LakequeueError]
    while classes:
        one = classes.pop()
        found[one.code] = one
        classes += one.__subclasses__()
    return found
