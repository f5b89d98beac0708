"""Operations that ask for a rank or a kind of their operands: one row for each function."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradcheck_cli.clues.source_text.computed import product
from gradcheck_cli.clues.source_text.facts import Facts
from gradcheck_cli.clues.source_text.sizes import CLASSES
from gradcheck_cli.clues.source_text.values import (
    Call,
    Computed,
    Constant,
    Dim,
    Fresh,
    Many,
    Narrow,
    Part,
    Scalar,
    Turned,
    Value,
    elements,
    itself,
    reshaped,
    whole,
    word,
)
from gradcheck_cli.inputs.clue import Kind
from gradcheck_cli.inputs.names import is_shape


@dataclass(frozen=True, slots=True)
class Operand:
    """What a function asks of one operand."""

    place: int
    rank: int | None = None
    least_rank: int = 0
    kind: Kind = Kind.NOTHING
    square: bool = False
    domain: str = ""
    names: tuple[str, ...] = ()
    named: str = ""  # what the operand is called, if the domain is to be its own
    axis: int | None = None  # its integers stay below this axis of operand `of`
    of: int = 0


_SQUARE = (Operand(0, least_rank=2, square=True),)
_MATRIX = (Operand(0, least_rank=2),)
_VECTORS = (Operand(0, rank=1), Operand(1, rank=1))
_SOLVE = (Operand(0, least_rank=2, square=True), Operand(1, least_rank=1))
_SEGMENTS = (
    Operand(0, least_rank=1, names=("data",)),
    Operand(1, kind=Kind.INTEGERS, rank=1, names=("segment_ids",)),
)
_LABELS = Operand(1, kind=Kind.INTEGERS, names=("labels", "target"))
# Places in a row, of which distances are taken.
_PLACES = r"(?:\w*_)?(?:edges|knots|bins|breaks|boundaries|grid|times?|ts|levels|nodes|depths)"
_BOOL, _FUNCTION, _KEY = Kind.BOOLS, Kind.FUNCTION, Kind.KEY
# In a library's `linalg`, and as functions of torch.
_LINALG = {
    **dict.fromkeys(
        ("inv", "inverse", "det", "logdet", "slogdet", "cholesky", "eigh", "eigvalsh", "eig",
         "eigvals", "matrix_power", "expm", "matrix_exp", "sqrtm", "logm", "inv_ex",
         "cholesky_ex", "lu", "lu_factor", "schur", "cho_factor"), _SQUARE),
    **dict.fromkeys(("svd", "svdvals", "qr", "pinv", "matrix_rank"), _MATRIX),
    **dict.fromkeys(
        ("solve", "solve_triangular", "cho_solve", "triangular_solve", "solve_ex"), _SOLVE),
    "lstsq": (Operand(0, least_rank=2), Operand(1, least_rank=1)),
    "cholesky_solve": (Operand(0, least_rank=1), Operand(1, least_rank=2, square=True)),
}  # fmt: skip
_IMAGES = (
    Operand(0, rank=4, names=("input",)),
    Operand(1, rank=4, names=("weight", "filters")),
    Operand(2, rank=1, names=("bias",)),
)
_SIGNALS = (
    Operand(0, rank=3, names=("input",)),
    Operand(1, rank=3, names=("weight", "filters")),
    Operand(2, rank=1, names=("bias",)),
)
_VOLUMES = (
    Operand(0, rank=5, names=("input",)),
    Operand(1, rank=5, names=("weight", "filters")),
    Operand(2, rank=1, names=("bias",)),
)
_WINDOWS = (Operand(0, rank=4),)
# Anywhere in a library.
_FUNCTIONS = {
    "conv1d": _SIGNALS, "conv_transpose1d": _SIGNALS, "conv2d": _IMAGES,
    "conv_transpose2d": _IMAGES, "depthwise_conv2d": _IMAGES[:2], "conv3d": _VOLUMES,
    "conv_transpose3d": _VOLUMES,
    **dict.fromkeys(("unfold", "avg_pool2d", "max_pool2d"), _WINDOWS),
    **dict.fromkeys(("interpolate", "pixel_shuffle", "extract_patches", "upsample"),
                    (Operand(0, least_rank=3),)),
    **dict.fromkeys(("fft2", "ifft2", "rfft2", "irfft2"), _MATRIX),
    "convolve": _VECTORS, "correlate": _VECTORS, "outer": _VECTORS, "ger": _VECTORS,
    "bmm": (Operand(0, rank=3), Operand(1, rank=3)), "mm": (Operand(0, rank=2), Operand(1, rank=2)),
    "mv": (Operand(0, rank=2), Operand(1, rank=1)), "baddbmm": (Operand(1, rank=3), Operand(2, rank=3)),
    "addmm": (Operand(1, rank=2), Operand(2, rank=2)),
    "polyval": (Operand(0, rank=1),), "interp": (Operand(1, rank=1, domain="in increasing"), Operand(2, rank=1)),
    "diff": (Operand(0, least_rank=1, domain="in increasing", named=_PLACES),),
    "searchsorted": (Operand(0, least_rank=1, domain="in sorted"),),
    **dict.fromkeys(("t", "trace", "diagonal", "tril", "triu", "matrix_transpose", "diag_part"), _MATRIX),
    "bias_add": (Operand(1, rank=1, names=("bias",)),),
    "cross": (Operand(0, least_rank=1), Operand(1, least_rank=1)),
    "scan": (Operand(0, kind=_FUNCTION), Operand(2, least_rank=1, names=("xs",))),
    "associative_scan": (Operand(0, kind=_FUNCTION),),
    **dict.fromkeys(("vmap", "grad", "value_and_grad", "jit", "vjp", "jvp", "jacfwd", "jacrev",
                     "hessian", "linearize", "checkpoint", "remat", "while_loop", "root"),
                    (Operand(0, kind=_FUNCTION),)),
    "fori_loop": (Operand(2, kind=_FUNCTION),),
    **dict.fromkeys(("segment_sum", "segment_max", "segment_min", "segment_prod", "segment_mean",
                     "unsorted_segment_sum", "unsorted_segment_mean", "unsorted_segment_max"),
                    _SEGMENTS),
    "bincount": (Operand(0, kind=Kind.INTEGERS, rank=1),),
    "one_hot": (Operand(0, kind=Kind.INTEGERS, names=("x", "indices")),),
    "sequence_mask": (Operand(0, kind=Kind.INTEGERS, names=("lengths",)),),
    "embedding": (Operand(0, kind=Kind.INTEGERS, axis=0, of=1, names=("input",)), Operand(1, rank=2, names=("weight",))),
    "embedding_lookup": (Operand(0, least_rank=1, names=("params",)), Operand(1, kind=Kind.INTEGERS, axis=0, names=("ids",))),
    "take_along_axis": (Operand(0, least_rank=1), Operand(1, kind=Kind.INTEGERS, least_rank=1, names=("indices",))),
    "take_along_dim": (Operand(0, least_rank=1), Operand(1, kind=Kind.INTEGERS, least_rank=1, names=("indices",))),
    "nll_loss": (_LABELS,), "softmax_cross_entropy_with_integer_labels": (_LABELS,),
    "sparse_softmax_cross_entropy_with_logits": (Operand(0, kind=Kind.INTEGERS, names=("labels",)),),
    "sparse_categorical_crossentropy": (Operand(0, kind=Kind.INTEGERS),),
    "masked_fill": (Operand(1, kind=_BOOL, names=("mask",)),), "masked_select": (Operand(1, kind=_BOOL, names=("mask",)),),
    "masked_fill_": (Operand(1, kind=_BOOL, names=("mask",)),), "boolean_mask": (Operand(1, kind=_BOOL, names=("mask",)),),
    "where": (Operand(0, kind=_BOOL, names=("condition",)),), "logical_not": (Operand(0, kind=_BOOL),),
    "logical_and": (Operand(0, kind=_BOOL), Operand(1, kind=_BOOL)), "logical_or": (Operand(0, kind=_BOOL), Operand(1, kind=_BOOL)),
    "bernoulli": (Operand(0, kind=_KEY),), "PRNGKey": (Operand(0, kind=Kind.WHOLE),),
    "default_rng": (Operand(0, kind=Kind.WHOLE),), "manual_seed": (Operand(0, kind=Kind.WHOLE),),
}  # fmt: skip
_WITH_DIM = {"index_add": 2, "index_select": 2, "index_copy": 2, "scatter_add": 2, "scatter": 2,
             "index_add_": 2, "scatter_add_": 2}  # fmt: skip
# Libraries whose random numbers need no key.
_NO_KEYS = ("random", "np", "numpy", "tf", "tensorflow", "torch", "keras")
_TURNS = ("t", "matrix_transpose", "adjoint")
_RESHAPES = (
    "reshape", "view", "ravel", "flatten", "broadcast_to", "expand", "expand_as", "repeat", "tile", "squeeze",
)  # fmt: skip
_CASTS = ("astype", "to", "type", "cast", "long", "int", "int32", "int64")
_INTEGER_TYPES = ("int32", "int64", "int", "long", "int_", "int8", "int16")
_KEPT = (
    "asarray", "detach", "stop_gradient", "contiguous", "convert_to_tensor", "clone", "as_tensor",
    "requires_grad_", "array", "copy",
)  # fmt: skip
_OF_COUNTS = ("lgamma", "gammaln", "loggamma", "betaln", "lbeta")
_CLIPS = ("clip", "clamp")
_ELEMENTWISE = frozenset((
    "exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "cbrt", "square", "abs", "fabs", "neg",
    "negative", "sign", "sin", "cos", "tan", "sinh", "cosh", "tanh", "arcsin", "arccos", "arctan",
    "asin", "acos", "atan", "arcsinh", "arccosh", "arctanh", "asinh", "acosh", "atanh", "sigmoid",
    "logistic", "erf", "erfc", "erfinv", "lgamma", "gammaln", "digamma", "relu", "softplus",
    "silu", "swish", "gelu", "elu", "selu", "leaky_relu", "hard_tanh", "log_sigmoid",
    "logsigmoid", "reciprocal", "exp2", "log2", "log10", "conj", "float", "double", "half",
    "zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "nan_to_num",
    "clip", "clamp", "isnan", "isfinite", "round", "floor", "ceil", "astype", "to", "type",
    "cast", "bfloat16", "real", "identity",
))  # fmt: skip


def call(made: Call, facts: Facts) -> Value:
    """What a function asks of its operands, and the array that it gives if it is of the first one's shape."""
    if not made.library and not made.method:
        return None
    for operand in _rows(made):
        _ask(operand, made, facts)
    result = _products(made, facts)
    facts.is_of_counts |= made.name in _OF_COUNTS
    if made.name == "t":
        facts.rank(made.argument(0), 2)
    if made.name in ("conv_general_dilated", "conv_with_general_padding"):
        _general_convolution(made, facts)
    if made.name == "cross":
        for value in made.operands[:2]:
            if isinstance(value, Part):
                facts.size(facts.axis(value, -1), 3)
    _dtypes_and_keys(made, facts)
    _integers(made, facts)
    result = _with_a_spare_place(made, facts) if result is None else result
    return _of_first_shape(made) if result is None else result


def _products(made: Call, facts: Facts) -> Value:
    """What the products of matrices ask of their operands, and what they give."""
    if made.name in ("matmul", "dot", "__matmul__") or (
        made.name == "tensordot" and not made.keywords
    ):
        return _product(made.operands, made, facts)
    if made.name in ("mm", "bmm"):
        return _product(made.operands, made, facts, matrices=made.name == "mm")
    if made.name in ("addmm", "baddbmm"):
        return _product(made.operands[1:], made, facts, matrices=made.name == "addmm")
    if made.name == "linear" and made.library:
        x, weight = made.argument(0, "input"), made.argument(1, "weight")
        _linear(x, weight, made.argument(2, "bias"), facts)
        return product(x, Turned(weight) if isinstance(weight, Part) else None)
    return None


def _rows(made: Call) -> Sequence[Operand]:
    linalg = "linalg" in made.library or made.library in ("torch", "jsp", "scipy") or (
        made.method and made.name in ("inverse", "det", "logdet", "slogdet")
    )  # fmt: skip
    if linalg and made.name in _LINALG:
        return _LINALG[made.name]
    if made.name == "where" and (made.method or len(made.operands) < 3):
        return ()
    if made.name == "bernoulli" and "random" not in made.library:
        return ()
    if made.name in ("take_along_axis", "take_along_dim") or not made.method:
        return _FUNCTIONS.get(made.name, ())
    if made.name.startswith(
        (
            "masked_",
            "bmm",
            "mm",
            "mv",
            "addmm",
            "baddbmm",
            "trace",
            "tril",
            "triu",
            "diagonal",
            "outer",
        )
    ):
        return _FUNCTIONS.get(made.name, ())
    return ()


def _ask(operand: Operand, made: Call, facts: Facts) -> None:
    value = made.argument(operand.place, *operand.names)
    if operand.kind is not Kind.NOTHING:
        facts.kind(value, operand.kind)
    if operand.rank is not None:
        facts.rank(value, operand.rank)
    if operand.least_rank:
        facts.least_rank(value, operand.least_rank)
    if operand.domain and _is_called(value, operand.named):
        facts.domain(value, operand.domain)
    if operand.square and isinstance(value, Part):
        facts.equal(facts.axis(value, -2), facts.axis(value, -1))
    table = made.argument(operand.of)
    if operand.axis is not None and isinstance(table, Part):
        facts.below(value, Dim(table.path, operand.axis + table.dropped))


def _is_called(value: Value | None, named: str) -> bool:
    """Has the operand a name like this one, where one is asked for?"""
    own = value.path.rpartition(".")[2] if isinstance(value, Part) else ""
    return not named or re.fullmatch(named, own) is not None


def _product(values: Sequence[Value], made: Call, facts: Facts, matrices: bool = False) -> Value:
    """A matrix product, where TensorFlow may turn an operand."""
    if len(values) < 2:
        return None
    operands = []
    for value, name in zip(values, ("transpose_a", "transpose_b"), strict=False):
        turned = made.keywords.get(name) == Constant(True) and isinstance(value, Part)
        operands.append(Turned(value) if turned and isinstance(value, Part) else value)
    facts.product(operands[0], operands[1])
    return product(operands[0], operands[1], matrices)


def _linear(x: Value, weight: Value, bias: Value, facts: Facts) -> None:
    """torch's `F.linear(x, weight, bias)`: weight has a row for each output."""
    facts.least_rank(x, 1)
    facts.rank(weight, 2)
    facts.rank(bias, 1)
    if isinstance(weight, Part):
        if isinstance(x, Part):
            facts.equal(facts.axis(weight, 1), facts.axis(x, -1))
        if isinstance(bias, Part):
            facts.equal(facts.axis(weight, 0), facts.axis(bias, 0))


def _general_convolution(made: Call, facts: Facts) -> None:
    """The rank is that of the layout, or two more than there are strides."""
    layout = made.argument(6, "dimension_numbers")
    texts = [word(t) for t in layout.items[:2]] if isinstance(layout, Many) else []
    strides = made.argument(2, "window_strides")
    for place, name in enumerate(("lhs", "rhs")):
        text = texts[place] if place < len(texts) else None
        if text is not None:
            facts.rank(made.argument(place, name), len(text))
        elif isinstance(strides, Many):
            facts.rank(made.argument(place, name), len(strides.items) + 2)
        else:
            facts.least_rank(made.argument(place, name), 3)


def _dtypes_and_keys(made: Call, facts: Facts) -> None:
    facts.kind(made.keywords.get("dtype"), Kind.DTYPE)
    if (
        made.name in ("astype", "view_dtype", "convert_element_type", "cast")
        and len(made.operands) > 1
    ):
        facts.kind(made.operands[1], Kind.DTYPE)
    if made.library.endswith("random") and not made.library.startswith(_NO_KEYS):
        if made.name in ("PRNGKey", "key"):
            facts.kind(made.argument(0), Kind.WHOLE, (0, 1))
            return
        facts.kind(made.argument(0, "key"), Kind.KEY)
        if made.name in ("normal", "uniform", "gumbel", "exponential", "rademacher", "bits"):
            facts.kind(made.argument(1, "shape"), Kind.SHAPE)
    if made.name in ("manual_seed", "default_rng", "PRNGKey"):
        facts.kind(made.argument(0), Kind.WHOLE, (0, 1))


def _integers(made: Call, facts: Facts) -> None:
    """Tables read at integers: which argument holds them, and what they stay below."""
    if made.name in _WITH_DIM:
        index = made.argument(_WITH_DIM[made.name], "index")
        _table(made, index, made.argument(1, "dim"), facts)
        if made.name.startswith("index_"):
            _row_by_row(index, made.argument(1, "dim"), made.argument(3, "source"), facts)
    elif made.name == "gather" and (made.method or made.library.startswith("torch")):
        _table(made, made.argument(2, "index"), made.argument(1, "dim"), facts)
    elif made.name in ("gather", "take", "gather_nd"):
        axis = made.argument(2, "axis") or (Constant(0) if made.name == "gather" else None)
        _table(made, made.argument(1, "indices"), axis, facts)
    elif made.name in ("take_along_axis", "take_along_dim"):
        _table(made, made.argument(1, "indices"), made.argument(2, "axis", "dim"), facts)
    elif made.name == "one_hot":
        facts.below(made.argument(0, "x", "indices"), made.argument(1, "num_classes", "depth"))
    elif made.name.startswith(("segment_", "unsorted_segment_")):
        data, ids = made.argument(0, "data"), made.argument(1, "segment_ids")
        facts.below(ids, made.argument(2, "num_segments"))
        if isinstance(ids, Part) and ids.spare:  # one segment more, which is cut off
            facts.kind(Part(ids.path), Kind.INTEGERS)
            facts.below(Part(ids.path), Part(ids.spare))
        if isinstance(data, Part) and isinstance(ids, Part):
            facts.equal(facts.axis(data, 0), facts.axis(ids, 0))
    elif made.name == "nll_loss":
        _table(made, made.argument(1, "target"), Constant(1), facts)
    elif made.name == "softmax_cross_entropy_with_integer_labels":
        _table(made, made.argument(1, "labels"), Constant(-1), facts)


def _row_by_row(index: Value, axis: Value, source: Value, facts: Facts) -> None:
    """`x.index_add(0, ids, rows)`: a vector of integers, one for each row of what is added."""
    ids, number = itself(index), whole(axis)
    if ids is None:
        return
    facts.rank(ids, 1)
    if isinstance(source, Part) and number is not None and facts.shapes_hold:
        facts.least_rank(source, max(number + 1, -number))
        facts.equal(facts.axis(source, number), facts.axis(ids, 0))


def _table(made: Call, index: Value, axis: Value, facts: Facts) -> None:
    facts.kind(index, Kind.INTEGERS)
    table, number = made.argument(0, "x", "input", "params", "a", "arr", "logits"), whole(axis)
    if number is None or not facts.shapes_hold:
        return
    if isinstance(table, Part):
        facts.below(index, facts.axis(table, number))
    elif isinstance(table, Fresh) and -len(table.sizes) <= number < len(table.sizes):
        facts.below(index, table.sizes[number])
        size = itself(table.sizes[number])
        if size is not None and not is_shape(size.path):
            facts.kind(size, Kind.WHOLE, CLASSES)


def _with_a_spare_place(made: Call, facts: Facts) -> Value:
    """`where(ids >= 0, ids, count)`: integers, of which the text asks whether they are places, and a place behind the last.

    Of what is asked whether it is above 0, as a slope is chosen by, nothing says that it counts.
    """
    sides = made.argument(1, "x", "input"), made.argument(2, "y", "other")
    for taken, other in (sides, sides[::-1]) if made.name == "where" else ():
        ids, count = itself(taken), itself(other)
        about = None if ids is None else facts.about.get(ids.path)
        if (
            ids is not None
            and count is not None
            and about is not None
            and min(about.marks, default=0) < 0
        ):
            return replace(ids, itself=False, spare=count.path)
    return None


def _of_first_shape(made: Call) -> Value:
    """The result, where it has the shape or the elements of the first operand."""
    first = made.argument(0, "x", "input", "a", "tensor")
    same = made.name in _ELEMENTWISE or made.name in _KEPT or made.name in _CASTS
    if made.name in _RESHAPES:
        return reshaped(first)
    if made.name == "where" and (masked := _masked(made)) is not None:
        return masked
    if isinstance(first, Part):
        return _of_part(first, made, same)
    if isinstance(first, (Dim, Scalar)) and made.name in _ELEMENTWISE:
        return Scalar()
    return first if same and isinstance(first, (Computed, Fresh, Narrow)) else None


def _of_part(first: Part, made: Call, same: bool) -> Value:
    if made.name in _TURNS:
        return Turned(first)
    if made.name in _KEPT and "dtype" not in made.keywords and len(made.operands) == 1:
        return first
    if made.name in _CASTS and itself(first) is not None and _is_integer_cast(made):
        return first
    bounded = made.name in _CLIPS and bool(elements(first))  # of what was rounded, none are left
    return replace(first, itself=False, bounded=bounded) if same else None


def _masked(made: Call) -> Value:
    """The elements of one side of a choice, with a whole number, or a size, for the others: `where(valid, ids, 0)`."""
    sides = made.argument(1, "x", "input"), made.argument(2, "y", "other")
    for taken, other in (sides, sides[::-1]):
        if whole(other) is not None or (isinstance(other, Dim) and isinstance(taken, Part)):
            return reshaped(taken)
    return None


def _is_integer_cast(made: Call) -> bool:
    """`labels.astype(jnp.int32)`: what is cast holds integers already, if it is an index then."""
    if made.name in ("long", "int", "int32", "int64"):
        return True
    node = made.node
    operands = [] if node is None else [*node.args, *(k.value for k in node.keywords)]
    names = {getattr(o, "attr", getattr(o, "id", getattr(o, "value", ""))) for o in operands}
    return any(isinstance(n, str) and n in _INTEGER_TYPES for n in names)
