"""How a stable form is written in each framework, with the names under which a module has it imported.

A form is written in the language of patterns: `a + log(-expm1(b - a))`. A framework that lacks a function gets it
from others (`_DERIVED`); where even these lack, there is no text.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_NAMED = "acos asin cos cosh exp expm1 log log1p sin sinh sqrt tan tanh"
_JAX = {
    **{name: f"jax.numpy.{name}" for name in (*_NAMED.split(), "abs", "maximum", "logaddexp", "where")},
    **{name: f"jax.nn.{name}" for name in ("softplus", "sigmoid", "log_sigmoid", "logsumexp", "softmax", "log_softmax")},
    "erfc": "jax.scipy.special.erfc", "log_ndtr": "jax.scipy.special.log_ndtr", "asinh": "jax.numpy.arcsinh", "ndtr": "jax.scipy.special.ndtr",
}  # fmt: skip
_TORCH = {
    **{name: f"torch.{name}" for name in (*_NAMED.split(), "abs", "where", "logaddexp", "sigmoid", "erfc", "asinh", "logsumexp", "softmax", "log_softmax")},
    "softplus": "torch.nn.functional.softplus", "log_sigmoid": "torch.nn.functional.logsigmoid",
    "log_ndtr": "torch.special.log_ndtr", "ndtr": "torch.special.ndtr",
}  # fmt: skip
_TENSORFLOW = {
    **{name: f"tensorflow.math.{name}" for name in (*_NAMED.split(), "abs", "maximum", "softplus", "sigmoid", "log_sigmoid", "erfc", "asinh")},
    "where": "tensorflow.where", "logsumexp": "tensorflow.reduce_logsumexp", "softmax": "tensorflow.nn.softmax", "log_softmax": "tensorflow.nn.log_softmax",
}  # fmt: skip
_KERAS = {
    name: f"keras.ops.{name}"
    for name in (*_NAMED.split(), "abs", "maximum", "where", "softplus", "sigmoid", "log_sigmoid", "logaddexp", "logsumexp", "softmax", "log_softmax")
} | {"acos": "keras.ops.arccos", "asin": "keras.ops.arcsin", "asinh": "keras.ops.arcsinh"}  # fmt: skip
_NUMPY = {
    **{name: f"numpy.{name}" for name in (*_NAMED.split(), "abs", "maximum", "where", "logaddexp")},
    "acos": "numpy.arccos", "asin": "numpy.arcsin", "asinh": "numpy.arcsinh",
}  # fmt: skip
_SCIPY = {
    "sigmoid": "scipy.special.expit", "log_sigmoid": "scipy.special.log_expit", "erfc": "scipy.special.erfc",
    "log_ndtr": "scipy.special.log_ndtr", "ndtr": "scipy.special.ndtr", "logsumexp": "scipy.special.logsumexp", "softmax": "scipy.special.softmax",
    "log_softmax": "scipy.special.log_softmax",
}  # fmt: skip
_MATH = {name: f"math.{name}" for name in (*_NAMED.split(), "erfc", "asinh")} | {
    "abs": "abs",
    "maximum": "max",
}
_SPELLED = {
    "jax": _JAX, "torch": _TORCH, "tensorflow": _TENSORFLOW, "keras": _KERAS, "numpy": _NUMPY, "math": _MATH,
}  # fmt: skip
# What a framework lacks, from what it has: the arguments' names, and a form of them; the first that can be written.
_DERIVED = {
    "softplus": [("x", "logaddexp(x, 0.0)"), ("x", "maximum(x, 0.0) + log1p(exp(-abs(x)))")],
    "log_sigmoid": [("x", "-softplus(-x)")],
    "logaddexp": [("ab", "maximum(a, b) + softplus(-abs(a - b))")],
}
_AXIS = {"torch": ("dim", "keepdim")}  # others say axis and keepdims
_SHARES = ("softmax", "log_softmax")
_REDUCES = ("logsumexp", *_SHARES)
_PLACES = {ast.Add: 1, ast.Sub: 1, ast.Mult: 2, ast.Div: 2, ast.USub: 3, ast.Pow: 4}
_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}
_CALLED, _ATOM = 0, 5  # as an argument; what needs no parentheses anywhere
_DOTTED = re.compile(r"\.compat\.v1|\btensorflow\.(?=keras\b)")
FRAMEWORKS = frozenset(_SPELLED)


class UnspelledError(Exception):
    """The framework has no such function."""


@dataclass(slots=True)
class Speller:
    """Writes forms for one module. `texts` are what the form's names stand for; `imports` collects what is lacking."""

    framework: str
    imported: Mapping[str, str]
    texts: Mapping[str, str]
    options: Mapping[str, str] = field(default_factory=dict)  # of the one reduction: an axis
    deriving: frozenset[str] = frozenset()  # what is being written by others already
    imports: set[str] = field(default_factory=set)

    def spell(self, form: str) -> str:
        """The text of a form; raises `UnspelledError`."""
        return self._write(ast.parse(form, mode="eval").body, _CALLED)

    def _write(self, node: ast.expr, around: int) -> str:
        match node:
            case ast.Constant():
                return repr(node.value)
            case ast.Name():
                return in_parentheses(self.texts[node.id], around)
            case ast.UnaryOp():
                return _wrapped(f"-{self._write(node.operand, _PLACES[ast.USub])}", 3, around)
            case ast.BinOp(op=ast.Pow(), right=ast.Constant(value=0.5)):
                return self._call("sqrt", [node.left], around)
            case ast.BinOp():
                place = _PLACES[type(node.op)]
                left = self._write(node.left, place + isinstance(node.op, ast.Pow))
                right = self._write(node.right, place + (not isinstance(node.op, ast.Pow | ast.Add | ast.Mult)))  # fmt: skip
                return _wrapped(f"{left} {_SIGNS[type(node.op)]} {right}", place, around)
            case ast.Compare(ops=[ast.Gt()]):
                ends = [self._write(side, 1) for side in (node.left, node.comparators[0])]
                return _wrapped(" > ".join(ends), 0, around)
            case ast.Call(func=ast.Name(id=head)):
                return self._call(head, node.args, around)
            case _:
                raise UnspelledError(ast.unparse(node))

    def _call(self, head: str, args: Sequence[ast.expr], around: int) -> str:
        if (
            head == "log"
            and isinstance(args[0], ast.Constant)
            and isinstance(args[0].value, int | float)
        ):
            return repr(math.log(args[0].value))
        full = self._full(head)
        if full is None:
            return self._derived(head, args, around)
        texts = [self._write(arg, _CALLED) for arg in args]
        texts += self._reduced(head)
        return f"{self._local(full)}({', '.join(texts)})"

    def _full(self, head: str) -> str | None:
        known = _SPELLED[self.framework].get(head)
        if known is None and self.framework == "numpy" and self._has("scipy"):
            return _SCIPY.get(head)
        return known

    def _has(self, package: str) -> bool:
        return any(name.partition(".")[0] == package for name in self.imported.values())

    def _derived(self, head: str, args: Sequence[ast.expr], around: int) -> str:
        texts = [self._write(arg, _CALLED) for arg in args]
        for names, form in _DERIVED.get(head, ()) if head not in self.deriving else ():
            given = dict(zip(names, texts, strict=True))
            inner = Speller(self.framework, self.imported, given, deriving=self.deriving | {head})
            try:
                text = inner.spell(form)
            except UnspelledError:
                continue
            self.imports |= inner.imports
            return in_parentheses(text, around)
        raise UnspelledError(head)

    def _reduced(self, head: str) -> list[str]:
        """The keywords of a reduction; shares keep their axes, and have one."""
        if head not in _REDUCES:
            return []
        axis, keeps = _AXIS.get(self.framework, ("axis", "keepdims"))
        if "axis" not in self.options and (head in _SHARES or self.framework == "torch"):
            raise UnspelledError(f"{head} over all axes")
        named = [f"{axis}={self.options['axis']}"] if "axis" in self.options else []
        if "keepdims" in self.options and head not in _SHARES:
            named.append(f"{keeps}={self.options['keepdims']}")
        return named

    def _local(self, full: str) -> str:
        """The name under which the module has it: `jnp.log1p` for `jax.numpy.log1p`."""
        best = ""
        held = ""
        for alias, name in self.imported.items():
            plain = _DOTTED.sub("", name)
            if (full == plain or full.startswith(plain + ".")) and len(plain) > len(best):
                best, held = plain, alias + full[len(plain) :]
        if best or "." not in full:
            return held or full
        package = full.partition(".")[0]
        self.imports.add(package)
        return full


def in_parentheses(text: str, around: int) -> str:
    """The text of an expression, in parentheses where it needs them."""
    return _wrapped(text, place_of(text), around)


def place_of(text: str) -> int:
    """How closely the text of an expression holds together."""
    node = ast.parse(text, mode="eval").body
    match node:
        case ast.BinOp() | ast.UnaryOp():
            return _PLACES.get(type(node.op), 0)
        case ast.Call() | ast.Name() | ast.Attribute() | ast.Subscript() | ast.Constant():
            return _ATOM
        case ast.Tuple() | ast.List() | ast.Set() | ast.Dict():
            return _ATOM
        case _:
            return 0


def _wrapped(text: str, place: int, around: int) -> str:
    return f"({text})" if place < around else text
