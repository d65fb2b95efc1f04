"""Sealstone: a verified disk tier for the KV caches of large language models.

    with sealstone.Store(dir="/nvme/kv", capacity_bytes=100 << 30) as store:
        blocks = store.namespace(sealstone.Layout.opaque("example"))
        blocks.put([(hash, data)])
        [result] = blocks.get([(hash, buffer)])
        if not result.ok:
            ...  # compute it: result.status says what was wrong

A block comes back only after its bytes were verified; all else is a status.
"""

from __future__ import annotations

from ._buffers import Memory, Scatter
from ._errors import (
    ClosedError,
    CloseError,
    Difference,
    ForkedError,
    LayoutMismatchError,
    LibraryError,
    OpenError,
    SealstoneError,
    UnavailableError,
)
from ._layout import HashScheme, Layout, Parallel, Plane, Quantisation
from ._lease import Lease
from ._namespace import Namespace, NamespaceInfo
from ._region import Region
from ._requests import GetBlock, Hash, Part, PutBlock
from ._results import GetResult, PutResult, Result
from ._seal import Seal
from ._status import Status
from ._store import Health, Store
from ._version import __version__

__all__ = [
    "CloseError",
    "ClosedError",
    "Difference",
    "ForkedError",
    "GetBlock",
    "GetResult",
    "Hash",
    "HashScheme",
    "Health",
    "Layout",
    "LayoutMismatchError",
    "Lease",
    "LibraryError",
    "Memory",
    "Namespace",
    "NamespaceInfo",
    "OpenError",
    "Parallel",
    "Part",
    "Plane",
    "PutBlock",
    "PutResult",
    "Quantisation",
    "Region",
    "Result",
    "Scatter",
    "Seal",
    "SealstoneError",
    "Status",
    "Store",
    "UnavailableError",
    "__version__",
    "library_version",
]


def library_version() -> str:
    """The version of libsealstone, as the binary would say it. Loads the library."""
    from . import _abi

    return _abi.library().version
