"""Attributes and methods of arrays that are interpreted."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from gradcheck_cli.clues.interpreted import library, shapes
from gradcheck_cli.clues.interpreted.arguments import kind_of
from gradcheck_cli.clues.interpreted.ranges import ANYWHERE, Range
from gradcheck_cli.clues.interpreted.values import (
    BOOL,
    FLOAT,
    INT,
    UNKNOWN,
    Array,
    Library,
    Method,
    Shape,
    Value,
)

_CASTS = {"float": FLOAT, "double": FLOAT, "half": FLOAT, "bfloat16": FLOAT, "long": INT, "int": INT, "bool": BOOL}  # fmt: skip
_SAME = frozenset(
    {"detach", "clone", "contiguous", "cpu", "cuda", "numpy", "copy", "requires_grad_", "value"}
    | {"block_until_ready", "retain_grad", "data", "assign"}
)
_IN_PLACE = re.compile(r"[a-z]\w*[a-z]_")  # torch's `normal_`
# Methods that a function of the library has under the same name, with the array first.
_FUNCTIONS = frozenset(
    {"abs", "exp", "sqrt", "square", "sigmoid", "softmax", "sum", "mean", "max", "min", "argmax", "argmin"}
    | {"norm", "prod", "var", "std", "cumsum", "clip", "clamp", "transpose", "permute", "unsqueeze"}
    | {"squeeze", "swapaxes", "argsort", "matmul", "mm", "tanh", "relu", "log", "sin", "cos"}
    | {"any", "all", "flip", "ravel", "flatten", "tril", "triu", "logsumexp", "pow", "mul", "add", "div", "sub"}
)  # fmt: skip
_TORCH_ONLY = frozenset({"permute", "unsqueeze", "clamp"})


def attribute(x: Array, name: str) -> Value:
    """An attribute of an array, or its method."""
    if name == "shape":
        return tuple(UNKNOWN if d is None else d for d in x.shape)
    if name in ("T", "mT"):
        wanted = x.shape[::-1] if name == "T" else shapes.swapped(x.shape, -1, -2)
        return UNKNOWN if wanted is None else Array(x.kind, wanted, x.range)
    if name == "ndim":
        return len(x.shape)
    if name == "dtype":
        return Library({FLOAT: "numpy.float32", INT: "numpy.int32", BOOL: "numpy.bool_"}[x.kind])
    if name in ("data", "value"):
        return x
    if name == "grad":
        return UNKNOWN
    return Method(x, name)


def called(x: Array, name: str, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    """What a method of an array gives."""
    if name in _SAME:
        return x
    if name in _CASTS:
        return library.cast(x, _CASTS[name])
    rule = _METHODS.get(name)
    if rule is not None:
        return rule(x, args, kwargs)
    if _IN_PLACE.fullmatch(name):
        return Array(x.kind, x.shape, _drawn(name, args))
    if name not in _FUNCTIONS:
        return UNKNOWN
    if name in ("max", "min") and args:
        return UNKNOWN  # torch gives places, too
    of = "torch" if name in _TORCH_ONLY or "dim" in kwargs else "numpy"
    return library.called(f"{of}.{name}", [x, *args], kwargs)


def _reshaped(x: Array, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    wanted = kwargs.get("shape", args[0] if len(args) == 1 else list(args))
    return _shaped(x, shapes.reshaped(x.shape, wanted))


def _transposed(x: Array, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    if len(args) == 2:
        return _two_axes(x, args)
    return library.called("numpy.transpose", [x, *args], kwargs)


def _two_axes(x: Array, args: Sequence[Value]) -> Value:
    """`x.transpose(0, 1)` means the same in numpy and torch only for a matrix."""
    return _shaped(x, shapes.swapped(x.shape, *args)) if len(x.shape) != 2 else _both(x, args)


def _both(x: Array, args: Sequence[Value]) -> Value:
    torch = shapes.swapped(x.shape, *args)
    numpy = shapes.permuted(x.shape, args)
    return _shaped(x, torch) if torch == numpy else UNKNOWN


def _cast(x: Array, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    """`to(dtype)` casts, `to(device)` does not."""
    wanted = kwargs.get("dtype", args[0] if args else None)
    kind = kind_of(wanted)
    if kind is not None:
        return library.cast(x, kind)
    moves = wanted is None or (isinstance(wanted, str) and wanted.split(":")[0] in ("cpu", "cuda"))
    return x if moves else UNKNOWN


def _shaped(x: Array, shape: Shape | None) -> Value:
    return UNKNOWN if shape is None else Array(x.kind, shape, x.range)


def _expanded(x: Array, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    wanted = args[0] if len(args) == 1 else list(args)
    if not isinstance(wanted, (tuple, list)) or -1 in wanted:
        return UNKNOWN
    shape = shapes.shape_of(wanted)
    fits = shape is not None and shapes.broadcast(x.shape, shape) == shape
    return _shaped(x, shape) if fits else UNKNOWN


def _rank(x: Array, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    return len(x.shape)


def _turned(x: Array, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    return _shaped(x, x.shape[::-1])


def _new(x: Array, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    return library.called("torch.zeros", args, kwargs)


def _size(x: Array, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    if not args:
        return attribute(x, "shape")
    at = shapes.axis_of(args[0], len(x.shape))
    size = None if at is None else x.shape[at]
    return UNKNOWN if size is None else size


def _drawn(name: str, args: Sequence[Value]) -> Range:
    """Where `uniform_` puts the numbers; what else happens in place can put them anywhere."""
    if name != "uniform_":
        return ANYWHERE
    low, high = [*args, 0.0, 1.0][:2] if not args else [*args, None][:2]
    plain = isinstance(low, (int, float)) and isinstance(high, (int, float))
    if not plain or not isinstance(low, (int, float)) or not isinstance(high, (int, float)):
        return ANYWHERE
    return Range(low, high, is_drawn=True) if args and low < high else ANYWHERE


_METHODS: Mapping[str, Callable[[Array, Sequence[Value], Mapping[str, Value]], Value]] = {
    **dict.fromkeys(("astype", "to", "type", "cast"), _cast),
    **dict.fromkeys(("reshape", "view"), _reshaped),
    **dict.fromkeys(("expand", "broadcast_to"), _expanded),
    **dict.fromkeys(("new_zeros", "new_ones"), _new),
    "size": _size,
    "dim": _rank,
    "t": _turned,
    "transpose": _transposed,
}
