"""Layers of the frameworks, and what their base classes offer to a layer of the project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gradcheck_cli.clues.interpreted.arguments import MISSING, Arguments
from gradcheck_cli.clues.interpreted.generators import made
from gradcheck_cli.clues.interpreted.shapes import dim, is_size, shape_of
from gradcheck_cli.clues.interpreted.values import (
    FLOAT,
    UNKNOWN,
    Array,
    Instance,
    Layer,
    Library,
    Value,
)

_SAME = frozenset(
    {"ReLU", "GELU", "SiLU", "Tanh", "Sigmoid", "Identity", "Dropout", "LayerNorm", "BatchNorm1d"}
    | {"BatchNorm2d", "GroupNorm", "LayerNormalization", "BatchNormalization", "Softplus", "ELU"}
)


def layer(callee: Library, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Layer | None:
    """A framework's layer, if the library's class is one that is read here."""
    a = Arguments("", args, kwargs)
    if callee.last == "Linear":
        return Layer((a.at(0, "in_features"), a.at(1, "out_features")))
    if callee.last == "Dense":
        return Layer((a.at(0, "units", "features"),)) if "activation" not in kwargs else None
    if callee.last == "Embedding":
        return Layer((UNKNOWN, a.at(1, "embedding_dim", "output_dim")))
    if callee.last == "Sequential":
        inner = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
        return Layer(stack=tuple(inner))
    return Layer() if callee.last in _SAME else None


def parameters(
    base: Value, args: Sequence[Value], kwargs: Mapping[str, Value]
) -> dict[str, Value] | None:
    """What a layer of the project has from the framework's dense layer that it is made of."""
    if not isinstance(base, Library) or base.last != "Linear":
        return None
    a = Arguments("torch", args, kwargs)
    shape = shape_of([a.at(1, "out_features"), a.at(0, "in_features")]) or (None, None)
    has_bias = a.at(2, "bias", default=True)
    bias = {True: Array(FLOAT, shape[:1]), False: None}
    return {
        "weight": Array(FLOAT, shape),
        "bias": bias[has_bias] if isinstance(has_bias, bool) else UNKNOWN,
        "out_features": a.at(1, "out_features"),
        "in_features": a.at(0, "in_features"),
    }


def applied(of: Layer, x: Value) -> Value:
    """What a layer gives for an array."""
    if not isinstance(x, Array):
        return UNKNOWN
    if not of.sizes:
        return Array(FLOAT, x.shape)
    width = dim(of.sizes[-1]) if is_size(of.sizes[-1]) else None
    if len(of.sizes) == 2 and of.sizes[0] is UNKNOWN:  # places of rows in a table
        return Array(FLOAT, (*x.shape, width))
    return Array(FLOAT, (*x.shape[:-1], width)) if x.shape else UNKNOWN


def inherited(
    owner: Instance, name: str, args: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value:
    """A method that a layer of the project has from the framework's own class."""
    a = Arguments("torch", args, kwargs)
    if name in ("add_weight", "add_variable"):
        shape = next((v for v in args if isinstance(v, tuple)), MISSING)
        return made(FLOAT, _shape(kwargs.get("shape", shape)))
    if name in ("register_buffer", "register_parameter"):
        key, value = a.at(0, "name"), a.at(1, "tensor", "param")
        if isinstance(key, str):
            owner.attributes[key] = UNKNOWN if value is MISSING else value
        return None
    if name in ("param", "variable"):
        place = 2 if name == "param" else 3
        return made(FLOAT, _shape(a.at(place, "shape")))
    return UNKNOWN


def _shape(value: Value) -> tuple[int | None, ...] | None:
    shape = shape_of(value)
    return None if shape is None else tuple(d if isinstance(d, int) else None for d in shape)
