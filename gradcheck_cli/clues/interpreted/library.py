"""Functions of libraries on arrays that are interpreted: what comes out, as shape, kind and domain.

Long because it is one table by name, and the few lines that each name stands for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gradcheck_cli.clues.interpreted import generators, shapes
from gradcheck_cli.clues.interpreted.arguments import MISSING, Arguments
from gradcheck_cli.clues.interpreted.arithmetic import combined, compared, plain_number
from gradcheck_cli.clues.interpreted.generators import Rule, like, made
from gradcheck_cli.clues.interpreted.patterns import einsum_shape, rearranged
from gradcheck_cli.clues.interpreted.ranges import (
    ANYWHERE,
    NOT_NEGATIVE,
    OPEN_UNIT,
    POSITIVE,
    Range,
)
from gradcheck_cli.clues.interpreted.values import (
    A_FLOAT,
    BOOL,
    FLOAT,
    INT,
    UNKNOWN,
    Array,
    Shape,
    Sum,
    Symbol,
    Value,
)

ROOTS = frozenset({"numpy", "jax", "torch", "tensorflow", "keras", "einops", "scipy", "math"})
_INPUT = ("x", "a", "input", "inputs", "tensor", "array", "logits", "features")
_AXIS = ("axis", "dim")


def called(name: str, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    """What a library's function gives for these arguments; unknown where no rule says it."""
    root, _, rest = name.partition(".")
    last = rest.rpartition(".")[2]
    rule = _table(root, rest).get(last)
    return UNKNOWN if rule is None else rule(Arguments(root, args, kwargs))


def _table(root: str, rest: str) -> dict[str, Rule]:
    """The rules for functions of this module."""
    if root == "math":
        return _MATH
    if "random." in rest:
        of = {"numpy": generators.NUMPY, "jax": generators.JAX, "tensorflow": generators.KERAS, "keras": generators.KERAS}  # fmt: skip
        return of.get(root, {})
    if root == "torch":
        return _TORCH
    return _NUMPY if root in ("numpy", "jax", "scipy") else _KERAS


# -- arrays of nothing but a shape ------------------------------------------------------


def _constant(a: Arguments) -> Value:
    """`zeros(shape, dtype)`."""
    return made(a.kind(-1 if a.root == "torch" else 1, FLOAT), a.shape(0, "shape", "size"))


def _full(a: Arguments) -> Value:
    filler = a.at(1, "fill_value", "value")
    default = BOOL if isinstance(filler, bool) else INT if type(filler) is int else FLOAT
    value = a.at(0, "shape", "size", "dims")
    return made(a.kind(2, default), None if value is MISSING else shapes.shape_of(value))


def _eye(a: Arguments) -> Value:
    rows = a.at(0, "N", "n", "num_rows")
    columns = a.at(1, "M", "m", "num_columns", default=rows)
    shape = shapes.shape_of([rows, rows if columns is None else columns])
    return made(a.kind(-1, FLOAT), shape, family="identity")


def _range(a: Arguments) -> Value:
    """`arange(5)` and `arange(0, 10, 2)`."""
    ends = [v for v in a.args if isinstance(v, (int, float)) and not isinstance(v, bool)]
    symbolic = len(a.args) == 1 and isinstance(a.args[0], Symbol)
    if symbolic and a.kind(-1, INT) == INT:
        return made(INT, shapes.shape_of(list(a.args)))
    if not 1 <= len(ends) == len(a.args) <= 3 or (len(ends) == 3 and not ends[2]):
        return UNKNOWN
    start, stop, step = (0, ends[0], 1) if len(ends) == 1 else (*ends, 1)[:3]
    count = max(0, math.ceil((stop - start) / step))
    kind = a.kind(-1, FLOAT if any(type(e) is float for e in ends) else INT)
    span = Range(start, stop - 1) if kind == INT and step == 1 and count else ANYWHERE
    return made(kind, (count,), span)


def _grid(default: int | None) -> Rule:
    """A rule for `linspace(start, stop, num)`: evenly spaced numbers."""

    def rule(a: Arguments) -> Value:
        low, high = a.number(0, "start"), a.number(1, "stop", "end")
        count = a.at(2, "num", "steps", default=default)
        if low is None or high is None or type(count) is not int or count < 0:
            return UNKNOWN
        span = Range(low, high, is_drawn=True) if low < high else ANYWHERE
        return made(a.kind(-1, FLOAT), (count,), span)

    return rule


def _array(a: Arguments) -> Value:
    """`array([[1.0, 2.0]])`, also of an array that is there."""
    array = a.array(0, "object", "data", "value", "initial_value", *_INPUT)
    if array is None:
        return UNKNOWN
    kind = a.kind(1, array.kind)
    if kind is None:
        return UNKNOWN
    shape = a.at(2, "shape") if a.root == "tensorflow" else MISSING
    if shape not in (MISSING, None):
        return made(kind, shapes.shape_of(shape))
    return cast(array, kind)


def cast(array: Array, kind: str) -> Array:
    """The array in another dtype; what was a mask is made of zeros and ones."""
    if kind == array.kind:
        return array
    if kind == FLOAT and (array.kind == BOOL or array.range == Range(0, 1)):
        return Array(kind, array.shape, family="binary")
    return Array(kind, array.shape)


def _cast_to(kind: str) -> Rule:
    return _unary(lambda x: cast(x, kind))


# -- one array in, one out --------------------------------------------------------------


def _unary(rule: Callable[[Array], Array]) -> Rule:
    def of(a: Arguments) -> Value:
        array = a.array(0, *_INPUT)
        return UNKNOWN if array is None else rule(array)

    return of


def _elementwise(span: Range = ANYWHERE) -> Rule:
    return _unary(lambda x: Array(FLOAT, x.shape, span))


def _absolute(x: Array) -> Array:
    if x.kind == INT:
        return Array(INT, x.shape)
    return Array(x.kind, x.shape, x.range.without_sign())


def _along(family: str, *, kind: str = FLOAT) -> Rule:
    """A rule for what is true along one axis, said where that is the last one."""

    def rule(a: Arguments) -> Value:
        x = a.array(0, *_INPUT)
        axis = a.at(1, *_AXIS, default=-1)
        if x is None:
            return UNKNOWN
        last = shapes.axis_of(axis, len(x.shape)) == len(x.shape) - 1
        return Array(kind, x.shape, family=family if last else "")

    return rule


def _sorted(a: Arguments) -> Value:
    out = _along("sorted")(a)
    if not isinstance(out, Array):
        return UNKNOWN
    x = a.array(0, *_INPUT)
    out = replace(out, kind=FLOAT if x is None else x.kind)
    if a.root == "torch":
        return (out, Array(INT, out.shape))
    rising = not {"descending", "direction"} & set(a.kwargs)
    return out if rising else replace(out, family="")


def _numbers(a: Arguments) -> Value:
    """`argsort`: the places along the axis, each once."""
    x = a.array(0, *_INPUT)
    axis = a.at(1, *_AXIS, default=-1)
    at = None if x is None else shapes.axis_of(axis, len(x.shape))
    if x is None or at is None:
        return UNKNOWN
    return whole_along(x.shape, at, x.shape)


def whole_along(shape: Shape, at: int, of: Shape) -> Value:
    """Places along one axis of an array."""
    size = of[at]
    return made(INT, shape, Range(0, size - 1) if isinstance(size, int) and size else ANYWHERE)


def _clip(a: Arguments) -> Value:
    x = a.array(0, *_INPUT)
    low, high = a.number(1, "min", "a_min", "x_min", "clip_value_min"), a.number(2, "max", "a_max", "x_max", "clip_value_max")  # fmt: skip
    if x is None:
        return UNKNOWN
    span = Range(-math.inf if low is None else low, math.inf if high is None else high)
    return Array(x.kind, x.shape, span if x.kind == FLOAT else ANYWHERE)


def _one_hot(a: Arguments) -> Value:
    labels, count = a.array(0, *_INPUT, "indices"), a.at(1, "num_classes", "depth")
    if labels is None or not shapes.is_size(count):
        return UNKNOWN
    kind = INT if a.root == "torch" else FLOAT
    span = Range(0, 1) if kind == INT else ANYWHERE
    family = "" if kind == INT else "binary"
    return Array(kind, (*labels.shape, shapes.dim(count)), span, family)


# -- reductions -------------------------------------------------------------------------


def _reduction(span: Range = ANYWHERE, kind: str = FLOAT) -> Rule:
    def rule(a: Arguments) -> Value:
        x = a.array(0, *_INPUT)
        axis = a.at(1, *_AXIS, default=None)
        keep = a.flag("keepdims", "keepdim")
        shape = None if x is None or keep is None else shapes.reduced(x.shape, axis, keep)
        return UNKNOWN if x is None else made(kind, shape, span)

    return rule


def _norm(a: Arguments) -> Value:
    """`norm(x, ord, axis)`."""
    x, keep = a.array(0, *_INPUT), a.flag("keepdims", "keepdim")
    axis = a.at(2, *_AXIS, default=None)
    if x is None or keep is None:
        return UNKNOWN
    return made(FLOAT, shapes.reduced(x.shape, axis, keep), NOT_NEGATIVE)


def _place(a: Arguments) -> Value:
    """`argmax`: a place along the axis."""
    x, axis = a.array(0, *_INPUT), a.at(1, *_AXIS, default=None)
    keep = a.flag("keepdims", "keepdim")
    if x is None or keep is None:
        return UNKNOWN
    shape = shapes.reduced(x.shape, axis, keep)
    at = shapes.axis_of(axis, len(x.shape))
    return made(INT, shape) if at is None or shape is None else whole_along(shape, at, x.shape)


def _pair_along_axis(a: Arguments) -> Value:
    """torch's `max(x, dim)` gives places, too."""
    largest = _reduction()(a)
    if a.at(1, "dim") is MISSING or isinstance(a.at(1, "dim"), Array):
        return largest if len(a.args) == 1 and "dim" not in a.kwargs else UNKNOWN
    places = _place(a)
    return (largest, places)


# -- shapes -----------------------------------------------------------------------------


def _shaped(shape: Callable[[Shape, Arguments], Shape | None]) -> Rule:
    """A rule for what only gives the array another shape."""

    def rule(a: Arguments) -> Value:
        x = a.array(0, *_INPUT)
        new = None if x is None else shape(x.shape, a)
        return UNKNOWN if x is None or new is None else Array(x.kind, new, x.range)

    return rule


def _rest(a: Arguments, *names: str) -> Value:
    """`reshape(x, 3, 4)` and `reshape(x, (3, 4))`."""
    return list(a.args[1:]) if len(a.args) > 2 else a.at(1, *names)


def _transposed(shape: Shape, a: Arguments) -> Shape | None:
    axes = _rest(a, "axes", "perm", "dims")
    if axes is MISSING or axes is None:
        return shape[::-1]
    return shapes.permuted(shape, axes) if isinstance(axes, (tuple, list)) else None


def _joined(a: Arguments) -> Value:
    rows = a.at(0, "arrays", "tensors", "values", "inputs")
    axis = a.at(1, *_AXIS, default=0)
    arrays = [shapes.literal(v) for v in rows] if isinstance(rows, (tuple, list)) else []
    known = [x for x in arrays if x is not None]
    if not known or len(known) < len(arrays):
        return UNKNOWN
    return made(known[0].kind, shapes.joined([x.shape for x in known], axis))


def _stacked(a: Arguments) -> Value:
    rows, axis = a.at(0, "arrays", "tensors", "x"), a.at(1, *_AXIS, default=0)
    arrays = [shapes.literal(v) for v in rows] if isinstance(rows, (tuple, list)) else []
    known = [x for x in arrays if x is not None]
    if not known or len(known) < len(arrays):
        return UNKNOWN
    whole = shapes.stacked(known)
    at = None if whole is None else shapes.axis_of(axis, len(whole.shape))
    if whole is None or at is None:
        return UNKNOWN
    rest = whole.shape[1:]
    return Array(whole.kind, (*rest[:at], whole.shape[0], *rest[at:]))


# -- several arrays ---------------------------------------------------------------------


def _binary(operator: str) -> Rule:
    def rule(a: Arguments) -> Value:
        return combined(operator, a.at(0, *_INPUT, "x1"), a.at(1, "y", "other", "b", "x2"))

    return rule


def _comparison(a: Arguments) -> Value:
    return compared(a.at(0, *_INPUT, "x1"), a.at(1, "y", "other", "x2"))


def _where(a: Arguments) -> Value:
    condition, one, other = a.array(0, "condition"), a.array(1, "x", "x1"), a.array(2, "y", "x2")
    if condition is None or one is None or other is None:
        return UNKNOWN
    both = shapes.broadcast(one.shape, other.shape)
    shape = None if both is None else shapes.broadcast(condition.shape, both)
    return made(FLOAT if FLOAT in (one.kind, other.kind) else one.kind, shape)


def _outer(a: Arguments) -> Value:
    one, other = a.array(0, *_INPUT), a.array(1, "b", "vec2", "x2")
    if one is None or other is None or len(one.shape) != 1 or len(other.shape) != 1:
        return UNKNOWN
    return Array(FLOAT, (*one.shape, *other.shape))


def _dot(a: Arguments) -> Value:
    """Like `matmul`, up to matrices."""
    one, other = a.array(0, *_INPUT), a.array(1, "b", "other", "x2")
    small = one is not None and other is not None and max(len(one.shape), len(other.shape)) <= 2
    return combined("@", one, other) if small else UNKNOWN


def _einsum(a: Arguments) -> Value:
    operands = [shapes.literal(v) for v in a.args[1:]]
    known = [x.shape for x in operands if x is not None]
    text = a.at(0, "subscripts", "equation")
    if not isinstance(text, str) or not known or len(known) < len(operands):
        return UNKNOWN
    return made(FLOAT, einsum_shape(text, known))


def _rearrange(a: Arguments) -> Value:
    x, text = a.array(0, "tensor"), a.at(1, "pattern")
    if x is None or not isinstance(text, str):
        return UNKNOWN
    sizes = {k: v for k, v in a.kwargs.items() if type(v) is int}
    return made(x.kind, rearranged(text, x.shape, sizes), x.range)


def _math(function: Callable[[float], float]) -> Rule:
    def rule(a: Arguments) -> Value:
        number = plain_number(a.at(0))
        if number is None:  # `math.sqrt(width)` is a number all the same
            return A_FLOAT if isinstance(a.at(0), (Symbol, Sum)) else UNKNOWN
        try:
            return function(number)
        except (ValueError, OverflowError):
            return UNKNOWN

    return rule


_MATH: dict[str, Rule] = {
    name: _math(getattr(math, name)) for name in ("sqrt", "exp", "log", "sin", "cos", "floor", "ceil")
}  # fmt: skip

_SAME = _unary(lambda x: x)
_ANYWHERE = (
    "sin", "cos", "tan", "tanh", "arctan", "sinh", "arcsinh", "log", "log1p", "log2", "gelu", "silu",
    "swish", "elu", "leaky_relu", "selu", "negative", "reciprocal", "sign", "floor", "round", "erf",
    "expm1", "log_softmax", "log_sigmoid", "logit", "rsqrt", "asin", "acos", "atan",
)  # fmt: skip
_POSITIVE = ("exp", "softplus", "exp2", "cosh")
_REDUCED = ("sum", "mean", "prod", "median", "logsumexp", "reduce_sum", "reduce_mean", "reduce_logsumexp", "amax", "amin", "nansum")  # fmt: skip
_SPREAD = ("var", "std", "reduce_variance", "reduce_std")

_SHARED: dict[str, Rule] = {
    **dict.fromkeys(_ANYWHERE, _elementwise()),
    **dict.fromkeys(_POSITIVE, _elementwise(POSITIVE)),
    **dict.fromkeys(("relu", "square", "sqrt"), _elementwise(NOT_NEGATIVE)),
    **dict.fromkeys(("sigmoid", "expit"), _elementwise(OPEN_UNIT)),
    **dict.fromkeys(("abs", "absolute"), _unary(_absolute)),
    **dict.fromkeys(("cumsum", "cumprod", "flip", "roll", "tril", "triu", "flipud", "fliplr"), _unary(lambda x: Array(x.kind, x.shape))),
    **dict.fromkeys(("stop_gradient", "device_put", "copy", "identity", "block_until_ready", "ascontiguousarray"), _SAME),
    **dict.fromkeys(_REDUCED, _reduction()),
    **dict.fromkeys(_SPREAD, _reduction(NOT_NEGATIVE)),
    **dict.fromkeys(("any", "all", "reduce_any", "reduce_all"), _reduction(kind=BOOL)),
    **dict.fromkeys(("argmax", "argmin"), _place),
    **dict.fromkeys(("zeros", "ones", "empty"), _constant),
    **dict.fromkeys(("zeros_like", "ones_like", "empty_like", "full_like"), like()),
    **dict.fromkeys(("array", "asarray", "constant", "convert_to_tensor", "Variable", "tensor", "as_tensor", "from_numpy", "as_array"), _array),
    **dict.fromkeys(("add", "subtract", "sub"), _binary("+")),
    **dict.fromkeys(("multiply", "mul"), _binary("*")),
    **dict.fromkeys(("divide", "true_divide", "div"), _binary("/")),
    **dict.fromkeys(("minimum", "maximum", "pow", "power", "logaddexp", "hypot", "arctan2"), _binary("**")),
    **dict.fromkeys(("matmul", "bmm", "mm", "mv"), _binary("@")),
    **dict.fromkeys(("greater", "less", "greater_equal", "less_equal", "equal", "not_equal", "isnan", "logical_and", "logical_or"), _comparison),
    **dict.fromkeys(("concatenate", "concat", "cat"), _joined),
    **dict.fromkeys(("norm", "vector_norm"), _norm),
    "dot": _dot,
    "softmax": _along("simplex"),
    "sort": _sorted,
    "argsort": _numbers,
    "full": _full,
    "fill": _full,
    "eye": _eye,
    "arange": _range,
    "range": _range,
    "linspace": _grid(None),
    "clip": _clip,
    "clip_by_value": _clip,
    "one_hot": _one_hot,
    "stack": _stacked,
    "where": _where,
    "outer": _outer,
    "einsum": _einsum,
    "rearrange": _rearrange,
    "reshape": _shaped(lambda s, a: shapes.reshaped(s, a.at(1, "shape", "newshape"))),
    "expand_dims": _shaped(lambda s, a: shapes.expanded(s, a.at(1, "axis"))),
    "squeeze": _shaped(lambda s, a: shapes.squeezed(s, a.at(1, *_AXIS, default=None))),
    "swapaxes": _shaped(lambda s, a: shapes.swapped(s, a.at(1, "axis1"), a.at(2, "axis2"))),
    "ravel": _shaped(lambda s, a: shapes.reshaped(s, -1)),
    "transpose": _shaped(_transposed),
    "broadcast_to": _shaped(lambda s, a: shapes.shape_of(a.at(1, "shape"))),
}  # fmt: skip

_NUMPY: dict[str, Rule] = {
    **_SHARED,
    "linspace": _grid(50),
    **dict.fromkeys(("max", "min"), _reduction()),
    **dict.fromkeys(("float16", "float32", "float64", "bfloat16"), _cast_to(FLOAT)),
    **dict.fromkeys(("int8", "int16", "int32", "int64"), _cast_to(INT)),
    "identity": lambda a: a.at(0) if a.root == "jax" else _eye(a),
}

_KERAS: dict[str, Rule] = {
    **_SHARED,
    **dict.fromkeys(("max", "min", "reduce_max", "reduce_min"), _reduction()),
    "cast": _array,
    "identity": lambda a: _SAME(a) if a.root == "tensorflow" else _eye(a),
    "Parameter": _array,
}

_TORCH: dict[str, Rule] = {
    **_SHARED,
    **generators.TORCH,
    **dict.fromkeys(("max", "min"), _pair_along_axis),
    "Parameter": _array,
    "sqrt": _elementwise(NOT_NEGATIVE),
    "transpose": _shaped(lambda s, a: shapes.swapped(s, a.at(1, "dim0"), a.at(2, "dim1"))),
    "permute": _shaped(_transposed),
    "unsqueeze": _shaped(lambda s, a: shapes.expanded(s, a.at(1, "dim"))),
    "normalize": _along("unit"),
    "clamp": _clip,
    "flatten": _shaped(lambda s, a: shapes.reshaped(s, -1) if len(a.args) == 1 else None),
}
