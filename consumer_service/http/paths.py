"""What stands in the paths of calls."""

from __future__ import annotations

from pydantic import BaseModel, Field


class TopicPath(BaseModel):
    """The topic that a call is about."""

    topic: str = Field(description="1 to 249 characters of A-Z a-z 0-9 . _ -")


class RecordPath(TopicPath):
    """One record."""

    partition: int
    offset: int


class GroupPath(BaseModel):
    """The group that a call is about."""

    group: str = Field(description="1 to 249 characters of A-Z a-z 0-9 . _ -")


class CountsPath(GroupPath, TopicPath):
    """A topic, as a group sees it."""


class StatusPath(GroupPath, RecordPath):
    """One record, as a group sees it."""


class MemberPath(GroupPath):
    """A member of a group."""

    member: str
