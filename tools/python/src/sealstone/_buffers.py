"""Addresses of memory that others own, and keeping it there while it is in use.

The library reads and writes memory by address, until the completion of an
operation and not later. So whatever gave the address must neither move nor go
away before: an exported buffer is held (a bytearray then refuses to grow, a
memoryview to be released), and where there is no buffer protocol a reference.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Iterator
from typing import Any, TypeAlias, Union

Memory: TypeAlias = Any
"""A piece of memory: an object with the buffer protocol (bytearray, memoryview,
mmap, array, numpy array), one with ``__array_interface__``, a CPU tensor
(``data_ptr``, ``is_contiguous``), or a pair (address, length in bytes). It has
to be contiguous in C order, and writable where bytes are to be received."""

Scatter: TypeAlias = Union[Memory, "list[Memory]"]
"""One piece of memory, or a list of pieces that are filled one after the other."""

Span: TypeAlias = tuple[int, int]
"""Address and length in bytes."""


class _PyBuffer(ctypes.Structure):
    """CPython's Py_buffer, part of its stable interface."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_void_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


# A memoryview does not tell its address, and ctypes' from_buffer refuses
# read-only memory: the interpreter itself is asked.
_get_buffer = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int
)(("PyObject_GetBuffer", ctypes.pythonapi))
_release_buffer = ctypes.PYFUNCTYPE(None, ctypes.POINTER(_PyBuffer))(
    ("PyBuffer_Release", ctypes.pythonapi)
)

_SIMPLE = 0  # PyBUF_SIMPLE: contiguous bytes
_WRITABLE = 1  # PyBUF_WRITABLE


class Pins:
    """Memory that is in use by an operation, held until ``release``."""

    __slots__ = ("_buffers", "_references")

    def __init__(self) -> None:
        self._buffers: list[_PyBuffer] = []
        self._references: list[object] = []

    def keep(self, thing: object) -> None:
        """Holds a reference to thing."""
        self._references.append(thing)

    def source(self, scatter: Scatter) -> list[Span]:
        """The spans of memory that is read."""
        return [s for m in _pieces(scatter) if (s := self._span(m, False))[1]]

    def destination(self, scatter: Scatter) -> list[Span]:
        """The spans of memory that is written."""
        return [s for m in _pieces(scatter) if (s := self._span(m, True))[1]]

    def release(self) -> None:
        """Lets go of everything. A second call does nothing."""
        buffers, self._buffers, self._references = self._buffers, [], []
        for b in buffers:
            _release_buffer(b)

    def _span(self, memory: Memory, writable: bool) -> Span:
        if isinstance(memory, tuple):
            return _raw(memory)
        if hasattr(memory, "data_ptr"):
            self._references.append(memory)
            return _tensor(memory)
        try:
            return self._export(memory, writable)
        except (BufferError, ValueError) as err:
            # numpy exports no buffer of types that are not its own (bfloat16).
            if span := self._array(memory, writable):
                return span
            what = "receive bytes" if writable else "be read"
            kind = type(memory).__name__
            raise ValueError(
                f"a {kind} that can not {what}: {err}; memory has to be contiguous"
                + (" and writable" if writable else "")
            ) from None
        except TypeError:
            if span := self._array(memory, writable):
                return span
            raise TypeError(
                f"a {type(memory).__name__} is no memory: a buffer, an array, a CPU tensor"
                " or (address, length) is"
            ) from None

    def _export(self, memory: Memory, writable: bool) -> Span:
        view = _PyBuffer()
        _get_buffer(memory, view, _WRITABLE if writable else _SIMPLE)
        self._buffers.append(view)
        return view.buf or 0, view.len

    def _array(self, memory: Memory, writable: bool) -> Span | None:
        if hasattr(memory, "__cuda_array_interface__"):
            raise ValueError(f"a {type(memory).__name__} on a GPU: copy it to host memory first")
        described = getattr(memory, "__array_interface__", None)
        if described is None:
            return None
        self._references.append(memory)
        return _interface(described, writable)


def _pieces(scatter: Scatter) -> Iterator[Memory]:
    if isinstance(scatter, list):
        yield from scatter
    else:
        yield scatter


def _raw(memory: tuple[Any, ...]) -> Span:
    """A pair of the caller's, who answers for the memory being there."""
    try:
        address, length = map(operator.index, memory)
    except (TypeError, ValueError):
        raise TypeError(
            "a tuple as memory is (address, length in bytes); several pieces are a list"
        ) from None
    if length < 0 or address < 0 or (address == 0 and length > 0):
        raise ValueError(f"address {address:#x} and length {length} are no memory")
    return address, length


def _tensor(tensor: Any) -> Span:
    """A tensor of torch, or of what behaves like it."""
    device = getattr(tensor, "device", None)
    if getattr(device, "type", device) != "cpu":
        raise ValueError(f"a tensor on {device}: copy it to the CPU first")
    if not tensor.is_contiguous():
        raise ValueError("a tensor that is not contiguous: take its .contiguous() first")
    return int(tensor.data_ptr()), int(tensor.numel()) * int(tensor.element_size())


def _interface(described: dict[str, Any], writable: bool) -> Span:
    """An array by version 3 of numpy's array interface."""
    data = described.get("data")
    if not isinstance(data, tuple):
        raise ValueError("an array whose interface names no address")
    address, read_only = data
    if writable and read_only:
        raise ValueError("an array that is read-only can not receive bytes")
    shape = tuple(described["shape"])
    length = int(described["typestr"][2:])
    strides = described.get("strides")
    for extent, stride in zip(reversed(shape), reversed(strides or shape), strict=True):
        if strides is not None and extent > 1 and stride != length:
            raise ValueError("an array that is not contiguous in C order")
        length *= extent
    return int(address), length
