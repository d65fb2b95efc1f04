"""A library in Python with the calls of libsealstone, for what the real one
can not be made to do at will: completions that are held back, refusals,
devices that hang.

It reads the same packed structures and the same addresses.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sealstone import _abi
from sealstone._status import Status


@dataclass
class Operation:
    number: int
    kind: int
    user_data: int
    items: list[dict[str, Any]]
    flags: int = 0
    timeout_ns: int = 0


@dataclass
class Double:
    """One store, one namespace of a plane "value"."""

    held: bool = False  # completions wait for ``let_go``
    refuse: Status = Status.OK  # what submit answers
    answer: dict[bytes, Status] = field(default_factory=dict)  # by hash
    close_status: Status = Status.OK
    path: Path = Path("double")
    version: str = "double"

    def __post_init__(self) -> None:
        self.process = os.getpid()
        self.mutex = threading.Lock()
        self.blocks: dict[bytes, bytes] = {}
        self.waiting: list[Operation] = []
        self.ready: list[tuple[Operation, list[tuple[int, ...]]]] = []
        self.submitted: list[Operation] = []
        self.fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.closed_namespaces: list[int] = []
        self.released: list[int] = []
        self.closes = 0

    def let_go(self, count: int | None = None) -> None:
        """Completes operations that are held, as if they ran now."""
        with self.mutex:
            now, self.waiting = self.waiting[:count], self.waiting[len(self.waiting[:count]) :]
        for op in now:
            self._complete(op)

    # The calls, as Library has them.

    def event_fd(self, store: int, fd: Any) -> int:
        fd.value = self.fd
        return Status.OK

    def submit(
        self, store: int, ns: int, kind: int, items: bytes, n: int, options: bytes, op: object
    ) -> int:
        if self.refuse is not Status.OK:
            return self.refuse
        _, flags, timeout_ns, user_data = _abi.OPTIONS.unpack(options)
        read = [_item(i) for i in _abi.ITEM.iter_unpack(items)]
        assert len(read) == n
        made = Operation(0, kind, user_data, read, flags, timeout_ns)
        with self.mutex:
            self.submitted.append(made)
            made.number = len(self.submitted)
            if self.held:
                self.waiting.append(made)
                return Status.OK
        self._complete(made)
        return Status.OK

    def drain(
        self, store: int, done: Any, cap: int, results: Any, room: int, n: Any, needed: Any
    ) -> int:
        with self.mutex:
            completions: list[bytes] = []
            packed: list[bytes] = []
            while self.ready and len(completions) < cap:
                op, mine = self.ready[0]
                if len(packed) + len(mine) > room:
                    break
                self.ready.pop(0)
                ok = sum(r[0] == Status.OK for r in mine)
                status = Status.OK if ok == len(mine) else Status.MISS
                completions.append(
                    _abi.COMPLETION.pack(
                        op.number, op.user_data, status, op.kind, len(mine), ok, len(packed)
                    )
                )
                packed += [_abi.RESULT.pack(*r) for r in mine]
            if self.ready and not completions:
                n.value, needed.value = 0, len(self.ready[0][1])
                return Status.TOO_SMALL
            if not self.ready:
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(self.fd)
            for target, data in ((done, b"".join(completions)), (results, b"".join(packed))):
                ctypes.memmove(target, data, len(data))
            n.value = len(completions)
            return Status.OK

    def reason(self, store: int, op: int, item: int, text: Any, cap: int) -> int:
        text.value = b"because of item %d" % item
        return Status.OK

    def wait_idle(self, store: int, timeout_ns: int) -> int:
        return Status.TIMEOUT if self.waiting else Status.OK

    def close(self, store: int, timeout_ns: int, err: Any, cap: int) -> int:
        self.closes += 1
        if self.waiting:
            return Status.CLOSING
        if self.close_status is not Status.OK:
            err.value = b"the last sync failed"
        return self.close_status

    def open_namespace(
        self, store: int, layout: bytes, tenant: bytes, options: bytes, ns: Any, *detail: Any
    ) -> int:
        ns.value = 7
        return Status.OK

    def namespace_info(self, ns: int, buffer: Any, cap: int, needed: Any) -> int:
        said = {"number": 1, "tenant": "default", "fingerprint": "00" * 16, "epoch": 0}
        return _write(buffer, cap, needed, {**said, "planes": [{"name": "value"}]})

    def close_namespace(self, ns: int) -> int:
        self.closed_namespaces.append(ns)
        return Status.OK

    def match(self, ns: int, hashes: bytes, length: int, n: int, *rest: Any) -> int:
        _, blocks, lease, _, _ = rest
        blocks.value, lease.value = n, 5
        return Status.OK

    def release(self, lease: int) -> int:
        self.released.append(lease)
        return Status.OK

    def renew(self, lease: int) -> int:
        return Status.MISS

    def _complete(self, op: Operation) -> None:
        run = {_abi.OP_PUT: self._put, _abi.OP_GET: self._get}.get(op.kind, self._look)
        results = [run(item) for item in op.items]
        with self.mutex:
            self.ready.append((op, results))
            os.eventfd_write(self.fd, 1)

    def _put(self, item: dict[str, Any]) -> tuple[int, ...]:
        data = b"".join(ctypes.string_at(*s) for p in item["parts"] for s in p["spans"])
        self.blocks[item["hash"]] = data
        return (self.answer.get(item["hash"], Status.OK), 0, len(data), 0, 0, 0)

    def _get(self, item: dict[str, Any]) -> tuple[int, ...]:
        data = self.blocks.get(item["hash"])
        status = self.answer.get(item["hash"], Status.MISS if data is None else Status.OK)
        if status is not Status.OK or data is None:
            return (status, 0, 0, 0, 0, 0)
        at = 0
        for part in item["parts"]:
            for address, length in part["spans"]:
                ctypes.memmove(address, data[at : at + length], length)
                at += length
        return (Status.OK, 0, at, len(data), 0, 0)

    def _look(self, item: dict[str, Any]) -> tuple[int, ...]:
        known = Status.OK if item["hash"] in self.blocks else Status.MISS
        return (self.answer.get(item["hash"], known), 0, 0, 0, 0, 0)


def _item(packed: tuple[int, ...]) -> dict[str, Any]:
    hash_, parent, hash_len, parent_len, parts, n_parts, seal_len, seal, *reserved = packed
    assert reserved == [0, 0]
    return {
        "hash": ctypes.string_at(hash_, hash_len),
        "parent": ctypes.string_at(parent, parent_len) if parent else None,
        "seal": (seal, seal_len),
        "parts": [_part(p) for p in _array(_abi.PART, parts, n_parts)],
    }


def _part(packed: tuple[int, ...]) -> dict[str, Any]:
    plane, spans, n_spans, reserved, offset, length = packed
    assert reserved == 0
    return {
        "plane": ctypes.string_at(plane).decode(),
        "spans": list(_array(_abi.SPAN, spans, n_spans)),
        "offset": offset,
        "length": length,
    }


def _array(kind: Any, address: int, count: int) -> Any:
    return kind.iter_unpack(ctypes.string_at(address, kind.size * count) if count else b"")


def _write(buffer: Any, cap: int, needed: Any, value: object) -> int:
    text = json.dumps(value).encode()
    needed.value = len(text) + 1
    if cap <= len(text):
        return Status.TOO_SMALL
    buffer.value = text
    return Status.OK
