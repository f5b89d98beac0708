"""What the rest of the file says of parameters of the same name: single numbers, by other texts and by examples."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gradcheck_cli.clues.comments import arguments_of
from gradcheck_cli.clues.docstrings import read_text
from gradcheck_cli.clues.documentation import Text, module_of, plain_function
from gradcheck_cli.inputs.clue import Kind

_SHORT = 2  # letters of names that mean another thing in each function
_METHODS = ("forward", "__call__", "call")  # whose parameters a class's docstring speaks of


def single_elsewhere(function: Callable[..., Any], names: Sequence[str]) -> frozenset[str]:
    """As `curv` of which another class says `curv: scalar tensor`, or an example `dict(curv=0.5)`; and none says anything else."""
    tree = module_of(plain_function(function))
    wanted = [name for name in names if len(name) > _SHORT]
    if tree is None or not wanted:
        return frozenset()
    said: dict[str, set[Kind]] = {}
    for doc, parameters in _documented(tree):
        shared = [name for name in wanted if name in parameters and name in doc]
        clues = read_text(Text("", doc, near=True), parameters) if shared else {}
        for name in (name for name in shared if name in clues):
            if clues[name].kind is not Kind.NOTHING:
                said.setdefault(name, set()).add(clues[name].kind)
    for name, kind in _exemplified(tree, wanted):
        said.setdefault(name, set()).add(kind)
    return frozenset(name for name, kinds in said.items() if kinds == {Kind.NUMBER})


def _documented(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    """Each docstring with the names of the parameters that it speaks of."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and (doc := ast.get_docstring(node)):
            yield doc, [a.arg for a in arguments_of(node)]
        elif isinstance(node, ast.ClassDef) and (doc := ast.get_docstring(node)):
            methods = (m for m in node.body if isinstance(m, ast.FunctionDef))
            named = next((m for m in methods if m.name in _METHODS), None)
            if named is not None:
                yield doc, [a.arg for a in arguments_of(named)]


def _exemplified(tree: ast.Module, wanted: Sequence[str]) -> Iterator[tuple[str, Kind]]:
    """What stands beside names in dictionaries that have several of them: a number, or several numbers.

    A call's keywords are another function's parameters, and a row of whole numbers are places: `{"depth": 0, "mass": 1}`.
    """
    for node in ast.walk(tree):
        pairs: list[tuple[object, ast.expr]] = []
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "dict":
            pairs = [(keyword.arg, keyword.value) for keyword in node.keywords]
        elif isinstance(node, ast.Dict):
            keys = (getattr(key, "value", None) for key in node.keys)
            pairs = list(zip(keys, node.values, strict=True))
        own = {name: value for name, value in pairs if isinstance(name, str) and name in wanted}
        wholes = [type(getattr(value, "value", None)) is int for value in own.values()]
        if len(own) > 1 and not all(wholes):
            kinds = ((name, _kind(value)) for name, value in own.items())
            yield from (pair for pair in kinds if pair[1] is not Kind.NOTHING)


def _kind(value: ast.expr) -> Kind:
    """Of numbers that are written out, `-0.5`; a row of them, and what a call gives, may be an array."""
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub | ast.UAdd):
        return _kind(value.operand)
    if isinstance(value, ast.Constant):
        return Kind.NUMBER if type(value.value) in (int, float) else Kind.NOTHING
    if isinstance(value, ast.List | ast.Tuple | ast.Call):
        return Kind.ARRAY
    return Kind.NOTHING
