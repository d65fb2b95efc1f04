"""What became of each block."""

from __future__ import annotations

from dataclasses import dataclass

from ._seal import Seal
from ._status import Status


@dataclass(frozen=True)
class Result:
    """The outcome for one block."""

    status: Status
    reason: str = ""
    """Why the status is not OK, in a sentence. A plain miss has none."""

    @property
    def ok(self) -> bool:
        """Whether the status is OK. Anything else is a miss."""
        return self.status is Status.OK

    def __bool__(self) -> bool:
        """The same as ``ok``."""
        return self.status is Status.OK


@dataclass(frozen=True)
class GetResult(Result):
    """The outcome for one block of a get."""

    bytes: int = 0
    """Bytes delivered into the caller's memory."""
    verified_bytes: int = 0
    """Bytes read and verified for it, in whole chunks."""
    seal: Seal | None = None
    """If asked for, and OK."""


@dataclass(frozen=True)
class PutResult(Result):
    """The outcome for one block of a put."""

    existed: bool = False
    """The key was stored already; nothing was written."""
    differs: bool = False
    """... with other content, which stays."""
    shared: bool = False
    """An equal block of the tenant was found, and its bytes are used."""
    durable: bool = False
    """Survives a power cut now."""
    written_bytes: int = 0
    """Bytes appended to disk, headers included."""
