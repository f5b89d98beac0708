"""Axis numbers: `sum(axis=(0, 1))`, `softmax(x, axis=axis)`, `permute(0, 2, 1)`, `x.mT`, `unsqueeze(-1)`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gradcheck_cli.clues.source_text.computed import along
from gradcheck_cli.clues.source_text.facts import Facts
from gradcheck_cli.clues.source_text.values import (
    Call,
    Constant,
    Dim,
    Many,
    Part,
    Pieces,
    Turned,
    Value,
    itself,
    reshaped,
    whole,
    wholes,
    widened,
)
from gradcheck_cli.inputs.clue import Kind

AXES = (-1, 0, 1)
_KEYWORDS = ("axis", "dim", "axes", "dims")
# The place of the axis after the array, where it may be given without its name.
_PLACES = dict.fromkeys(
    (
        "sum", "mean", "prod", "max", "min", "amax", "amin", "var", "std", "any", "all", "argmax",
        "argmin", "argsort", "sort", "cumsum", "cumprod", "cummax", "logsumexp", "logcumsumexp",
        "softmax", "log_softmax", "softmin", "nansum", "nanmean", "median", "reduce_sum",
        "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "reduce_std", "reduce_variance",
        "reduce_logsumexp", "flip", "squeeze", "unbind", "count_nonzero", "select",
        "narrow", "index_select", "index_add", "index_copy", "scatter", "scatter_add",
        "standardize", "unstack", "l2_normalize", "reverse",
    ),
    1,
) | {
    "gather": 1, "take": 2, "take_along_axis": 2, "take_along_dim": 2, "repeat": 2, "roll": 2,
    "split": 2, "chunk": 2, "norm": 2, "normalize": 2, "diff": 2,
}  # fmt: skip
_TORCH_ONLY = ("gather",)  # `gather(x, dim, index)`; TensorFlow has the indices there
_NEW_AXIS = ("expand_dims", "unsqueeze")
_CUTTING = ("split", "chunk")
_ONE_BY_ONE = ("unbind", "unstack")
_JOINING = ("concatenate", "concat", "cat")
_PERMUTING = ("transpose", "permute", "permute_dims")
_SWAPPING = ("swapaxes", "moveaxis", "movedim", "swapdims")
_NOT_OF_THE_OPERAND = ("stack", "vmap", "tensordot", "linspace", "one_hot", "psum", "pmean", "pmap")
_ALONG_THE_LAST = (
    "softmax", "log_softmax", "sort", "argsort", "diff", "fft", "ifft", "rfft", "irfft", "top_k",
    "topk", "glu", "trapezoid",
)  # fmt: skip
_FLAGS = (
    "keepdims", "keepdim", "reverse", "unbiased", "align_corners", "inclusive", "exclusive",
    "transpose_a", "transpose_b", "adjoint_a", "adjoint_b", "lower", "upper", "descending",
    "indices_are_sorted", "unique_indices", "hermitian", "full_matrices", "ceil_mode",
)  # fmt: skip
_OF_ONE_SHAPE = (
    "cumsum", "cumprod", "cummax", "softmax", "log_softmax", "softmin", "sort", "flip", "roll",
    "logcumsumexp", "normalize", "l2_normalize", "standardize", "reverse",
)  # fmt: skip


def call(made: Call, facts: Facts) -> Value:
    """The rank that the axis numbers of a call ask for, and parameters that are axes."""
    if not made.library and not made.method:
        return None
    for flag in _FLAGS:
        facts.kind(made.keywords.get(flag), Kind.FLAG)
    if made.name in _NOT_OF_THE_OPERAND:
        return None
    first = made.argument(0, "x", "input", "a", "tensor", "operand")
    axis = _axis_of(made)
    if made.name in _JOINING:
        _joined(first, made, facts)
    elif made.name in _PERMUTING:
        _permuted(first, made, facts)
        return _exchanged(first, made)
    elif made.name in _SWAPPING:
        places = [wholes(made.argument(place)) or [] for place in (1, 2)]
        _reach(first, [n for numbers in places for n in numbers], facts)
        return _exchanged(first, made)
    elif made.name in _NEW_AXIS:
        _with_axis(first, made, facts)
        return widened(first, 1)
    elif made.name in _ALONG_THE_LAST and axis is None and not _named_axis(made):
        facts.least_rank(first, 1)
    else:
        _along(first, axis, facts)
    pieces = _pieces(first, axis, made, facts)
    if made.name == "squeeze" and isinstance(first, Part):
        _of_size_one(first, axis, facts)
    if made.name in _OF_ONE_SHAPE and isinstance(first, Part):
        return replace(first, itself=False)
    return pieces


def _axis_of(made: Call) -> Value:
    for name in _KEYWORDS:
        if name in made.keywords:
            return made.keywords[name]
    place = _PLACES.get(made.name)
    if place is None or place >= len(made.operands):
        return None
    if made.name in _TORCH_ONLY and not (made.method or made.library.startswith("torch")):
        return None
    return made.operands[place]


def _named_axis(made: Call) -> bool:
    return any(name in made.keywords for name in _KEYWORDS)


def _pieces(first: Value, axis: Value, made: Call, facts: Facts) -> Value:
    """`jnp.split(x, 2, axis=-1)`: the axis has so many pieces of one size; `x.unbind(-1)`: as many as it has."""
    given = _named_axis(made) or len(made.operands) > _PLACES.get(made.name, 0)
    cut, second = along(first, axis if given else Constant(0)), made.argument(1)
    if made.name in _ONE_BY_ONE:
        facts.least_rank(first, 1)
        return None if cut is None else Pieces(cut)
    if made.name not in _CUTTING:
        return None
    torchs = made.method or made.library.startswith("torch")
    if made.name == "split" and torchs:  # it has the size of a piece
        return Pieces(cut, second) if cut is not None and isinstance(second, Dim) else None
    count = whole(second)
    if count is None:
        return None
    if cut is not None:
        facts.factor(cut, count)
    elif itself(axis) is not None and isinstance(first, Part):
        facts.factor_of_all(first, count)
    return None


def _along(first: Value, axis: Value, facts: Facts) -> None:
    facts.kind(axis, Kind.AXIS, AXES)
    numbers = wholes(axis)
    if numbers:
        _reach(first, numbers, facts)
    elif isinstance(axis, Many):
        for item in axis.items:
            facts.kind(item, Kind.AXIS, AXES)


def _reach(first: Value, numbers: Sequence[int], facts: Facts) -> None:
    """The array has the axes of these numbers."""
    if numbers:
        from_front = max(n + 1 for n in numbers)
        from_back = max(-n for n in numbers)
        facts.least_rank(first, max(from_front, from_back, len(set(numbers))))


def _of_size_one(part: Part, axis: Value, facts: Facts) -> None:
    number = whole(axis)
    if number is not None:
        facts.size(Dim(part.path, number if number < 0 else number + part.dropped), 1)


def _joined(first: Value, made: Call, facts: Facts) -> None:
    place = made.argument(1, *_KEYWORDS)
    facts.kind(place, Kind.AXIS, AXES)
    numbers = wholes(place) or [0]
    for item in first.items if isinstance(first, Many) else ():
        if isinstance(item, Part):
            _reach(item, numbers, facts)


def _permuted(first: Value, made: Call, facts: Facts) -> None:
    order = (
        made.operands[1:] if len(made.operands) > 1 else (made.argument(9, "axes", "perm", "dims"),)
    )
    listed = order[0] if len(order) == 1 else None
    if isinstance(listed, Many):
        facts.rank(first, len(listed.items))
    elif made.name != "transpose" or len(order) > 2:
        if len(order) > 1:
            facts.rank(first, len(order))
    elif len(order) == 2:
        _reach(first, [n for o in order if (n := whole(o)) is not None], facts)
        for item in order:
            facts.kind(item, Kind.AXIS, AXES)
    elif listed is None:
        facts.least_rank(first, 2)


def _exchanged(first: Value, made: Call) -> Value:
    """`k.transpose(-1, -2)`: a part whose last two axes are exchanged."""
    places = [whole(value) for value in made.operands[1:]]
    listed = made.operands[1] if len(made.operands) == 2 else None
    turned = set(places) == {-1, -2} or not (made.operands[1:] or made.keywords)
    if not turned and isinstance(listed, Many):
        turned = wholes(listed) in ([1, 0], [0, 2, 1], [0, 1, 3, 2])
    return Turned(first) if turned and isinstance(first, Part) else reshaped(first)


def _with_axis(first: Value, made: Call, facts: Facts) -> None:
    """A new axis may stand behind the last one."""
    place = made.argument(1, *_KEYWORDS)
    number = whole(place)
    facts.kind(place, Kind.AXIS, AXES)
    if number is not None:
        facts.least_rank(first, number if number >= 0 else -number - 1)
    else:
        facts.array(first)
