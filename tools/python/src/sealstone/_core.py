"""Operations of one open store: submitting, draining, waiting, closing.

All completions of a store come out of one queue, and whoever takes them takes
those of others too. So any thread may drain; what it finds it hands to the
thread or the event loop that waits for it. Of threads that wait only one, the
leader, sits on the library's descriptor; it is followed by another when it has
what it waited for.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import threading
import time
import weakref
from typing import Any

from . import _abi
from ._aio import Loops
from ._errors import ClosedError, CloseError, ForkedError, LibraryError
from ._pending import Pending, Raw
from ._requests import Batch
from ._status import Status

# Results of so many items that failed have a reason with the library.
_REASONS_MAX = 1024
_COMPLETIONS = 64
_RESULTS = 4096  # grows
# How long a thread waits before it looks around; only there to end a hang.
_LOOK_AROUND_S = 1
_CLOSE_S = 60.0
_CLOSE_QUIETLY_S = 10.0

_cores: weakref.WeakSet[Core] = weakref.WeakSet()
# Memory that a device may still touch although its store is gone.
_abandoned: list[Core] = []


class Core:
    """One open store, without the objects that users see."""

    def __init__(self, library: _abi.Library, handle: int) -> None:
        self.library = library
        self.handle = handle
        self.closing = False
        self.closed = False
        self.forked = False
        self._mutex = threading.Lock()  # all below
        self._pending: dict[int, Pending] = {}
        self._last = 0
        self._submitting = 0
        self._leader: Pending | None = None
        self._followers: dict[Pending, None] = {}
        self._draining = threading.Lock()  # the arrays of drain; before the mutex
        self._completions = _array(_abi.COMPLETION.size * _COMPLETIONS)
        self._results = _array(_abi.RESULT.size * _RESULTS)
        self.event_fd = self._own_event_fd()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.loops = Loops(self)
        _cores.add(self)

    def check(self) -> None:
        """Raises if the store can not be used by this process, or not any more."""
        if self.forked:
            raise ForkedError(
                "this store was opened before the fork and belongs to the parent: open stores in"
                ' the process that uses them, or use multiprocessing\'s "spawn"'
            )
        if self.closing:
            raise ClosedError("the store is closed")

    def blocking(
        self, kind: int, namespace: int, batch: Batch, flags: int, timeout: float | None
    ) -> list[Any]:
        """Runs an operation and waits for its results."""
        pending = Pending(kind, batch)
        pending.event = threading.Event()
        if self.submit(pending, namespace, flags, timeout):
            self._wait(pending)
        return pending.results

    def submit(self, pending: Pending, namespace: int, flags: int, timeout: float | None) -> bool:
        """Hands an operation over. False: it was refused, and is settled."""
        batch = pending.batch
        assert batch is not None
        try:
            self.check()
            timeout_ns = _abi.nanoseconds(timeout)
            batch.build()
        except BaseException:
            batch.pins.release()
            raise
        number = self._enter(pending)
        options = _abi.OPTIONS.pack(_abi.OPTIONS.size, flags, timeout_ns, number)
        status = Status.INTERNAL
        try:
            status = Status(
                self.library.submit(
                    *(self.handle, namespace, pending.kind, batch.items, len(batch)),
                    *(options, None),
                )
            )
        finally:
            self._entered(number, status)
        if status is Status.OK:
            return True
        if status in (Status.CLOSED, Status.BAD_HANDLE, Status.FORKED, Status.INVALID):
            batch.pins.release()
            raise _misuse(status)
        reason = "too many operations are under way" if status is Status.SHED else str(status.name)
        pending.refuse(status, reason)
        return False

    def drain(self, by: object = None) -> int:
        """Takes completions that are there and hands them out.

        The descriptor stays readable while there are more. ``by`` is the event
        loop, or the pending operation of the leader, that takes them: those
        need not be woken. Returns how many were taken.
        """
        taken = self._take()
        self.loops.deliver([p for p in taken if p.loop is not None], by)
        for p in taken:
            if p.event is not None:
                p.event.set()
                if p is self._leader and p is not by:
                    self._wake_leader()
        return len(taken)

    def close(self, timeout: float | None) -> None:
        """Ends the store; see ``Store.close``."""
        if self.forked or self.closed:
            return
        deadline = time.monotonic() + (_CLOSE_S if timeout is None else timeout)
        with self._mutex:
            self.closing = True
        while self._submitting and time.monotonic() < deadline:
            time.sleep(0.001)  # submit never blocks
        self.library.wait_idle(self.handle, _left(deadline))
        while self.drain():
            pass
        err = ctypes.create_string_buffer(1024)
        status = Status(self.library.close(self.handle, _left(deadline), err, len(err)))
        if status in (Status.CLOSING, Status.TIMEOUT):
            raise CloseError(
                "requests are still with the device: the directory stays locked and memory in use;"
                " close may be called again"
            )
        self._end()
        if status not in (Status.OK, Status.BAD_HANDLE):
            raise CloseError(err.value.decode(errors="replace") or status.name)

    def _end(self) -> None:
        """The library has let go of everything."""
        with self._draining, self._mutex:
            self.closed = True
            left, self._pending = list(self._pending.values()), {}
        for p in left:
            p.refuse(Status.CLOSED, "the store was closed")
            if p.event is not None:
                p.event.set()
        self.loops.deliver([p for p in left if p.loop is not None], None)
        self._wake_leader()
        with self._mutex:
            self._close_descriptors()

    def _enter(self, pending: Pending) -> int:
        with self._mutex:
            if not self.closing:
                self._last += 1
                self._submitting += 1
                self._pending[self._last] = pending
                return self._last
        assert pending.batch is not None
        pending.batch.pins.release()
        raise ClosedError("the store is closed")

    def _entered(self, number: int, status: Status) -> None:
        with self._mutex:
            self._submitting -= 1
            if status is not Status.OK:
                del self._pending[number]

    def _take(self) -> list[Pending]:
        if self.forked:
            return []
        with self._draining:
            if self.closed:
                return []
            taken, needed = ctypes.c_size_t(), ctypes.c_size_t()
            while self._drain_into(taken, needed) is Status.TOO_SMALL:
                self._results = _array(_abi.RESULT.size * needed.value)
            size = _abi.COMPLETION.size * taken.value
            completions = _abi.COMPLETION.iter_unpack(memoryview(self._completions)[:size])
            return [p for c in completions if (p := self._settle(*c))]

    def _drain_into(self, taken: ctypes.c_size_t, needed: ctypes.c_size_t) -> Status:
        room = len(self._results) // _abi.RESULT.size
        return Status(
            self.library.drain(
                *(self.handle, self._completions, _COMPLETIONS),
                *(self._results, room, taken, needed),
            )
        )

    def _settle(
        self, op_id: int, number: int, status: int, op: int, count: int, ok: int, first: int
    ) -> Pending | None:
        with self._mutex:
            pending = self._pending.pop(number, None)
        if pending is None:
            return None
        size = _abi.RESULT.size
        mine = memoryview(self._results)[first * size : (first + count) * size]
        raw: list[Raw] = list(_abi.RESULT.iter_unpack(mine))
        pending.settle(raw, self._reasons(op_id, raw) if ok < count else {})
        return pending

    def _reasons(self, op_id: int, raw: list[Raw]) -> dict[int, str]:
        """Why items failed. A miss has no reason beyond being one."""
        failed = [i for i, r in enumerate(raw) if r[0] not in (Status.OK, Status.MISS)]
        said = {}
        text = ctypes.create_string_buffer(1024)
        for i in failed[:_REASONS_MAX]:
            if self.library.reason(self.handle, op_id, i, text, len(text)) == Status.OK:
                said[i] = text.value.decode(errors="replace")
        return said

    def _wait(self, pending: Pending) -> None:
        assert pending.event is not None
        try:
            while not pending.done:
                if self._lead(pending):
                    self._watch(pending)
                else:
                    pending.event.wait(_LOOK_AROUND_S)
                    if not pending.done:
                        pending.event.clear()  # it is to lead, if none was quicker
        finally:
            self._leave(pending)

    def _lead(self, pending: Pending) -> bool:
        with self._mutex:
            if self._leader is None:
                self._leader = pending
                return True
            self._followers[pending] = None
            return False

    def _watch(self, pending: Pending) -> None:
        poll = select.poll()
        poll.register(self.event_fd, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while not pending.done:
            for fd, _ in poll.poll(_LOOK_AROUND_S * 1000):
                if fd == self._wake:
                    with contextlib.suppress(BlockingIOError):
                        os.eventfd_read(fd)
            self.drain(by=pending)

    def _leave(self, pending: Pending) -> None:
        """Ends a wait; if it led, or was to lead, another does."""
        with self._mutex:
            if self._leader is pending:
                self._leader = None
            self._followers.pop(pending, None)
            if self._leader is None:
                for follower in self._followers:
                    if not follower.done and follower.event is not None:
                        follower.event.set()
                        break
                if self.closed:
                    self._close_descriptors()

    def _wake_leader(self) -> None:
        with self._mutex:
            if self._wake >= 0:
                os.eventfd_write(self._wake, 1)

    def _own_event_fd(self) -> int:
        """A descriptor of the queue that outlives the library's own."""
        fd = ctypes.c_int(-1)
        status = Status(self.library.event_fd(self.handle, fd))
        if status is not Status.OK:
            raise LibraryError(f"the store has no event descriptor: {status.name}")
        return os.dup(fd.value)

    def _close_descriptors(self) -> None:
        """Under the mutex: closes what no thread waits on any more."""
        if self._leader is not None:
            return
        for fd in (self.event_fd, self._wake):
            if fd >= 0:
                os.close(fd)
        self.event_fd = self._wake = -1

    def _mark_forked(self) -> None:
        """In the child: all of it is the parent's."""
        self.forked = self.closing = True
        self._leader = None
        self._close_descriptors()


def _array(size: int) -> Any:
    return (ctypes.c_char * size)()


def _left(deadline: float) -> int:
    """Nanoseconds until the deadline, as a timeout of the library: never 0."""
    return max(1_000_000, int((deadline - time.monotonic()) * 1e9))


def _misuse(status: Status) -> Exception:
    if status is Status.FORKED:
        return ForkedError("the library was loaded by the parent of this process")
    if status is Status.CLOSED:
        return ClosedError("the store is closed")
    if status is Status.BAD_HANDLE:
        return ClosedError("the namespace is closed")
    return ValueError("the library takes the call for malformed")


def close_quietly(core: Core) -> None:
    """Closes a store that nobody closed: at garbage collection or exit."""
    try:
        core.close(_CLOSE_QUIETLY_S)
    except Exception:
        # What a device may still write into has to stay.
        _abandoned.append(core)


def _after_fork() -> None:
    for core in list(_cores):
        core._mark_forked()


os.register_at_fork(after_in_child=_after_fork)
