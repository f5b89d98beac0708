"""Calls as terms: what is an operand, what an axis, and which functions are others in disguise."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gradcheck_cli.lint import terms
from gradcheck_cli.lint.terms import Term
from gradcheck_cli.lint.vocabulary import DOUBLE, DTYPES, FLOATS, LOW, SAME_VALUES, SMALL, WHOLE

_REDUCTIONS = frozenset({"sum", "mean", "max", "min", "prod", "var", "std", "logsumexp", "norm", "softmax", "log_softmax", "cumsum", "cumprod"})  # fmt: skip
_OPERANDS = (
    "input",
    "x",
    "a",
    "input_tensor",
    "logits",
    "self",
    "arr",
    "features",
    "other",
    "y",
    "labels",
    "condition",
)
_LOWER, _UPPER = ("min", "a_min", "clip_value_min", "x_min", "min_value"), ("max", "a_max", "clip_value_max", "x_max", "max_value")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function that is known by its head."""

    head: str
    args: Sequence[Term]
    held: Mapping[str, Term]  # keyword arguments as terms
    written: Mapping[str, ast.expr]  # and as they stand in the source
    node: ast.Call

    def keyword(self, names: Sequence[str]) -> Term | None:
        return next((self.held[n] for n in names if n in self.held and not _is_none(self.written[n])), None)  # fmt: skip

    @property
    def operands(self) -> list[Term]:
        """What is given by place, or by the name of an operand."""
        named = [self.held[n] for n in _OPERANDS if n in self.held]
        return [*self.args, *named]


def term_of_call(call: Call) -> Term:
    """The term, in the form that patterns have."""
    operands = call.operands
    if call.head == "epsilon" and not operands:  # of Keras
        return terms.number(1e-7)
    if not operands:
        return Term("call", tuple(call.held.values()), call.head)
    if call.head in SAME_VALUES:
        return _cast(operands[0], call.head if call.head in FLOATS else _dtype(call))
    if call.head in ("half", "bfloat16"):
        return _cast(operands[0], call.head)
    build = _BUILT.get(call.head)
    if build is not None:
        built = build(call, operands)
        if built is not None:
            return built
    if call.head in ("max", "min") and len(operands) > 1 and not _is_axis(call, 1):
        return Term(call.head + "imum", tuple(operands))
    if call.head in _REDUCTIONS:
        return _cast(Term(call.head, (operands[0],), options=_reduced(call)), _dtype(call))
    return _cast(Term(call.head, tuple(operands), options=_options(call)), _dtype(call))


def _is_axis(call: Call, place: int) -> bool:
    """Is the operand a number or a tuple of them: an axis, and not an array?"""
    if len(call.node.args) <= place - (len(call.args) - len(call.node.args)):
        return False
    node = call.node.args[place - (len(call.args) - len(call.node.args))]
    if isinstance(node, ast.Constant):
        return not isinstance(node.value, float)
    return isinstance(node, ast.Tuple | ast.UnaryOp)


def _reduced(call: Call) -> terms.Options:
    """The options of a reduction, also its axis where it is given by place alone."""
    place = 1 - (len(call.args) - len(call.node.args))
    if len(call.args) > 1 and _is_axis(call, 1):
        return (("axis", ast.unparse(call.node.args[place])), *_options(call))
    return _options(call)


def _options(call: Call) -> terms.Options:
    return tuple((key, ast.unparse(node)) for key, node in call.written.items())


def _dtype(call: Call) -> str:
    """The last part of the name of a dtype that is given."""
    places = [call.written[k] for k in ("dtype", "acc_dtype") if k in call.written]
    written = places or [node for node in call.node.args if _may_name_a_dtype(node)]
    texts = [ast.unparse(node) for node in written]
    held = (t for t in (*call.args[1:], *call.held.values()) if t.head == terms.NAME)
    texts += [str(t.value) for t in held if "." in str(t.value)]
    lasts = [text.strip("'\"").rpartition(".")[2] for text in texts]
    return next((last for last in lasts if last in DTYPES), "")


def _may_name_a_dtype(node: ast.expr) -> bool:
    """Is it `np.float16`, `"float16"` or `float`, and no variable that happens to be called so?"""
    if isinstance(node, ast.Name):
        return node.id in ("float", "int", "bool")
    return isinstance(node, ast.Attribute) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def product_of_matrices(left: Term, right: Term, alike: bool) -> Term:
    """left @ right; of a vector with itself it is the sum of squares."""
    if alike and left == right:
        return terms.call("sum", terms.power(left, terms.number(2)))
    return terms.call("matmul", left, right)


def _matmul(call: Call, operands: Sequence[Term]) -> Term | None:
    first = call.node.args[0] if call.node.args else None
    if isinstance(first, ast.Constant) and isinstance(first.value, str):  # of einsum
        return Term("matmul", tuple(operands[1:])) if len(operands) > 2 else None
    if len(operands) != 2:
        return None
    texts = [ast.unparse(a) for a in call.node.args]
    alike = len(texts) == 2 and len(set(texts)) == 1
    return product_of_matrices(operands[0], operands[1], alike)


def _unit(call: Call, operands: Sequence[Term]) -> Term:
    return terms.call("unit", operands[0])


def _cast(term: Term, dtype: str) -> Term:
    if dtype in SMALL:
        return Term("small", (term,), options=(("dtype", dtype),))
    if dtype in DOUBLE:
        return Term("double", (term.args[0] if term.head in ("low", "small") else term,))
    if term.head == "small" and dtype:
        return term.args[0]
    if dtype in LOW:
        return Term("low", (term,), options=(("bits", LOW[dtype]),))
    if term.head == "low" and dtype in FLOATS:
        return Term("widened", (term,))
    return term


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _clip(call: Call, operands: Sequence[Term]) -> Term:
    """clip(x, low, high) as maximum and minimum; of what is left out, neither."""
    x, *ends = operands
    places = dict(zip(("low", "high"), ends, strict=False))
    low, high = (
        call.keyword(_LOWER) or places.get("low"),
        call.keyword(_UPPER) or places.get("high"),
    )
    if call.head == "clamp_max":
        low, high = None, places.get("low")
    if low is not None and _says_nothing(low):
        low = None
    if high is not None and _says_nothing(high):
        high = None
    term = x if low is None else terms.call("maximum", x, low)
    return term if high is None else terms.call("minimum", term, high)


def _says_nothing(term: Term) -> bool:
    return term.head == terms.NAME and str(term.value).startswith("?")


def _power(to: float) -> Callable[[Call, Sequence[Term]], Term | None]:
    return lambda call, operands: terms.power(operands[0], terms.number(to))


def _norm(call: Call, operands: Sequence[Term]) -> Term | None:
    """The Euclidean norm is the root of the sum of squares; other orders are norms of their own."""
    order = call.written.get("ord") or call.written.get("p")
    if order is None and len(call.args) > 1:
        order = call.node.args[-1] if isinstance(call.node.args[-1], ast.Constant) else None
    text = "2" if order is None else ast.unparse(order).strip("'\"")
    if text not in ("2", "2.0", "euclidean", "fro", "None"):
        return Term("norm", (operands[0],), options=(("ord", text),))
    return terms.call("norm", operands[0], options=_options(call))


def _binary(combine: Callable[[Term, Term], Term]) -> Callable[[Call, Sequence[Term]], Term | None]:
    return lambda call, operands: combine(*operands[:2]) if len(operands) > 1 else None


def _over_a_mask(call: Call, operands: Sequence[Term]) -> Term | None:
    """JAX's `softmax(x, where=mask)`: over what the mask keeps, and 0 elsewhere."""
    mask = call.written.get("where")
    return None if mask is None or _is_none(mask) else Term("call", tuple(operands), call.head)


def _where(call: Call, operands: Sequence[Term]) -> Term | None:
    if call.node.func.__class__ is ast.Attribute and len(operands) == 3:
        # x.where(condition, other) of torch has its receiver first; a function has its condition first.
        first_is_array = len(call.args) - len(call.node.args) == 1
        if first_is_array:
            return terms.call("where", operands[1], operands[0], operands[2])
    return Term("where", tuple(operands)) if len(operands) == 3 else None


def _masked_fill(call: Call, operands: Sequence[Term]) -> Term | None:
    if len(operands) < 2:
        return None
    value = operands[2] if len(operands) > 2 else call.keyword(("value",))
    return None if value is None else terms.call("where", operands[1], value, operands[0])


def _astype(call: Call, operands: Sequence[Term]) -> Term:
    dtype = _dtype(call)
    if dtype in WHOLE:
        return terms.call("integer", operands[0])
    return _cast(operands[0], dtype)


def _uniform(call: Call, operands: Sequence[Term]) -> Term | None:
    """A draw that begins above zero is cut off there."""
    first = operands[0] if operands[0].number is not None and len(operands) > 1 else None
    low = call.keyword(("minval", "low")) or first
    drawn = Term("uniform", tuple(operands))
    begins_at_zero = low is None or (low.number is not None and low.number <= 0)
    return drawn if low is None or begins_at_zero else terms.call("maximum", drawn, low)


def _moments(*reductions: str) -> Callable[[Call, Sequence[Term]], Term | None]:
    """Several of one array at once, in their order."""

    def built(call: Call, operands: Sequence[Term]) -> Term:
        given = _reduced(call)
        return terms.call("tuple", *(Term(r, (operands[0],), options=given) for r in reductions))

    return built


def _logsumexp_of_two(call: Call, operands: Sequence[Term]) -> Term | None:
    return Term("logaddexp", tuple(operands[:2]))


_BUILT: dict[str, Callable[[Call, Sequence[Term]], Term | None]] = {
    "clip": _clip,
    "clamp_min": _clip,
    "clamp_max": _clip,
    "sqrt": _power(0.5),
    "rsqrt": _power(-0.5),
    "square": _power(2),
    "reciprocal": _power(-1),
    "power": _binary(terms.power),
    "divide": _binary(terms.quotient),
    "multiply": _binary(lambda a, b: terms.product([a, b])),
    "subtract": _binary(terms.difference),
    "add": _binary(lambda a, b: terms.total([a, b])),
    "add_n": lambda call, operands: (
        terms.total(list(operands[0].args)) if operands[0].args else None
    ),
    "negative": lambda call, operands: terms.negative(operands[0]),
    "norm": _norm,
    "where": _where,
    "softmax": _over_a_mask,
    "log_softmax": _over_a_mask,
    "masked_fill": _masked_fill,
    "cast": _astype,
    "logaddexp": _logsumexp_of_two,
    "matmul": _matmul,
    "uniform": _uniform,
    "moments": _moments("mean", "var"),
    "var_mean": _moments("var", "mean"),
    "std_mean": _moments("std", "mean"),
    "normalize": _unit,
    "l2_normalize": _unit,
}
