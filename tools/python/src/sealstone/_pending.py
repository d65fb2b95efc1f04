"""An operation under way, and who waits for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

from . import _abi
from ._requests import Batch
from ._results import GetResult, PutResult, Result
from ._seal import Seal
from ._status import Status

Raw = tuple[int, int, int, int, int, int]
"""A result as the library packs it; see ``_abi.RESULT``."""

_STATUSES = {int(s): s for s in Status}


def status_of(number: int) -> Status:
    """The status of a number, faster than by calling Status."""
    return _STATUSES.get(number) or Status(number)


class Pending:
    """An operation that was, or is about to be, submitted.

    It holds the memory of the operation until the library has let go of it,
    whether or not somebody still waits.
    """

    __slots__ = ("batch", "done", "event", "future", "kind", "loop", "results")

    def __init__(self, kind: int, batch: Batch) -> None:
        self.kind = kind
        self.batch: Batch | None = batch
        self.done = False
        self.results: list[Any] = []
        # Who waits: a thread by its event, or a task of a loop by a future.
        self.event: threading.Event | None = None
        self.loop: Any = None
        self.future: asyncio.Future[Any] | None = None

    def settle(self, raw: Sequence[Raw], reasons: dict[int, str]) -> None:
        """Takes the results and lets go of the memory."""
        batch = self.batch
        assert batch is not None, "an operation completes once"
        self.results = _results(self.kind, batch, raw, reasons)
        self.batch = None
        batch.pins.release()
        self.done = True

    def refuse(self, status: Status, reason: str) -> None:
        """Settles an operation of which the library took nothing."""
        assert self.batch is not None
        raw = [(int(status), 0, 0, 0, 0, 0)] * len(self.batch)
        self.settle(raw, dict.fromkeys(range(len(raw)), reason))


def _results(kind: int, batch: Batch, raw: Sequence[Raw], reasons: dict[int, str]) -> list[Any]:
    if kind == _abi.OP_GET:
        return [_got(batch, i, r, reasons.get(i, "")) for i, r in enumerate(raw)]
    if kind == _abi.OP_PUT:
        return [_put(r, reasons.get(i, "")) for i, r in enumerate(raw)]
    if kind == _abi.OP_DROP:
        return [Result(status_of(r[0]), reasons.get(i, "")) for i, r in enumerate(raw)]
    return [status_of(r[0]) for r in raw]


def _got(batch: Batch, i: int, raw: Raw, reason: str) -> GetResult:
    status, _, bytes_, verified, seal_len, _ = raw
    seal = None
    if batch.seals and 0 < seal_len <= len(batch.seals[i]):
        seal = Seal.from_bytes(bytes(batch.seals[i][:seal_len]))
    return GetResult(status_of(status), reason, bytes_, verified, seal)


def _put(raw: Raw, reason: str) -> PutResult:
    status, flags, written, _, _, _ = raw
    return PutResult(
        status_of(status),
        reason,
        existed=bool(flags & _abi.EXISTED),
        differs=bool(flags & _abi.DIFFERS),
        shared=bool(flags & _abi.SHARED),
        durable=bool(flags & _abi.RESULT_DURABLE),
        written_bytes=written,
    )
