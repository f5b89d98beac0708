"""Whole numbers that serve as sizes: counts, strides, groups, shifts; and what goes with them."""

from __future__ import annotations

import ast
from dataclasses import replace

from gradcheck_cli.clues.source_text.facts import Facts
from gradcheck_cli.clues.source_text.values import (
    Call,
    Dim,
    Many,
    Member,
    Part,
    Rest,
    Times,
    Value,
    itself,
    whole,
)
from gradcheck_cli.inputs.clue import Kind
from gradcheck_cli.inputs.names import are_places
from gradcheck_cli.inputs.whole_parts import PARTS, WHOLES

COUNTS = (3, 2, 1)
CLASSES = (5, 4)
STEPS = (2, 1, 3)
GROUPS = (2, 3, 1)
WINDOWS = (3, 2)
SHIFTS = (1, 2, -1)
PADS = (1, 0, 2)
_KEYWORDS = {
    "stride": STEPS, "strides": STEPS, "window_strides": STEPS, "dilation": STEPS,
    "dilations": STEPS, "rhs_dilation": STEPS, "lhs_dilation": STEPS,
    "groups": GROUPS, "feature_group_count": GROUPS, "num_groups": GROUPS, "num_heads": GROUPS,
    "padding": PADS, "kernel_size": WINDOWS, "ksize": WINDOWS, "window_dimensions": WINDOWS,
    "num_segments": CLASSES, "num_classes": CLASSES, "depth": CLASSES, "minlength": CLASSES,
    "length": COUNTS, "repeats": COUNTS, "total_repeat_length": COUNTS,
    "shift": SHIFTS, "shifts": SHIFTS, "offset": SHIFTS,
}  # fmt: skip
# For each function, at which place which whole number stands.
_PLACES: dict[str, dict[int, tuple[int, ...]]] = {
    "one_hot": {1: CLASSES}, "segment_sum": {2: CLASSES}, "segment_max": {2: CLASSES},
    "segment_min": {2: CLASSES}, "segment_prod": {2: CLASSES},
    "unsorted_segment_sum": {2: CLASSES}, "unsorted_segment_mean": {2: CLASSES},
    "top_k": {1: COUNTS}, "topk": {1: COUNTS}, "eye": {0: COUNTS}, "arange": {0: COUNTS},
    "fori_loop": {0: COUNTS, 1: COUNTS}, "linspace": {2: COUNTS}, "matrix_power": {1: STEPS},
    "roll": {1: SHIFTS}, "split": {1: GROUPS}, "chunk": {1: GROUPS}, "array_split": {1: GROUPS},
    "pixel_shuffle": {1: STEPS}, "channel_shuffle": {1: GROUPS},
    "group_norm": {1: GROUPS}, "max_pool1d": {1: WINDOWS, 2: STEPS},
    "max_pool2d": {1: WINDOWS, 2: STEPS}, "avg_pool1d": {1: WINDOWS, 2: STEPS},
    "avg_pool2d": {1: WINDOWS, 2: STEPS}, "narrow": {2: PADS, 3: WINDOWS},
    "repeat_interleave": {1: STEPS}, "repeat": {1: STEPS},
}  # fmt: skip
# Where a function of an array has a tuple with an entry for each axis.
_WINDOWED: dict[str, tuple[int, ...]] = {
    "reduce_window": (3,), "dynamic_slice": (2,), "pad": (1,)
}  # fmt: skip
_RESHAPES = ("reshape", "view", "broadcast_to", "expand")
_MAKERS = ("zeros", "ones", "full", "empty")


def call(made: Call, facts: Facts) -> Value:
    """Whole numbers among the arguments of a call."""
    if not made.library and not made.method:
        _builtin(made, facts)
        return None
    for name, numbers in _KEYWORDS.items():
        if name in made.keywords:
            _each(made.keywords[name], numbers, facts)
    for place, numbers in _PLACES.get(made.name, {}).items():
        if place < len(made.operands):
            _each(made.operands[place], numbers, facts)
    if made.name == "unfold" and made.method and len(made.operands) == 4:  # torch's, of a tensor
        _each(made.operands[2], WINDOWS, facts)
        _each(made.operands[3], STEPS, facts)
    if made.name == "arange":
        _one_more(made, facts)
    if made.name == "reduce_window":
        _each(made.argument(4, "window_strides"), STEPS, facts)
    if made.name in _WINDOWED:
        _of_each_axis(made, _WINDOWED[made.name], facts)
    if made.name in _RESHAPES or made.name in _MAKERS:
        _of_new_shape(made, facts)
    return None


def _builtin(made: Call, facts: Facts) -> None:
    """`range(n)`, `slice(i, n, stride)`."""
    last = STEPS if made.name == "slice" and len(made.operands) > 2 else COUNTS
    for place, operand in enumerate(made.operands if made.name in ("range", "slice") else ()):
        facts.kind(operand, Kind.WHOLE, last if place > 1 else COUNTS)
    if made.name == "range":
        _one_more(made, facts)


def _one_more(made: Call, facts: Facts) -> None:
    """`jnp.arange(first, last + 1)`: what is counted up to is a whole number, too."""
    nodes = () if made.node is None else made.node.args
    floats = (getattr(each, "value", 0) for node in nodes for each in ast.walk(node))
    starred = any(isinstance(node, ast.Starred) for node in nodes)
    if len(nodes) > 2 or starred or any(isinstance(number, float) for number in floats):
        return
    own = made.operands[len(made.operands) - len(nodes) :]
    for node, operand in zip(nodes, own, strict=True):
        match node:
            case ast.BinOp(ast.Name(id=name), ast.Add() | ast.Sub(), ast.Constant(value=int())):
                if isinstance(operand, Part) and operand.path == name:
                    facts.kind(replace(operand, itself=True), Kind.WHOLE, COUNTS)


def _of_each_axis(made: Call, places: tuple[int, ...], facts: Facts) -> None:
    """Tuples that have an entry for each axis of the first operand."""
    for place in places:
        value = made.argument(place, "window_dimensions" if place > 2 else "pad_width")
        entries = value.items if isinstance(value, Many) else ()
        if entries and (place > 1 or isinstance(entries[0], Many)):
            facts.rank(made.argument(0), len(entries))
            _each(value, WINDOWS, facts)


def divided(left: Value, right: Value, exact: bool, facts: Facts) -> Value:
    """`d // heads`, `n % groups`: a parameter, or a dimension, that divides a dimension or leaves a rest."""
    number = whole(right)
    part = right if isinstance(right, Member) else itself(right)
    if isinstance(left, Dim) and isinstance(right, Dim):
        if exact:
            facts.divides(right, left)
        return Rest(left, right)
    if isinstance(left, Dim) and number is not None and exact:
        facts.factor(left, number)
    divided_one = itself(left)
    if divided_one is not None and itself(right) is not None:
        if are_places(divided_one.path):
            facts.kind(left, Kind.INTEGERS)
        else:
            facts.kind(left, Kind.WHOLE, WHOLES)
        facts.kind(right, Kind.WHOLE, PARTS)
    if not isinstance(left, Dim) or part is None:
        return None
    facts.kind(right, Kind.WHOLE, GROUPS)
    if exact:
        facts.divides(right, left)
    return Rest(left, part)


def times(left: Value, right: Value) -> Value:
    """`2 * n`, where `n` is a dimension."""
    count, dim = (left, right) if isinstance(right, Dim) else (right, left)
    number = whole(count)
    return Times(number, dim) if isinstance(dim, Dim) and number is not None else None


def _each(value: Value, numbers: tuple[int, ...], facts: Facts) -> None:
    for item in value.items if isinstance(value, Many) else (value,):
        facts.kind(item, Kind.WHOLE, numbers)


def _of_new_shape(made: Call, facts: Facts) -> None:
    """`x.reshape(b, heads, -1)` has sizes, `x.reshape(shape)` has a shape."""
    first = 0 if made.name in _MAKERS else 1
    sizes = made.operands[first:]
    if made.name in ("full",):
        sizes = sizes[:1]
    given = made.keywords.get("shape", made.keywords.get("newshape"))
    if given is not None:
        sizes = (given,)
    if len(sizes) == 1 and not isinstance(sizes[0], Many):
        if made.name in _RESHAPES:
            facts.kind(sizes[0], Kind.SHAPE)
        return
    listed = sizes[0].items if sizes and isinstance(sizes[0], Many) else sizes
    if made.name in _MAKERS and sizes and not isinstance(sizes[0], Many):
        listed = listed if made.library.startswith("torch") else ()
    for size in listed:
        facts.kind(size, Kind.WHOLE, COUNTS)
