"""What all tests share: the installed package, stores, blocks of bytes."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import random
import site
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
BINARY = ROOT / "bin" / "sealstone"


def find_package() -> None:
    """Takes the package from bin/venv where the interpreter has none.

    So a pytest from elsewhere will do, if its Python is the one of `make python`.
    """
    if importlib.util.find_spec("sealstone"):
        return
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = str(ROOT / "bin" / "venv" / "lib" / version / "site-packages")
    site.addsitedir(packages)
    os.environ["PYTHONPATH"] = packages  # for the processes that tests start
    if importlib.util.find_spec("sealstone"):
        return
    raise pytest.UsageError(
        f"{sys.executable} has no package sealstone: run `make python`, then"
        " `bin/venv/bin/pytest tools/python`"
    )


find_package()

import hypothesis  # noqa: E402
from double import Double  # noqa: E402

import sealstone  # noqa: E402
from sealstone._core import Core, close_quietly  # noqa: E402

hypothesis.configuration.set_hypothesis_home_dir(ROOT / "bin" / "hypothesis")
# The same examples on every run; other ones each time where there is time.
FULL = os.environ.get("SEALSTONE_FULL") == "1"
hypothesis.settings.register_profile(
    "sealstone",
    database=None,
    deadline=None,
    derandomize=not FULL,
    max_examples=1000 if FULL else 50,
)
hypothesis.settings.load_profile("sealstone")

MIB = 1 << 20
CAPACITY = 256 * MIB


def block_hash(key: object) -> bytes:
    """The hash of a key, as namespaces of plain keys have it."""
    return hashlib.sha256(str(key).encode()).digest()


def content(key: object, size: int) -> bytes:
    """The bytes that belong to a key, other ones for each."""
    return random.Random(f"{key} {size}").randbytes(size)


def segments(directory: Path) -> list[Path]:
    """The segment files of a store, oldest first."""
    return sorted(directory.glob("segments/*/*.seg"))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(directory: Path) -> Iterator[sealstone.Store]:
    with sealstone.Store(dir=directory, capacity_bytes=CAPACITY, max_block_bytes=4 * MIB) as opened:
        yield opened


@pytest.fixture
def blocks(store: sealstone.Store) -> sealstone.Namespace:
    return store.namespace(sealstone.Layout.opaque("test"))


@pytest.fixture
def double() -> Double:
    return Double()


def core_of(double: Any) -> Core:
    """The store of a double."""
    return Core(double, 3)


@pytest.fixture
def doubled(double: Double, monkeypatch: pytest.MonkeyPatch) -> Iterator[sealstone.Store]:
    """A store over the double."""
    monkeypatch.setattr("sealstone._store._open", lambda given, options: core_of(double))
    opened = sealstone.Store(dir="nowhere")
    yield opened
    double.let_go()
    close_quietly(opened._core)


@pytest.fixture
def doubled_blocks(doubled: sealstone.Store) -> sealstone.Namespace:
    return doubled.namespace(sealstone.Layout.opaque("test"))


def run_python(
    source: str, *arguments: object, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs a program by the interpreter of these tests."""
    return subprocess.run(
        [sys.executable, "-c", source, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
        check=False,
    )
