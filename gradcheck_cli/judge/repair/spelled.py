"""Operations as a framework's library spells them: `jnp.sum(x, axis=-1, keepdims=True)`."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import ModuleType

_TENSORFLOW, _TORCH = "tf", "torch"
# What is not called as it is everywhere.
_ELSEWHERE = {("tf", "log"): "tf.math.log", ("jnp", "sigmoid"): "jax.nn.sigmoid"}
_LIBRARIES = ("jax.numpy", "torch", "tensorflow", "keras.ops", "keras.api.ops")


def library_in(scope: Mapping[str, object]) -> str | None:
    """What a module calls the library of its framework; None where it does not have it as a whole."""
    modules = ((name, value) for name, value in scope.items() if isinstance(value, ModuleType))
    return next((name for name, module in modules if module.__name__ in _LIBRARIES), None)


def call(library: str, name: str, *arguments: ast.expr, **options: object) -> ast.expr:
    """A function of the library at these arguments."""
    owner, *path = _ELSEWHERE.get((library, name), f"{library}.{name}").split(".")
    called: ast.expr = ast.Name(owner, ast.Load())
    for part in path:
        called = ast.Attribute(called, part, ast.Load())
    keywords = [ast.keyword(key, _constant(value)) for key, value in options.items()]
    return ast.Call(called, list(arguments), keywords)


def along(library: str, name: str, x: ast.expr) -> ast.expr:
    """The sum or mean of an array along its last axis, which stays."""
    return _reduced(library, name, x, **{axis_of(library): -1, keeping_axes(library): True})


def total(library: str, x: ast.expr, axis: int | None = None) -> ast.expr:
    """The sum of an array over one axis, which goes, or over all."""
    return _reduced(library, "sum", x, **({} if axis is None else {axis_of(library): axis}))


def _reduced(library: str, name: str, x: ast.expr, **options: object) -> ast.expr:
    return call(library, f"reduce_{name}" if library == _TENSORFLOW else name, x, **options)


def backwards(library: str | None, x: ast.expr) -> ast.expr:
    """An array from the other end of its last axis, as a kernel is in a convolution's gradient."""
    text = "{}.flip(-1)" if library == _TORCH else "{}[..., ::-1]"
    return ast.parse(text.format(ast.unparse(x)), mode="eval").body


def axis_of(library: str | None) -> str:
    """What it calls an axis."""
    return "dim" if library == _TORCH else "axis"


def keeping_axes(library: str | None) -> str:
    """What it calls an axis that stays."""
    return "keepdim" if library == _TORCH else "keepdims"


def where(library: str, condition: ast.expr, x: ast.expr) -> ast.expr:
    """The array where a condition holds, else 0."""
    zero = call(library, "zeros_like", x) if library == _TENSORFLOW else ast.Constant(0.0)
    return call(library, "where", condition, x, zero)


def _constant(value: object) -> ast.expr:
    text = repr(value)
    return ast.parse(text, mode="eval").body
