"""Idioms that say what kind of array it is: `x / norm(x)` is a unit vector, `a @ a.T` a Gram matrix."""

from __future__ import annotations

import ast
from dataclasses import replace

from gradcheck_cli.clues.interpreted.values import Array, Value

_LAST = ("-1",)
_TRANSPOSED = ("{}.T", "{}.mT", "{}.t()", "{}.transpose()", "jnp.transpose({})", "np.transpose({})")


def recognised(node: ast.BinOp, left: Value, out: Array) -> Array:
    """The outcome of an operator, with its family where the text shows it."""
    if not isinstance(left, Array):
        return out
    if isinstance(node.op, ast.MatMult) and _is_gram(node):
        return replace(out, family="gram")
    if isinstance(node.op, ast.Div) and isinstance(node.right, ast.Call):
        return replace(out, family=_normalised(node.left, node.right, left))
    return out


def _is_gram(node: ast.BinOp) -> bool:
    one, other = ast.unparse(node.left), ast.unparse(node.right)
    return any(t.format(one) == other or t.format(other) == one for t in _TRANSPOSED)


def _normalised(left: ast.expr, right: ast.Call, x: Array) -> str:
    """The family of `x / norm(x)` and of `p / p.sum()`, along the last axis."""
    called = right.func.attr if isinstance(right.func, ast.Attribute) else ""
    text = ast.unparse(left)
    operand = right.args[0] if right.args else None
    if isinstance(right.func, ast.Attribute) and ast.unparse(right.func.value) == text:
        operand = left
    if operand is None or ast.unparse(operand) != text:
        return ""
    words = {k.arg: ast.unparse(k.value) for k in right.keywords}
    if called == "sum" and operand is left and right.args:
        words["axis"] = ast.unparse(right.args[0])
    last = words.get("axis", words.get("dim", "")) in (*_LAST, str(len(x.shape) - 1))
    kept = "True" in (words.get("keepdims"), words.get("keepdim"))
    if not (len(x.shape) == 1 and not words) and not (last and kept):
        return ""
    if called == "norm":
        return "unit"
    return "simplex" if called == "sum" and x.range.low >= 0 else ""
