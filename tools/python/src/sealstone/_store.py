"""A store: a directory of this process, or a server's."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from . import _abi
from ._buffers import Memory, Pins
from ._core import Core, close_quietly
from ._errors import LayoutMismatchError, OpenError, UnavailableError
from ._layout import Layout, layout_json
from ._namespace import Namespace, differences
from ._region import Region
from ._status import Status


@dataclass(frozen=True)
class Health:
    """How much of its work a store does."""

    state: str
    """``ok``, ``read-only``, ``all-miss``, ``closed`` or ``unreached``."""
    reasons: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether the store reads and writes."""
        return self.state == "ok"


class Store:
    """A store of KV-cache blocks.

    ``Store(dir=...)`` opens a directory, which is this process' alone until
    ``close``; ``Store(server="unix:/path")`` is a client of `sealstone serve`.
    Both have the same calls. Any thread may make them, and any event loop.

    Open it in the process that uses it: a child of ``os.fork`` can not.
    """

    def __init__(
        self,
        dir: str | os.PathLike[str] | None = None,
        *,
        server: str | None = None,
        token: str | None = None,
        user: str | None = None,
        capacity_bytes: int | None = None,
        max_block_bytes: int | None = None,
        host_cache_bytes: int | None = None,
        path: str | None = None,
        read_only: bool | None = None,
        create_only: bool | None = None,
        must_exist: bool | None = None,
        call_timeout: float | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Opens a store.

        Args:
            dir: the directory; it is made if it is not there.
            server: instead of dir, ``unix:/path`` or ``host:port``.
            token: what the server wants to see; its tenant is the token's.
            user: the token's name, where the server wants that too.
            capacity_bytes: bound of all that the store takes on disk. The
                default is 80 % of what is free.
            max_block_bytes: the largest block; 64 MiB is the default and the
                most. A small store needs smaller blocks.
            host_cache_bytes: verified blocks kept in memory; 0 by default.
            path: a way of moving bytes to insist on (``uring-direct``,
                ``pread-direct``, ``buffered``) instead of the fastest proven.
            read_only: change nothing; puts are shed.
            create_only: fail if there is a store.
            must_exist: fail if there is none.
            call_timeout: seconds that a call may take which is given no
                timeout of its own; 30 by default.
            options: further keys of the library's ``sealstone_open``, as
                sealstone.h lists them.

        Raises:
            OpenError: ``status`` and message say why: LOCKED, UNAVAILABLE,
                DENIED, DAMAGED and so on.
            LibraryError: the library is missing or of another version.
            ForkedError: the library was loaded by the parent of this process.
        """
        given = {
            "dir": None if dir is None else os.fspath(dir),
            "server": server,
            "token": token,
            "user": user,
            "capacity_bytes": capacity_bytes,
            "max_block_bytes": max_block_bytes,
            "host_cache_bytes": host_cache_bytes,
            "path": path,
            "read_only": read_only,
            "create_only": create_only,
            "must_exist": must_exist,
            "call_timeout_ms": _milliseconds(call_timeout),
        }
        self._core = _open({k: v for k, v in given.items() if v is not None}, options or {})
        self._close = weakref.finalize(self, close_quietly, self._core)

    def namespace(
        self,
        layout: Layout | Mapping[str, Any] | str | bytes,
        tenant: str = "default",
        *,
        require_match: bool = False,
        compression: str | None = None,
        timeout: float | None = None,
    ) -> Namespace:
        """Opens the namespace of a layout and a tenant, and makes it if it is new.

        Args:
            layout: a Layout, or its fields as a dict or JSON.
            tenant: whose blocks they are; tenants never see one another's.
            require_match: fail where the tenant has blocks of the same model
                under another layout, instead of beginning an empty namespace.
            compression: ``off`` (default), ``auto``, ``s2`` or ``zstd``.
            timeout: in seconds.

        Raises:
            LayoutMismatchError: names the differing fields, with both values.
            OpenError: for all other reasons; it names every field that is
                missing or impossible.
        """
        asked: dict[str, Any] = {"require_match": require_match}
        if compression is not None:
            asked["compression"] = compression
        if (timeout_ms := _milliseconds(timeout)) is not None:
            asked["timeout_ms"] = timeout_ms
        layout_, tenant_ = (
            _c_text(layout_json(layout), "layout"),
            _c_text(tenant.encode(), "tenant"),
        )
        self._core.check()
        handle = ctypes.c_uint64()
        detail, needed = ctypes.create_string_buffer(1 << 16), ctypes.c_size_t()
        status = Status(
            self._core.library.open_namespace(
                *(self._core.handle, layout_, tenant_, json.dumps(asked).encode()),
                *(handle, detail, len(detail), needed),
            )
        )
        if status is Status.OK:
            return Namespace(self, self._core, handle.value)
        self._core.check()
        said = json.loads(detail.value or b"{}")
        if status is Status.LAYOUT_MISMATCH:
            raise LayoutMismatchError(differences(said))
        raise OpenError(said.get("error") or f"the namespace is not opened: {status.name}", status)

    async def anamespace(
        self,
        layout: Layout | Mapping[str, Any] | str | bytes,
        tenant: str = "default",
        *,
        require_match: bool = False,
        compression: str | None = None,
        timeout: float | None = None,
    ) -> Namespace:
        """``namespace`` for asyncio, in a thread of the loop's executor."""
        return await asyncio.get_running_loop().run_in_executor(
            None,
            lambda: self.namespace(
                layout,
                tenant,
                require_match=require_match,
                compression=compression,
                timeout=timeout,
            ),
        )

    def register(self, memory: Memory, fd: int = -1) -> Region:
        """Makes memory known, so that gets with ``wait_for_device`` go straight into it.

        For a server on a Unix socket ``fd`` is the file that the memory maps
        from its beginning, shared: its blocks then travel as offsets. Raises
        UnavailableError where that is not possible; the memory can be used all
        the same, by a copy.
        """
        self._core.check()
        pins = Pins()
        try:
            spans = pins.destination(memory)
            if len(spans) != 1:
                raise ValueError("a region is one piece of memory that is not empty")
            handle, err = ctypes.c_uint64(), ctypes.create_string_buffer(1024)
            status = Status(
                self._core.library.register_region(
                    self._core.handle, *spans[0], fd, handle, err, len(err)
                )
            )
            if status is not Status.OK:
                self._core.check()
                raise UnavailableError(err.value.decode(errors="replace") or status.name, status)
        except BaseException:
            pins.release()
            raise
        return Region(self._core, handle.value, pins)

    def stats(self) -> dict[str, Any]:
        """Figures of the store, as a server's /status names them, and of the library.

        Keys: mode, library, store, host_tier, paths, direct_refused, tenants; with a
        server also server, and the admin right is needed.
        """
        self._core.check()
        status, said = _abi.text(self._core.library.stats, self._core.handle)
        if status is not Status.OK:
            self._core.check()
            raise UnavailableError(f"no figures: {status.name}", status)
        figures: dict[str, Any] = json.loads(said)
        return figures

    def health(self) -> Health:
        """How much of its work the store does, and why not more."""
        self._core.check()
        status, said = _abi.text(self._core.library.health, self._core.handle, None)
        if status is not Status.OK:
            self._core.check()
            return Health("unreached", (status.name,))
        answer = json.loads(said)
        return Health(answer["state"], tuple(answer.get("reasons") or ()))

    def events(self, after: int = 0) -> list[dict[str, Any]]:
        """What happened since the event of number ``after``; the last 256 are kept."""
        self._core.check()
        status, said = _abi.text(self._core.library.events, self._core.handle, after)
        if status is not Status.OK:
            self._core.check()
            raise UnavailableError(f"no events: {status.name}", status)
        happened: list[dict[str, Any]] = json.loads(said)
        return happened

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._core.closing

    def close(self, timeout: float | None = None) -> None:
        """Ends the store: operations end, what was put is synced, the lock given up.

        A second call does nothing. ``timeout`` is in seconds, 60 by default.
        Raises CloseError if requests are still with the device by then; the
        call can be repeated. In a forked child it does nothing.
        """
        self._core.close(timeout)
        self._close.detach()

    async def aclose(self, timeout: float | None = None) -> None:
        """``close`` for asyncio, in a thread of the loop's executor."""
        await asyncio.get_running_loop().run_in_executor(None, lambda: self.close(timeout))

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Store:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


def _open(given: dict[str, Any], options: Mapping[str, Any]) -> Core:
    if twice := sorted(set(given) & set(options)):
        raise TypeError(f"given twice, as an argument and in options: {', '.join(twice)}")
    asked = {**given, **options}
    if ("dir" in asked) == ("server" in asked):
        raise TypeError("a store has either a dir or a server")
    # A path that is not UTF-8 would reach the library as another one.
    text = json.dumps(asked, ensure_ascii=False, allow_nan=False).encode()
    library = _abi.library()
    handle, err = ctypes.c_uint64(), ctypes.create_string_buffer(4096)
    status = Status(library.open(_c_text(text, "options"), handle, err, len(err)))
    if status is not Status.OK:
        raise OpenError(err.value.decode(errors="replace") or status.name, status)
    return Core(library, handle.value)


def _milliseconds(timeout: float | None) -> int | None:
    """A timeout in whole milliseconds, at least one."""
    if timeout is None:
        return None
    return max(1, _abi.nanoseconds(timeout) // 1_000_000)


def _c_text(text: bytes, what: str) -> bytes:
    if b"\0" in text:
        raise ValueError(f"a NUL byte in {what}")
    return text
