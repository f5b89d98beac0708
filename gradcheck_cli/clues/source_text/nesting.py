"""Parameters that hold several arrays, told from row vectors that a text unpacks."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum

from gradcheck_cli.clues.source_text.tree import Text, last_word
from gradcheck_cli.clues.source_text.values import Many, Part, Value

_STACKS = ("stack", "array", "asarray", "tensor", "hstack", "convert_to_tensor", "as_tensor")
_OF_ARRAYS = (
    "shape", "ndim", "T", "mT", "sum", "mean", "reshape", "transpose", "size", "dim", "at",
)  # fmt: skip
_OF_DICTIONARIES = ("items", "keys", "values", "get")
_ARRAYS_ONLY = (
    "dot", "matmul", "einsum", "sum", "mean", "linear", "conv2d", "transpose", "max", "min",
)  # fmt: skip


class Nesting(Enum):
    """Ways to hold several things."""

    TREE = "tree"
    VECTOR = "vector"
    OPEN = "open"  # the text does not tell


Parents = Mapping[ast.AST, ast.AST]


def nesting(text: Text, names: Collection[str]) -> dict[str, Nesting]:
    """How each of these parameters is held, where the text takes it apart."""
    parents = {
        child: node
        for top in text.statements
        for node in ast.walk(top)
        for child in ast.iter_child_nodes(node)
    }
    loads: dict[str, list[ast.Name]] = {}
    for node in parents:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            loads.setdefault(node.id, []).append(node)
    kinds = {name: _of_uses(loads.get(name, []), parents, loads) for name in names}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def nestings_of(
    text: Text, names: Mapping[str, Value], before: Mapping[str, Nesting]
) -> dict[str, Nesting]:
    """How each parameter is held, as this text shows it or another did before."""
    own = {name: value.path for name, value in names.items() if isinstance(value, Part) and value.itself}  # fmt: skip
    shown = {own[name]: kind for name, kind in nesting(text, own).items()}
    shown |= dict.fromkeys(_taken_apart(text, names), Nesting.TREE)
    return shown | {path: kind for path, kind in before.items() if kind is not Nesting.OPEN or path not in shown}  # fmt: skip


def _taken_apart(text: Text, names: Mapping[str, Value]) -> Iterator[str]:
    """The parameters that a text takes apart where it unpacks what holds them: `(w, b), x = residuals`."""
    for node in (node for top in text.statements for node in ast.walk(top)):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Name(id=name)):
                held = names.get(name)
            case _:
                continue
        if isinstance(held, Many) and len(held.items) == len(targets):
            for target, item in zip(targets, held.items, strict=True):
                if isinstance(target, ast.Tuple) and isinstance(item, Part) and item.itself:
                    yield item.path


def _of_uses(
    uses: Sequence[ast.Name], parents: Parents, loads: Mapping[str, Sequence[ast.Name]]
) -> Nesting | None:
    around = [parents[use] for use in uses]
    if any(map(_of_dictionary, around)):
        return Nesting.TREE
    unpackings = [node for node in around if isinstance(node, ast.Assign)]
    targets = [
        t for node in unpackings for t in node.targets if isinstance(t, (ast.Tuple, ast.List))
    ]
    if targets:
        return _unpacked(targets[0], parents, loads)
    counted = [
        node for node in around if isinstance(node, ast.Call) and last_word(node.func) == "len"
    ]
    loops = [loop for use in uses if (loop := _loop_over(use, parents)) is not None]
    if loops:  # over rows, or over layers
        return Nesting.TREE if _unpacked(loops[0], parents, loads) is Nesting.TREE else Nesting.OPEN
    elements = [node for node in around if isinstance(node, ast.Subscript) and _counted(node, uses)]
    if not elements or len(elements) + len(counted) < len(uses):
        return None
    stacked = all(_evidence(node, parents) is Nesting.VECTOR for node in elements)
    return Nesting.VECTOR if stacked else Nesting.OPEN


def _loop_over(use: ast.Name, parents: Parents) -> ast.Tuple | None:
    """The names of `for w, b in params[:-1]`."""
    node: ast.AST = use
    above = parents.get(node)
    while isinstance(above, (ast.Subscript, ast.Call)) and above is not None:
        node, above = above, parents.get(above)
    if isinstance(above, ast.For) and above.iter is node and isinstance(above.target, ast.Tuple):
        direct = node is use or (isinstance(node, ast.Subscript) and node.value is use)
        return above.target if direct else None
    return None


def _of_dictionary(node: ast.AST | None) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in _OF_DICTIONARIES
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Constant):
        return False
    return isinstance(node.slice.value, str)


def _counted(node: ast.Subscript, uses: Sequence[ast.Name]) -> bool:
    number = node.slice
    return node.value in uses and isinstance(number, ast.Constant) and type(number.value) is int


def _unpacked(
    target: ast.Tuple | ast.List, parents: Parents, loads: Mapping[str, Sequence[ast.Name]]
) -> Nesting:
    if any(isinstance(e, (ast.Tuple, ast.List)) for e in target.elts):
        return Nesting.TREE
    names = {e.id for e in target.elts if isinstance(e, ast.Name)}
    uses = [use for name in names for use in loads.get(name, ())]
    seen = {_evidence(use, parents) for use in uses}
    for kind in (Nesting.TREE, Nesting.VECTOR):
        if kind in seen:
            return kind
    return Nesting.OPEN


def _evidence(node: ast.AST, parents: Parents) -> Nesting | None:
    """What one use of an element says: an array by itself, or a number that is stacked with others."""
    above = parents.get(node)
    if isinstance(above, ast.Attribute) and above.attr in _OF_ARRAYS:
        return Nesting.TREE
    if isinstance(above, ast.Subscript) and above.value is node:
        return Nesting.TREE
    if isinstance(above, ast.BinOp) and isinstance(above.op, ast.MatMult):
        return Nesting.TREE
    if isinstance(above, ast.Call) and last_word(above.func) in _ARRAYS_ONLY and node in above.args:
        return Nesting.TREE
    while isinstance(above, (ast.BinOp, ast.UnaryOp)):
        above = parents.get(above)
    if isinstance(above, (ast.List, ast.Tuple)):
        call = parents.get(above)
        if isinstance(call, ast.Call) and last_word(call.func) in _STACKS:
            return Nesting.VECTOR
    return None
