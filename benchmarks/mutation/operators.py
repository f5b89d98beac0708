"""Mutation operators on the source of a rule: every fault of the classes that authors really make."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator

Mutant = tuple[str, ast.FunctionDef]
_G = "g"


def mutants(rule: ast.FunctionDef) -> Iterator[Mutant]:
    """Each fault once at each place where it can stand."""
    for name, make in (*_of_gradients(rule), *_of_expressions(rule)):
        mutant = copy.deepcopy(rule)
        make(mutant)
        yield name, ast.fix_missing_locations(mutant)


# -- of a whole gradient ------------------------------------------------------------------------

_WHOLE = {
    "sign": "-({})",
    "factor 2": "2 * ({})",
    "factor 1/2": "0.5 * ({})",
    "plus one": "({}) + 1",
    "zero": "0 * ({})",
}


def _of_gradients(rule: ast.FunctionDef) -> Iterator[tuple[str, Callable[[ast.FunctionDef], None]]]:
    count = len(_returned(rule).elts)
    for i in range(count):
        for name, text in _WHOLE.items():
            yield f"{name} of gradient {i}", lambda f, i=i, text=text: _rewrap(f, i, text)
        yield f"gradient {i} without its cotangent", lambda f, i=i: _without_cotangent(f, i)
    for i in range(count - 1):
        yield f"gradients {i} and {i + 1} swapped", lambda f, i=i: _swap(f, i)
    for name, text in {
        "cotangent squared": "g * g",
        "cotangent clipped": "np.where(np.abs(g) > 1, np.sign(g), g)",
        "cotangent ignored": "np.ones_like(g)",
    }.items():
        yield name, lambda f, text=text: _first(f, f"g = {text}")


def _returned(rule: ast.FunctionDef) -> ast.Tuple:
    last = rule.body[-1]
    assert isinstance(last, ast.Return)
    assert isinstance(last.value, ast.Tuple)
    return last.value


def _rewrap(rule: ast.FunctionDef, i: int, text: str) -> None:
    values = _returned(rule)
    values.elts[i] = _expression(text.format(ast.unparse(values.elts[i])))


def _without_cotangent(rule: ast.FunctionDef, i: int) -> None:
    """In this gradient alone, everything that it is made from included."""
    values = _returned(rule)
    names = {arg.arg for arg in rule.args.args}
    inner = [copy.deepcopy(s) for s in rule.body[:-1] if isinstance(s, ast.Assign)]
    renamed = {t.id: f"{t.id}_1" for s in inner for t in s.targets if isinstance(t, ast.Name)}
    swap = _Renamed({**renamed, _G: "ones"})
    rule.body[-1:-1] = [
        ast.parse(f"ones = np.ones_like({_G})").body[0],
        *(swap.visit(s) for s in inner),
    ]
    values.elts[i] = swap.visit(values.elts[i])
    assert names


def _swap(rule: ast.FunctionDef, i: int) -> None:
    elements = _returned(rule).elts
    elements[i], elements[i + 1] = elements[i + 1], elements[i]


def _first(rule: ast.FunctionDef, text: str) -> None:
    rule.body.insert(0, ast.parse(text).body[0])


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.names.get(node.id, node.id), node.ctx)


# -- of an expression -----------------------------------------------------------------------------


def _of_expressions(
    rule: ast.FunctionDef,
) -> Iterator[tuple[str, Callable[[ast.FunctionDef], None]]]:
    arguments = [a.arg for a in rule.args.args]
    for number, node in enumerate(ast.walk(rule)):
        for name, made in _changed(node, arguments):
            where = f"{name} in `{ast.unparse(node)}`"
            yield where, lambda f, number=number, made=made: _replace(f, number, made)


def _changed(node: ast.AST, arguments: list[str]) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.BinOp):
        yield from _changed_operation(node)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield from _changed_call(node)
    elif isinstance(node, ast.Compare):
        flipped = {ast.Gt: ast.Lt, ast.Lt: ast.Gt}
        op = flipped.get(type(node.ops[0]))
        if op is not None:
            yield "comparison turned", ast.Compare(node.left, [op()], node.comparators)
            yield "threshold moved", ast.Compare(node.left, node.ops, [_plus(node.comparators[0])])
    elif isinstance(node, ast.Attribute) and node.attr == "T":
        yield "transposition dropped", node.value
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and node.value:
        if not isinstance(node.value, bool) and node.value != -1:
            yield "constant doubled", ast.Constant(2 * node.value)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in arguments[1:]:
        for other in arguments[1:]:
            if other != node.id:
                yield f"residual {other} for {node.id}", ast.Name(other, ast.Load())


def _changed_operation(node: ast.BinOp) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node.op, (ast.Add, ast.Sub)):
        yield "term dropped", node.left
        yield "term dropped", node.right
        other = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        yield "sign of a term", ast.BinOp(node.left, other, node.right)
        yield "term doubled", ast.BinOp(node.left, node.op, _times_two(node.right))
    elif isinstance(node.op, (ast.Mult, ast.Div)):
        yield "factor dropped", node.left


def _changed_call(node: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    assert isinstance(node.func, ast.Attribute)
    name = node.func.attr
    if name == "matmul":
        yield "operands exchanged", ast.Call(node.func, [node.args[1], node.args[0]], [])
    if name == "sum":
        yield "sum dropped", node.args[0]
        for keyword in node.keywords:
            if keyword.arg == "axis":
                turned = -2 if ast.unparse(keyword.value) == "-1" else -1
                rest = [k for k in node.keywords if k.arg != "axis"]
                axis = ast.keyword("axis", ast.Constant(turned))
                yield "another axis", ast.Call(node.func, node.args, [axis, *rest])
    for old, new in (("sin", "cos"), ("cos", "sin"), ("exp", "tanh"), ("abs", "sign")):
        if name == old:
            func = ast.Attribute(node.func.value, new, ast.Load())
            yield f"{new} for {old}", ast.Call(func, node.args, node.keywords)
    if name == "where":
        yield (
            "branches exchanged",
            ast.Call(node.func, [node.args[0], node.args[2], node.args[1]], []),
        )
        yield "mask dropped", node.args[1]


def _times_two(node: ast.expr) -> ast.expr:
    return ast.BinOp(ast.Constant(2), ast.Mult(), node)


def _plus(node: ast.expr) -> ast.expr:
    return ast.BinOp(node, ast.Add(), ast.Constant(0.5))


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _replace(rule: ast.FunctionDef, number: int, made: ast.expr) -> None:
    target = next(node for n, node in enumerate(ast.walk(rule)) if n == number)
    for parent in ast.walk(rule):
        for field, value in ast.iter_fields(parent):
            if value is target:
                setattr(parent, field, copy.deepcopy(made))
            elif isinstance(value, list) and any(item is target for item in value):
                setattr(parent, field, [copy.deepcopy(made) if v is target else v for v in value])
