"""Errors of calls. What happens to a single block is a status, never one of these."""

from __future__ import annotations

from dataclasses import dataclass

from ._status import Status


class SealstoneError(Exception):
    """The base of all errors of this package."""


class LibraryError(SealstoneError):
    """libsealstone could not be loaded, or is of another version."""


class OpenError(SealstoneError):
    """A store or a namespace could not be opened; the message says why.

    ``status`` is the library's reason as a number.
    """

    def __init__(self, message: str, status: Status = Status.INVALID) -> None:
        super().__init__(message)
        self.status = status


class ClosedError(SealstoneError):
    """The store was closed, or a lease was released."""


class CloseError(SealstoneError):
    """Closing a store did not end in time, or did not end well.

    The store counts as closed all the same. Memory of operations that a device
    still holds stays referenced.
    """


class ForkedError(SealstoneError):
    """The object belongs to the parent of a forked process.

    The library has threads, and threads do not survive a fork. Open stores
    after forking only, or start processes with multiprocessing's ``spawn`` or
    ``forkserver``.
    """


class UnavailableError(SealstoneError):
    """A call that has no status for each block got no answer.

    ``status`` says why: ``TIMEOUT``, ``SHED``, ``STALE_EPOCH`` and so on.
    """

    def __init__(self, message: str, status: Status) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Difference:
    """A field in which two layouts differ, with both values as text."""

    field: str
    stored: str
    asked: str

    def __str__(self) -> str:
        return f"{self.field}: {self.stored} / {self.asked}"


class LayoutMismatchError(OpenError):
    """The store holds blocks of a layout that is near, but not this one.

    ``differences`` names each field with the stored and the asked value.
    """

    def __init__(self, differences: tuple[Difference, ...]) -> None:
        listed = "; ".join(str(d) for d in differences)
        super().__init__(
            f"the layout differs from the stored one (stored / asked): {listed}",
            Status.LAYOUT_MISMATCH,
        )
        self.differences = differences
