"""Memory in all its forms: what is taken, what is refused, what is held."""

from __future__ import annotations

import array
import ctypes
import mmap
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealstone._buffers import Pins, Span


class Device:
    def __init__(self, type_: str) -> None:
        self.type = type_

    def __str__(self) -> str:
        return f"{self.type}:0"


class Tensor:
    """As much of a torch tensor as is asked for."""

    def __init__(self, data: Any, device: str = "cpu", contiguous: bool = True) -> None:
        self.array = np.frombuffer(data, dtype=np.uint16)
        self.device = Device(device)
        self.contiguous = contiguous

    def is_contiguous(self) -> bool:
        return self.contiguous

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)

    def numel(self) -> int:
        return int(self.array.size)

    def element_size(self) -> int:
        return 2


class Strange:
    """An array without the buffer protocol, like those of bfloat16."""

    def __init__(self, of: Any, **changed: Any) -> None:
        self.of = of
        self.__array_interface__ = {**of.__array_interface__, **changed}


def read(spans: list[Span]) -> bytes:
    return b"".join(ctypes.string_at(*s) for s in spans)


DATA = bytes(range(24))
ARRAY = np.frombuffer(bytearray(DATA), dtype=np.uint8)


def words() -> Any:
    return np.frombuffer(bytearray(DATA), dtype=np.uint16)


HELD = [words(), words()]  # whose addresses are given


def writable() -> list[tuple[str, Any]]:
    mapped = mmap.mmap(-1, 24)
    mapped[:] = DATA
    return [
        ("bytearray", bytearray(DATA)),
        ("memoryview", memoryview(bytearray(DATA))),
        ("part of a memoryview", memoryview(bytearray(b"xx" + DATA + b"y"))[2:-1]),
        ("memoryview of words", memoryview(bytearray(DATA)).cast("I")),
        ("array", array.array("H", DATA)),
        ("ctypes array", (ctypes.c_uint8 * 24)(*DATA)),
        ("mmap", mapped),
        ("numpy", words()),
        ("numpy of two dimensions", words().reshape(3, 4)),
        ("rows of numpy", np.frombuffer(bytearray(b"abcd" + DATA), np.uint8).reshape(7, 4)[1:]),
        ("numpy datetime", np.frombuffer(bytearray(DATA), dtype="M8[s]")),
        ("tensor", Tensor(bytearray(DATA))),
        ("array interface", Strange(words().reshape(3, 4))),
        ("array interface with strides", Strange(words(), strides=(2,))),
        ("address", (HELD[0].ctypes.data, 24)),
        ("address of numpy integers", (np.uint64(HELD[1].ctypes.data), np.int64(24))),
        ("list", [bytearray(DATA[:5]), memoryview(bytearray(DATA[5:]))]),
    ]


@pytest.mark.parametrize(("name", "memory"), writable())
def test_writable(name: str, memory: Any) -> None:
    pins = Pins()
    spans = pins.destination(memory)
    assert read(spans) == DATA
    ctypes.memset(spans[0][0], 0xFF, 1)
    assert read(pins.source(memory))[:1] == b"\xff"
    pins.release()


READ_ONLY = [
    ("bytes", DATA),
    ("read-only memoryview", memoryview(DATA)),
    ("read-only numpy", np.frombuffer(DATA, dtype=np.uint32)),
    ("read-only interface", Strange(np.frombuffer(DATA, dtype=np.uint32))),
]


@pytest.mark.parametrize(("name", "memory"), READ_ONLY)
def test_read_only(name: str, memory: Any) -> None:
    pins = Pins()
    assert read(pins.source(memory)) == DATA
    with pytest.raises(ValueError, match=r"receive bytes"):
        pins.destination(memory)
    pins.release()


@pytest.mark.parametrize(
    ("memory", "error", "said"),
    [
        (memoryview(bytearray(DATA))[::2], ValueError, "contiguous"),
        (np.frombuffer(bytearray(DATA), np.uint8)[::2], ValueError, "contiguous"),
        (np.asfortranarray(ARRAY.reshape(4, 6)), ValueError, "contiguous"),
        (ARRAY.reshape(4, 6)[:, :3], ValueError, "contiguous"),
        (Strange(ARRAY, strides=(2,)), ValueError, "contiguous"),
        (Strange(ARRAY.reshape(4, 6), strides=(1, 4)), ValueError, "contiguous"),
        (Strange(ARRAY, data=None), ValueError, "no address"),
        (Tensor(bytearray(DATA), device="cuda"), ValueError, "on cuda:0"),
        (Tensor(bytearray(DATA), contiguous=False), ValueError, "contiguous"),
        ("text", TypeError, "a str is no memory"),
        (17, TypeError, "an? int is no memory"),
        (None, TypeError, "no memory"),
        ((1, 2, 3), TypeError, "address, length"),
        ((b"a", b"b"), TypeError, "address, length"),
        ((1.5, 2), TypeError, "address, length"),
        ((0, 1), ValueError, "no memory"),
        ((4096, -1), ValueError, "no memory"),
        ([bytearray(1), "text"], TypeError, "no memory"),
    ],
)
def test_refused(memory: Any, error: type[Exception], said: str) -> None:
    pins = Pins()
    with pytest.raises(error, match=said):
        pins.destination(memory)
    with pytest.raises(error, match=said):
        pins.source(memory)
    pins.release()


def test_memory_of_a_gpu() -> None:
    class OnGPU:
        __cuda_array_interface__ = None

    with pytest.raises(ValueError, match="copy it to host memory"):
        Pins().destination(OnGPU())


def test_empty_memory_has_no_spans() -> None:
    pins = Pins()
    assert pins.destination([bytearray(), (0, 0), np.zeros((0, 4))]) == []
    assert pins.source(b"") == []


def test_release_lets_go() -> None:
    buffer, view, words = bytearray(DATA), memoryview(bytearray(DATA)), np.zeros(4)
    tensor = Tensor(bytearray(DATA))
    things: list[Any] = [buffer, view, words, tensor]
    before = [sys.getrefcount(t) for t in things]
    pins = Pins()
    pins.destination(list(things))
    with pytest.raises(BufferError):
        buffer.clear()
    with pytest.raises(BufferError):
        view.release()
    assert [sys.getrefcount(t) for t in things] > before
    pins.release()
    pins.release()
    assert [sys.getrefcount(t) for t in things] == before
    buffer.clear()
    view.release()


def test_memory_outlives_its_name() -> None:
    pins = Pins()
    [span] = pins.destination(bytearray(DATA))
    assert read([span]) == DATA
    pins.release()


@given(st.lists(st.binary(max_size=64), max_size=12))
def test_any_pieces(pieces: list[bytes]) -> None:
    pins = Pins()
    assert read(pins.source(list(pieces))) == b"".join(pieces)
    targets = [bytearray(p) for p in pieces]
    assert read(pins.destination(list(targets))) == b"".join(pieces)
    pins.release()
