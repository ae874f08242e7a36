"""What is closed at the end of a `with` block: one way for all clients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closes(ABC):
    """A context manager: the end of the block closes it."""

    @abstractmethod
    def close(self) -> None:
        """Close it."""

    def _left(self, error: BaseException | None) -> None:
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._left(error)


class AsyncCloses(ABC):
    """The same with `async with`."""

    @abstractmethod
    async def close(self) -> None:
        """Close it."""

    async def _left(self, error: BaseException | None) -> None:
        await self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        await self._left(error)
