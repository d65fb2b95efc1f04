"""A namespace: the blocks of one layout and one tenant."""

from __future__ import annotations

import asyncio
import ctypes
import json
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _abi
from ._core import Core
from ._errors import ClosedError, Difference, UnavailableError
from ._lease import Lease
from ._pending import status_of
from ._requests import Batch, GetLike, Hash, PutLike, get_batch, hash_batch, joined, put_batch
from ._results import GetResult, PutResult, Result
from ._status import Status

if TYPE_CHECKING:
    from ._store import Store


@dataclass(frozen=True)
class NamespaceInfo:
    """What the store knows of a namespace."""

    number: int
    tenant: str
    fingerprint: str
    """Of the layout, 32 hex digits."""
    epoch: int
    planes: tuple[str, ...]
    differences: tuple[Difference, ...]
    """Of a new namespace to the nearest stored one, whose blocks are not found
    under this layout."""
    warnings: tuple[str, ...]
    """To be shown to an operator."""

    @staticmethod
    def from_json(text: str) -> NamespaceInfo:
        """Reads the detail of ``sealstone_open_namespace``."""
        d: dict[str, Any] = json.loads(text)
        return NamespaceInfo(
            number=d.get("number", 0),
            tenant=d.get("tenant", ""),
            fingerprint=d.get("fingerprint", ""),
            epoch=d.get("epoch", 0),
            planes=tuple(p["name"] for p in d.get("planes") or ()),
            differences=differences(d),
            warnings=tuple(d.get("warnings") or ()),
        )


def differences(detail: dict[str, Any]) -> tuple[Difference, ...]:
    """The differing fields that a detail lists."""
    return tuple(
        Difference(d["field"], d["stored"], d["asked"]) for d in detail.get("differences") or ()
    )


class Namespace:
    """The blocks of one layout and one tenant, by their hashes.

    All calls take a batch and answer for each block. They raise for misuse
    only: arguments that make no sense (TypeError, ValueError), a closed store
    (ClosedError), a forked process (ForkedError). Whatever happens to a block
    is a status.

    The calls whose names begin with ``a`` are for asyncio. A task that is
    cancelled while it awaits one stops waiting; the operation goes on, and
    memory that it uses stays referenced until its end.

    ``timeout`` is in seconds; None is the store's call timeout, 30 s unless it
    was opened with another.
    """

    def __init__(self, store: Store, core: Core, handle: int) -> None:
        self._store = store  # not collected, and so closed, while this is in use
        self._core = core
        self._handle = handle
        self._close = weakref.finalize(self, _close, core, handle)
        self._close.atexit = False
        self._planes = len(self.info.planes) or 1

    def __repr__(self) -> str:
        return f"<Namespace {self.info.fingerprint} of {self.info.tenant}>"

    @property
    def info(self) -> NamespaceInfo:
        """What the store knows of the namespace."""
        self._check()
        status, text = _abi.text(self._core.library.namespace_info, self._handle)
        if status is not Status.OK:
            raise UnavailableError(f"the namespace tells nothing of itself: {status.name}", status)
        return NamespaceInfo.from_json(text)

    def put(
        self, blocks: Iterable[PutLike], *, durable: bool = False, timeout: float | None = None
    ) -> list[PutResult]:
        """Stores blocks: ``PutBlock``s or pairs (hash, data).

        The memory must not change before the call returns. OK means that the
        block survives the end of the process; with ``durable`` that it
        survives a power cut.
        """
        return self._run(_abi.OP_PUT, put_batch(blocks), durable * _abi.DURABLE, timeout)

    async def aput(
        self, blocks: Iterable[PutLike], *, durable: bool = False, timeout: float | None = None
    ) -> list[PutResult]:
        """``put`` for asyncio."""
        return await self._arun(_abi.OP_PUT, put_batch(blocks), durable * _abi.DURABLE, timeout)

    def get(
        self,
        blocks: Iterable[GetLike],
        *,
        want_seal: bool = False,
        wait_for_device: bool = False,
        timeout: float | None = None,
    ) -> list[GetResult]:
        """Reads blocks into the caller's memory: ``GetBlock``s or pairs (hash, into).

        Bytes are verified before they are delivered. On any status but OK the
        memory holds what it held before. With ``wait_for_device`` a device may
        write straight into a registered region; then the call waits for it,
        past the timeout if need be, and memory of blocks that are not OK may
        hold zeros.
        """
        batch = self._get_batch(blocks, want_seal)
        return self._run(_abi.OP_GET, batch, wait_for_device * _abi.WAIT_FOR_DEVICE, timeout)

    async def aget(
        self,
        blocks: Iterable[GetLike],
        *,
        want_seal: bool = False,
        wait_for_device: bool = False,
        timeout: float | None = None,
    ) -> list[GetResult]:
        """``get`` for asyncio."""
        batch = self._get_batch(blocks, want_seal)
        flags = wait_for_device * _abi.WAIT_FOR_DEVICE
        return await self._arun(_abi.OP_GET, batch, flags, timeout)

    def exists(self, hashes: Iterable[Hash], *, timeout: float | None = None) -> list[Status]:
        """OK or MISS for each hash. No block is read."""
        return self._run(_abi.OP_EXISTS, hash_batch(hashes), 0, timeout)

    async def aexists(
        self, hashes: Iterable[Hash], *, timeout: float | None = None
    ) -> list[Status]:
        """``exists`` for asyncio."""
        return await self._arun(_abi.OP_EXISTS, hash_batch(hashes), 0, timeout)

    def touch(self, hashes: Iterable[Hash], *, timeout: float | None = None) -> list[Status]:
        """Like ``exists``, and marks the blocks as used: eviction prefers others."""
        return self._run(_abi.OP_TOUCH, hash_batch(hashes), 0, timeout)

    async def atouch(self, hashes: Iterable[Hash], *, timeout: float | None = None) -> list[Status]:
        """``touch`` for asyncio."""
        return await self._arun(_abi.OP_TOUCH, hash_batch(hashes), 0, timeout)

    def drop(self, hashes: Iterable[Hash], *, timeout: float | None = None) -> list[Result]:
        """Removes blocks for good."""
        return self._run(_abi.OP_DROP, hash_batch(hashes), 0, timeout)

    async def adrop(self, hashes: Iterable[Hash], *, timeout: float | None = None) -> list[Result]:
        """``drop`` for asyncio."""
        return await self._arun(_abi.OP_DROP, hash_batch(hashes), 0, timeout)

    def lookup_now(self, hashes: Sequence[Hash]) -> list[Status]:
        """Answers from memory alone, within microseconds.

        OK: probably stored. MISS: not stored. TIMEOUT: memory does not know;
        ask ``exists`` or ``match``. The hashes have one length. A server's
        client always gets TIMEOUT.
        """
        together, length, count = joined(hashes)
        self._check()
        found = ctypes.create_string_buffer(count + 1)
        status = self._core.library.lookup_now(self._handle, together, length, count, found)
        if status != Status.OK:
            return [self._whole_call(Status(status))] * count
        return [_BY_BYTE[b] for b in found.raw[:count]]

    def match(self, hashes: Sequence[Hash], *, timeout: float | None = None) -> Lease:
        """Finds the longest stored prefix of a chain of hashes, and keeps it.

        An index that gives no answer is a prefix of no blocks.
        """
        together, length, count = joined(hashes)
        timeout_ns = _abi.nanoseconds(timeout)
        self._check()
        blocks, lease = ctypes.c_size_t(), ctypes.c_uint64()
        status = Status(
            self._core.library.match(
                *(self._handle, together, length, count, timeout_ns, blocks, lease, None, 0)
            )
        )
        if status is not Status.OK:
            self._whole_call(status)
            return Lease(self._core, 0, 0)
        return Lease(self._core, lease.value, blocks.value)

    async def amatch(self, hashes: Sequence[Hash], *, timeout: float | None = None) -> Lease:
        """``match`` for asyncio, in a thread of the loop's executor."""
        loop = asyncio.get_running_loop()
        found = loop.run_in_executor(None, lambda: self.match(hashes, timeout=timeout))
        try:
            return await asyncio.shield(found)
        except asyncio.CancelledError:
            found.add_done_callback(_release_unwanted)
            raise

    def bump_epoch(self, *, timeout: float | None = None) -> Namespace:
        """Makes all blocks invisible at once, for good: the weights were swapped.

        Returns the namespace of the new epoch; this one answers STALE_EPOCH
        from now on. Raises UnavailableError if it is not certain to have
        happened.
        """
        timeout_ns = _abi.nanoseconds(timeout)
        self._check()
        following, err = ctypes.c_uint64(), ctypes.create_string_buffer(1024)
        status = Status(
            self._core.library.bump_epoch(self._handle, timeout_ns, following, err, len(err))
        )
        if status is not Status.OK:
            self._whole_call(status)
            message = err.value.decode(errors="replace") or status.name
            raise UnavailableError(f"the epoch was not raised: {message}", status)
        return Namespace(self._store, self._core, following.value)

    async def abump_epoch(self, *, timeout: float | None = None) -> Namespace:
        """``bump_epoch`` for asyncio, in a thread of the loop's executor."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, lambda: self.bump_epoch(timeout=timeout))

    def close(self) -> None:
        """Gives the handle back; the blocks stay. A second call does nothing."""
        self._close()

    def __enter__(self) -> Namespace:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _get_batch(self, blocks: Iterable[GetLike], want_seal: bool) -> Batch:
        batch = get_batch(blocks)
        if want_seal:
            batch.want_seals(self._planes)
        return batch

    def _run(self, kind: int, batch: Batch, flags: int, timeout: float | None) -> list[Any]:
        return self._core.blocking(kind, self._handle, batch, flags, timeout)

    async def _arun(self, kind: int, batch: Batch, flags: int, timeout: float | None) -> list[Any]:
        return await self._core.loops.run(kind, self._handle, batch, flags, timeout)

    def _check(self) -> None:
        self._core.check()
        if not self._close.alive:
            raise ClosedError("the namespace is closed")

    def _whole_call(self, status: Status) -> Status:
        """The status of all blocks, where a call failed as a whole."""
        if status is Status.BAD_HANDLE:
            raise ClosedError("the namespace is closed")
        if status is Status.CLOSED:
            raise ClosedError("the store is closed")
        if status is Status.INVALID:
            raise ValueError("block hashes have 16 to 64 bytes")
        self._core.check()
        return status


_BY_BYTE = tuple(status_of(n) for n in range(256))


def _close(core: Core, handle: int) -> None:
    if not core.closing:
        core.library.close_namespace(handle)


def _release_unwanted(found: asyncio.Future[Lease]) -> None:
    """Ends the lease of a match that nobody waited for."""
    if not found.cancelled() and found.exception() is None:
        found.result().release()
