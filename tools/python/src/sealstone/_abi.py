"""The C interface, as sealstone.h declares it, in ctypes.

The library is loaded by the first Store and not by import: it brings threads,
and threads do not survive a fork. Calls that may take a while go through CDLL,
which lets other Python threads run; those that answer from memory within
microseconds through PyDLL, because getting the interpreter's lock back from a
busy thread takes a hundred times as long as the call.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from ctypes import (
    POINTER,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from pathlib import Path
from typing import Any

from ._errors import ForkedError, LibraryError
from ._status import Status

ABI_VERSION = 1
LIBRARY_NAME = "libsealstone.so"
LIBRARY_VARIABLE = "SEALSTONE_LIBRARY"

ITEMS_MAX = 65536
LOOKUP_MAX = 1048576

# Structures are packed by struct, several times faster than by ctypes.Structure.
SPAN = struct.Struct("=QQ")  # ptr, len
PART = struct.Struct("=QQIIQQ")  # plane, spans, n_spans, reserved, offset, length
ITEM = struct.Struct("=QQIIQIIQQQ")
"""hash, parent, hash_len, parent_len, parts, n_parts, seal_len, seal, reserved x 2"""
OPTIONS = struct.Struct("=IIqQ")  # struct_bytes, flags, timeout_ns, user_data
RESULT = struct.Struct("=iIQQII")
"""status, flags, bytes, verified_bytes, seal_len, reserved"""
COMPLETION = struct.Struct("=QQiIIIQ")
"""op_id, user_data, status, op, n_results, n_ok, first_result"""

OP_PUT, OP_GET, OP_EXISTS, OP_TOUCH, OP_DROP = 1, 2, 3, 4, 5
DURABLE, WAIT_FOR_DEVICE = 1, 2
EXISTED, DIFFERS, SHARED, RESULT_DURABLE = 1, 2, 4, 8

_ERR = (c_char_p, c_size_t)
_JSON = (c_char_p, c_size_t, POINTER(c_size_t))

# What each function takes. They all answer a status.
_LONG: dict[str, tuple[Any, ...]] = {
    "open": (c_char_p, POINTER(c_uint64), *_ERR),
    "close": (c_uint64, c_int64, *_ERR),
    "stats": (c_uint64, *_JSON),
    "health": (c_uint64, POINTER(c_int32), *_JSON),
    "events": (c_uint64, c_uint64, *_JSON),
    "open_namespace": (c_uint64, c_char_p, c_char_p, c_char_p, POINTER(c_uint64), *_JSON),
    "bump_epoch": (c_uint64, c_int64, POINTER(c_uint64), *_ERR),
    "register_region": (c_uint64, c_void_p, c_uint64, c_int, POINTER(c_uint64), *_ERR),
    "unregister_region": (c_uint64, c_uint64),
    "submit": (c_uint64, c_uint64, c_uint32, c_void_p, c_size_t, c_char_p, POINTER(c_uint64)),
    "drain": (
        c_uint64,
        c_void_p,
        c_size_t,
        c_void_p,
        c_size_t,
        POINTER(c_size_t),
        POINTER(c_size_t),
    ),
    "wait_idle": (c_uint64, c_int64),
    "match": (
        *(c_uint64, c_char_p, c_uint32, c_size_t, c_int64),
        *(POINTER(c_size_t), POINTER(c_uint64), *_ERR),
    ),
    "renew": (c_uint64,),
    "release": (c_uint64,),
}
_SHORT: dict[str, tuple[Any, ...]] = {
    "namespace_info": (c_uint64, *_JSON),
    "close_namespace": (c_uint64,),
    "event_fd": (c_uint64, POINTER(c_int)),
    "reason": (c_uint64, c_uint64, c_uint32, c_char_p, c_size_t),
    "lookup_now": (c_uint64, c_char_p, c_uint32, c_size_t, c_void_p),
}


class Library:
    """The functions of the loaded library, by name without their prefix."""

    open: Any
    close: Any
    stats: Any
    health: Any
    events: Any
    open_namespace: Any
    bump_epoch: Any
    register_region: Any
    unregister_region: Any
    submit: Any
    drain: Any
    wait_idle: Any
    match: Any
    renew: Any
    release: Any
    namespace_info: Any
    close_namespace: Any
    event_fd: Any
    reason: Any
    lookup_now: Any

    def __init__(self, path: Path) -> None:
        if ctypes.sizeof(c_void_p) != 8:
            raise LibraryError("sealstone needs a 64 bit Python")
        try:
            long = ctypes.CDLL(str(path), mode=os.RTLD_NOW)
            short = ctypes.PyDLL(str(path), mode=os.RTLD_NOW)
        except OSError as err:
            raise LibraryError(f"{path} can not be loaded: {err}") from err
        self.path = path
        self.process = os.getpid()
        self._check_version(short)
        for library, functions in ((long, _LONG), (short, _SHORT)):
            for name, takes in functions.items():
                setattr(self, name, _function(library, name, takes))
        version = _function(short, "version", ())
        version.restype = c_char_p
        self.version: str = version().decode()

    def _check_version(self, library: ctypes.PyDLL) -> None:
        try:
            asked = library.sealstone_abi_version
        except AttributeError:
            raise LibraryError(f"{self.path} is not libsealstone") from None
        asked.argtypes, asked.restype = (), c_uint32
        if (found := asked()) != ABI_VERSION:
            raise LibraryError(
                f"{self.path} has version {found} of the C interface, this package needs"
                f" {ABI_VERSION}: install package and library of one release"
            )


def _function(library: ctypes.CDLL, name: str, takes: tuple[Any, ...]) -> Any:
    try:
        f = getattr(library, "sealstone_" + name)
    except AttributeError:
        raise LibraryError(f"the library lacks sealstone_{name}") from None
    f.argtypes, f.restype = takes, c_int32
    return f


def library_path() -> Path:
    """Where the library is: named by SEALSTONE_LIBRARY, or in the package."""
    if named := os.environ.get(LIBRARY_VARIABLE):
        return Path(named)
    return Path(__file__).with_name(LIBRARY_NAME)


_loading = threading.Lock()
_loaded: Library | None = None


def library() -> Library:
    """The library, loaded once for the process."""
    global _loaded
    if _loaded is None:
        with _loading:
            if _loaded is None:
                _loaded = Library(library_path())
    if _loaded.process != os.getpid():
        raise ForkedError(
            "this process was forked from one that had opened a store, and the library's threads"
            ' did not come along: start it with multiprocessing\'s "spawn", or open the first store'
            " after the fork"
        )
    return _loaded


def _fresh_lock() -> None:
    """The lock may have been held by a thread that is not in the child."""
    global _loading
    _loading = threading.Lock()


os.register_at_fork(after_in_child=_fresh_lock)


def text(call: Any, *arguments: Any, size: int = 1 << 16) -> tuple[Status, str]:
    """Calls a function that ends in (text, size, needed) and returns its text.

    What does not fit is asked for again with the room that it needs.
    """
    needed = c_size_t()
    while True:
        buffer = ctypes.create_string_buffer(size)
        status = call(*arguments, buffer, size, needed)
        if status != Status.TOO_SMALL or needed.value <= size:
            return Status(status), buffer.value.decode(errors="replace")
        size = needed.value


def nanoseconds(timeout: float | None) -> int:
    """A timeout in seconds as the library takes it; None is the store's own."""
    if timeout is None:
        return 0
    if not timeout >= 0:
        raise ValueError(f"a timeout of {timeout} s")
    # 0 stands for the default there; the least is 1 ns, and a day is the most.
    return max(1, int(min(timeout, 86_400.0) * 1e9))
