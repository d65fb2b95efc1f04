"""Layouts in Python, as dicts and as JSON."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealstone import HashScheme, Layout, Parallel, Plane, Quantisation
from sealstone._layout import layout_json

names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)
counts = st.integers(1, 2**32 - 1)
parallels = st.builds(Parallel, size=counts, rank=st.integers(0, 8)) | st.just(Parallel.any())
layouts = st.builds(
    Layout,
    model=names,
    weights_digest=names,
    dtype=names,
    kv_layout=st.sampled_from(["NHD", "HND", "custom:x"]),
    tokens_per_block=counts,
    layers=counts,
    kv_heads=counts,
    head_size=counts,
    planes=st.lists(st.builds(Plane, name=names, size_bytes=st.integers(0, 99)), min_size=1).map(
        tuple
    ),
    tp=parallels,
    pp=parallels,
    cp=parallels,
    rope=names,
    attention=names,
    hybrid_kv_manager=st.sampled_from(["on", "off"]),
    engine=names,
    layout_version=names,
    hash=st.builds(HashScheme, names, counts, names),
    adapter_digest=st.just("") | names,
    quantisation=st.just(Quantisation()) | st.builds(Quantisation, names, names),
    extra=st.dictionaries(names, names, max_size=3),
)


@given(layouts)
def test_json_and_back(layout: Layout) -> None:
    assert Layout.from_json(layout.to_json()) == layout
    assert Layout.from_dict(layout.to_dict()) == layout


def test_empty_fields_are_left_out() -> None:
    plain = Layout.opaque("x").to_dict()
    assert "adapter_digest" not in plain
    assert "quantisation" not in plain
    assert "extra" not in plain
    assert plain["planes"] == [{"name": "value"}]
    assert plain["tp"] == {"agnostic": True}


def test_required_fields() -> None:
    with pytest.raises(TypeError, match="head_size"):
        Layout(model="x")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="head_size"):
        Layout.from_dict({"model": "x"})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"modell": "x"}, "modell"),
        ({"tp": {"size": 2, "rnk": 1}}, "tp.*rnk"),
        ({"planes": [{"nam": "k"}]}, "planes.*nam"),
        ({"hash": {"algorithm": "sha256"}}, "hash.*root"),
    ],
)
def test_misspelt_fields(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Layout.from_dict({**Layout.opaque("x").to_dict(), **changed})


def test_json_that_is_no_object() -> None:
    with pytest.raises(ValueError, match="object"):
        Layout.from_json("[]")


def test_frozen() -> None:
    layout = Layout.opaque("x")
    with pytest.raises(dataclasses.FrozenInstanceError):
        layout.model = "y"  # type: ignore[misc]
    assert dataclasses.replace(layout, model="y").model == "y"


def test_ways_to_give_a_layout() -> None:
    layout = Layout.opaque("x")
    for given_ in (layout, layout.to_dict(), layout.to_json(), layout.to_json().encode()):
        assert json.loads(layout_json(given_)) == layout.to_dict()
    with pytest.raises(TypeError, match="list"):
        layout_json([])  # type: ignore[arg-type]
