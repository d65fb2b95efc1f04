"""The layout: everything that decides what the bytes of a block mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

NONE = "none"
"""What a required text says when the thing does not exist, such as the rope of
a model without one. Optional fields are left empty instead."""


@dataclass(frozen=True)
class Plane:
    """A named part of a block; ``size_bytes`` 0 means any size."""

    name: str
    size_bytes: int = 0


@dataclass(frozen=True)
class Parallel:
    """The shard of one parallel dimension: rank ``rank`` of ``size``.

    ``Parallel.any()`` is for bytes that are the same at every size and rank.
    """

    size: int = 0
    rank: int = 0
    agnostic: bool = False

    @staticmethod
    def any() -> Parallel:
        """Bytes that are the same at every size and rank."""
        return Parallel(agnostic=True)


@dataclass(frozen=True)
class Quantisation:
    """How cached values are quantised; empty means not at all."""

    scheme: str = ""
    scale_mode: str = ""


@dataclass(frozen=True)
class HashScheme:
    """How the engine makes block hashes.

    ``root`` is the parent of the first block of every sequence, lower case hex
    or ``"none"``. An engine that draws it at random can never find its blocks
    again.
    """

    algorithm: str
    width_bytes: int
    root: str


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The descriptor of a namespace.

    Fields without a default are required, because a default that is wrong on
    one side is how bytes of one layout get served as another. The library
    checks values and names all that is wrong at once.
    """

    model: str
    weights_digest: str
    dtype: str
    kv_layout: str
    """``NHD``, ``HND`` or ``custom:NAME``."""
    tokens_per_block: int
    layers: int
    kv_heads: int
    head_size: int
    planes: tuple[Plane, ...]
    """In the order in which blocks have them."""
    tp: Parallel
    pp: Parallel
    cp: Parallel
    rope: str
    attention: str
    hybrid_kv_manager: str
    """``on`` or ``off``."""
    engine: str
    layout_version: str
    hash: HashScheme
    adapter_digest: str = ""
    quantisation: Quantisation = Quantisation()
    extra: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def opaque(name: str) -> Layout:
        """A namespace of plain keys: one plane, ``value``, of any size.

        By convention the block hash is the SHA-256 of the key.
        """
        return Layout(
            model=name,
            weights_digest=NONE,
            dtype="bytes",
            kv_layout="custom:opaque",
            tokens_per_block=1,
            layers=1,
            kv_heads=1,
            head_size=1,
            planes=(Plane("value"),),
            tp=Parallel.any(),
            pp=Parallel.any(),
            cp=Parallel.any(),
            rope=NONE,
            attention=NONE,
            hybrid_kv_manager="off",
            engine=NONE,
            layout_version="1",
            hash=HashScheme("sha256", 32, NONE),
        )

    def to_dict(self) -> dict[str, Any]:
        """The layout as plain values; what is empty is left out."""
        whole = {f.name: _plain(getattr(self, f.name)) for f in fields(self)}
        return {name: value for name, value in whole.items() if value not in ("", {}, None)}

    def to_json(self) -> str:
        """The layout as the library and the offline tool read it."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Layout:
        """A layout from plain values, as ``to_dict`` writes them.

        A field that is not known is refused: a misspelt field is a field left
        out.
        """
        read = dict(values)
        for name, kind in _PARTS.items():
            if name in read and isinstance(read[name], Mapping):
                read[name] = _make(kind, name, read[name])
        planes = read.get("planes", ())
        read["planes"] = tuple(
            _make(Plane, "planes", p) if isinstance(p, Mapping) else p for p in planes
        )
        layout: Layout = _make(Layout, "layout", read)
        return layout

    @staticmethod
    def from_json(text: str | bytes) -> Layout:
        """A layout from JSON, as ``to_json`` writes it."""
        values = json.loads(text)
        if not isinstance(values, dict):
            raise ValueError("the JSON of a layout is an object")
        return Layout.from_dict(values)


_PARTS: dict[str, type] = {
    "tp": Parallel,
    "pp": Parallel,
    "cp": Parallel,
    "quantisation": Quantisation,
    "hash": HashScheme,
}


def _make(kind: type, where: str, values: Mapping[str, Any]) -> Any:
    try:
        return kind(**values)
    except TypeError as err:
        # The names in Python's message are those of __init__.
        raise ValueError(f"{where}: {str(err).split('__init__()')[-1].strip()}") from None


def _plain(value: Any) -> Any:
    """Dataclasses as dicts without their empty fields."""
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (Plane, Parallel, Quantisation, HashScheme)):
        parts = {f.name: getattr(value, f.name) for f in fields(value)}
        return {name: part for name, part in parts.items() if part}
    return value


def layout_json(layout: Layout | Mapping[str, Any] | str | bytes) -> bytes:
    """What ``sealstone_open_namespace`` takes, from any way to give a layout."""
    if isinstance(layout, Layout):
        return layout.to_json().encode()
    if isinstance(layout, str):
        return layout.encode()
    if isinstance(layout, bytes):
        return layout
    if isinstance(layout, Mapping):
        return json.dumps(dict(layout), ensure_ascii=False, allow_nan=False).encode()
    raise TypeError(f"a layout is a Layout, a dict or JSON, not {type(layout).__name__}")
