"""The version of the package, from its metadata."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("sealstone")
except PackageNotFoundError:  # run from a source tree
    __version__ = "0+unknown"
