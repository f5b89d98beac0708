"""What a function that nobody calls is given: what its text says of a parameter, or a name for a size."""

from __future__ import annotations

import ast
import re

from gradcheck_cli.clues.docstrings import read_text
from gradcheck_cli.clues.documentation import Text
from gradcheck_cli.clues.interpreted.values import (
    UNKNOWN,
    Array,
    Definition,
    Dim,
    Symbol,
    Value,
)
from gradcheck_cli.inputs.clue import Clue

_ARRAY = re.compile(r"(?P<kind>f32|i32|bool)\[(?P<axes>[^\[\]]*)\]")
_SAYS_ARRAY = re.compile(r"\b(?:nd)?array(?:_like)?\b|\b\w*(?:Array|Tensor)\w*\b|\bVariable\b")
_SAYS_NUMBER = re.compile(r"(?:int|float)(?: *\| *None)?|Optional\[(?:int|float)\]")
# What makes arrays of the sizes that it is given.
_MAKERS = re.compile(
    r"(?:zeros|ones|empty|full|eye|identity|arange|range|linspace|randn|rand|randint|normal|uniform|reshape|variance_scaling)"
)
# Where `reshape` takes the array first: of these, or by that name alone.
_LIBRARIES = ("np", "numpy", "jnp", "jax", "torch", "tf", "ops", "keras", "reshape")
_SIZE = re.compile(r"\d+|[^\W\d]\w*")


def arrays_told(function: Definition) -> dict[str, Value]:
    """The arrays that the docstring of a function states, their sizes by name."""
    names = [name for name in function.parameters if name not in ("self", "cls")]
    text = "" if isinstance(function.node, ast.Lambda) else ast.get_docstring(function.node) or ""
    if not text or not names:
        return {}
    sizes: dict[str, Symbol] = {}
    said = read_text(Text("the docstring", text, near=True), names)
    arrays = {name: _array(clue, sizes) for name, clue in said.items()}
    return {name: array for name, array in arrays.items() if array is not None}


def _array(clue: Clue, sizes: dict[str, Symbol]) -> Array | None:
    """The array; none where none is stated, or an axis is more than a name or a number.

    Where its numbers live is no more than what this caller has: others may hand on something else.
    """
    stated = _ARRAY.match(clue.spec)
    axes = [] if stated is None else stated["axes"].split()
    if stated is None or not all(map(_SIZE.fullmatch, axes)):
        return None
    shape: list[Dim] = [
        int(axis) if axis.isdigit() else sizes.setdefault(axis, Symbol(axis)) for axis in axes
    ]
    return Array(stated["kind"], tuple(shape))


def unfilled(function: Definition, name: str, *, plain: bool = False) -> Value:
    """What stands for a parameter of which no text says more: the name of a size, where it may be one.

    `plain`: it is a number where nothing says that it is an array.
    """
    arguments = function.node.args
    every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    said = next((ast.unparse(a.annotation) for a in every if a.arg == name and a.annotation), "")
    if _SAYS_ARRAY.search(said):
        return UNKNOWN
    number = plain or _SAYS_NUMBER.fullmatch(said.strip("'\"")) is not None
    return Symbol(name, plain=number or name in _sizes(function.node))


def _sizes(function: ast.AST) -> set[str]:
    """The names of which arrays are made as long."""
    calls = (node for node in ast.walk(function) if isinstance(node, ast.Call))
    makers = (call for call in calls if _MAKERS.fullmatch(_called(call)))
    given = (value for call in makers for value in _shapes_in(call))
    parts = (e for v in given for e in (v.elts if isinstance(v, (ast.Tuple, ast.List)) else [v]))
    return {part.id for part in parts if isinstance(part, ast.Name)}


def _shapes_in(call: ast.Call) -> list[ast.expr]:
    """The arguments that may say a shape: not what is reshaped, and not what an array is filled with."""
    named = [k.value for k in call.keywords if k.arg != "fill_value"]
    owner = ast.unparse(call.func).partition(".")[0]
    if _called(call) == "reshape" and owner in _LIBRARIES:
        return [*call.args[1:], *named]
    return [*(call.args[:1] if _called(call) == "full" else call.args), *named]


def _called(call: ast.Call) -> str:
    """The last name of what is called."""
    return getattr(call.func, "attr", getattr(call.func, "id", ""))
