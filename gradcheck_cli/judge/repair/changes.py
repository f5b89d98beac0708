"""What may stand in a rule's text instead of one expression: each kind of change undoes a fault that authors make.

A change takes an expression and the names that may stand in its place, and gives other expressions, the smallest first;
`edits` says which are tried where.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence

from gradcheck_cli.judge.repair.spelled import axis_of, backwards, call, keeping_axes, total

_TWINS = {
    "sin": ("cos",), "cos": ("sin",), "sinh": ("cosh",), "cosh": ("sinh",), "exp": ("expm1",),
    "expm1": ("exp",), "log": ("log1p",), "log1p": ("log",), "sum": ("mean",), "mean": ("sum",),
    "reduce_sum": ("reduce_mean",), "reduce_mean": ("reduce_sum",),
    "maximum": ("minimum",), "minimum": ("maximum",), "zeros_like": ("ones_like",), "abs": ("sign",),
    "sign": ("abs",), "sqrt": ("rsqrt",), "rsqrt": ("sqrt",), "tanh": ("sigmoid",),
    "set": ("add",), "scatter": ("scatter_add",), "scatter_": ("scatter_add_",),
    "index_copy": ("index_add",), "index_copy_": ("index_add_",),
}  # fmt: skip
# What sums an axis away, what sums along one, and what takes matrices.
_REDUCED = (
    "sum",
    "mean",
    "max",
    "amax",
    "prod",
    "logsumexp",
    "reduce_sum",
    "reduce_mean",
    "reduce_max",
)
_RUNNING = ("cumsum", "cumprod", "cumlogsumexp", "associative_scan")
_OF_MATRICES = ("solve", "matmul", "dot", "matvec", "mv", "mm", "bmm", "solve_triangular")
_TURNED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
}  # fmt: skip
_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Gt: ast.Lt, ast.Lt: ast.Gt, ast.GtE: ast.LtE, ast.LtE: ast.GtE,
}  # fmt: skip


def accumulated(node: ast.Assign | ast.AugAssign, names: Sequence[str]) -> Iterator[ast.expr]:
    """What is stored at places that may repeat, added up there: `dx[ids] = g` keeps the last of each."""
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    if not isinstance(target, ast.Subscript):
        return
    array, place = target.value, target.slice
    parts = place.elts if isinstance(place, ast.Tuple) else [place]
    tables = [part for part in parts if not isinstance(part, ast.Slice | ast.Constant)]
    if len(tables) == len(parts):
        added = ast.Attribute(array, "index_put_", ast.Load())
        summing = [ast.keyword("accumulate", ast.Constant(True))]
        yield ast.Call(added, [ast.Tuple(tables, ast.Load()), node.value], summing)
    if len(tables) == 1:
        axis = parts.index(tables[0])
        from_behind = isinstance(parts[0], ast.Constant) and parts[0].value is Ellipsis
        at = _number(axis - len(parts) if from_behind else axis)
        added = ast.Attribute(array, "index_add_", ast.Load())
        yield ast.Call(added, [at, tables[0], node.value], [])


def added_to(place: ast.expr, node: ast.expr) -> Iterator[ast.expr]:
    """What a loop writes over what it wrote before, added to that."""
    yield ast.BinOp(place, ast.Add(), node)


def of_the_whole(node: ast.expr, cotangents: Sequence[str]) -> Iterator[ast.expr]:
    """A whole gradient with the other sign, times or plus a cotangent, doubled, halved, turned."""
    yield ast.UnaryOp(ast.USub(), node)
    for name in cotangents:
        yield ast.BinOp(ast.Name(name, ast.Load()), ast.Mult(), node)
    for factor in (2, 0.5):
        yield ast.BinOp(ast.Constant(factor), ast.Mult(), node)
    yield from transposed(node, cotangents)
    for name in cotangents:  # that of another output, say
        here = ast.Name(name, ast.Load())
        for more in (here, *(ast.Subscript(here, ast.Constant(i), ast.Load()) for i in (0, 1))):
            yield ast.BinOp(node, ast.Add(), more)


def transposed(node: ast.expr, names: Sequence[str]) -> Iterator[ast.expr]:
    """A gradient turned: the weights of a layer, kept the other way round."""
    yield ast.Attribute(node, "T", ast.Load())


def without_a_number(node: ast.expr, names: Sequence[str]) -> Iterator[ast.expr]:
    """Without a factor that may be the size by chance: 3 of `3 * x**2`, among three columns."""
    match node:
        case ast.BinOp(left=ast.Constant(), op=ast.Mult(), right=other):
            yield other
        case ast.BinOp(left=other, op=ast.Mult(), right=ast.Constant()):
            yield other


def by_a_name(node: ast.expr, names: Sequence[str]) -> Iterator[ast.expr]:
    """With a factor, or over a number, that the text has a name for: `scale`, `count`."""
    for name in names:
        here = ast.Name(name, ast.Load())
        yield from (ast.BinOp(node, op(), here) for op in (ast.Mult, ast.Div))


def doubled(node: ast.expr, names: Sequence[str]) -> Iterator[ast.expr]:
    """Twice a factor that was forgotten: the slope of a square."""
    for name in names:
        twice = ast.BinOp(ast.Constant(2), ast.Mult(), ast.Name(name, ast.Load()))
        yield ast.BinOp(twice, ast.Mult(), node)


def changed(node: ast.expr, names: Sequence[str]) -> Iterator[ast.expr]:
    """Another operator, function, number or name; without an operand, an index or what is done to a value."""
    match node:
        case ast.UnaryOp(op=ast.USub()):
            yield node.operand
        case ast.BinOp():
            yield from _of_operator(node)
        case ast.Tuple() if isinstance(node.ctx, ast.Load):
            yield from reordered(node, names)
        case ast.Compare(ops=[op]) if type(op) in _MIRRORED:
            yield ast.Compare(node.left, [_MIRRORED[type(op)]()], node.comparators)
        case ast.Call():
            yield from _of_call(node)
        case ast.Attribute(attr="T" | "mT") | ast.Subscript(ctx=ast.Load()):
            yield node.value
        case ast.Constant() if isinstance(node.value, (int, float)) and not isinstance(node.value, bool):  # fmt: skip
            yield from map(_number, _other_numbers(node.value))
        case ast.Name(ctx=ast.Load()) if node.id in names:
            for other in names:
                if other != node.id:
                    yield ast.Name(other, ast.Load())
            yield ast.UnaryOp(ast.USub(), node)


def reordered(node: ast.expr, names: Sequence[str]) -> Iterator[ast.expr]:
    """Gradients in another order."""
    if isinstance(node, ast.Tuple):
        for i, j in itertools.combinations(range(len(node.elts)), 2):
            yield _swapped(node, i, j)


def more_in_a_sum(node: ast.expr, names: Sequence[str]) -> Iterator[ast.expr]:
    """A factor that was forgotten in what is summed: `sum(g)` of a softmax instead of `sum(g * y)`."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return
    owner, called = node.func.value, node.func.attr
    if called not in _REDUCED or not isinstance(owner, ast.Name):
        return
    loads = [ast.Name(name, ast.Load()) for name in names]
    if owner.id in names:
        for name in loads:
            function = ast.Attribute(ast.BinOp(owner, ast.Mult(), name), called, ast.Load())
            yield ast.Call(function, node.args, node.keywords)
    elif node.args:
        for name in loads:
            summed = ast.BinOp(node.args[0], ast.Mult(), name)
            yield ast.Call(node.func, [summed, *node.args[1:]], node.keywords)


def with_more(node: ast.expr, names: Sequence[str]) -> Iterator[ast.expr]:
    """A factor that was forgotten."""
    loads = [ast.Name(name, ast.Load()) for name in names]
    match node:
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            for name in loads:
                yield ast.BinOp(node.left, node.op, ast.BinOp(node.right, ast.Mult(), name))
                yield ast.BinOp(ast.BinOp(node.left, ast.Mult(), name), node.op, node.right)
        case ast.Name(ctx=ast.Load()) if node.id in names:
            for name in loads:
                yield from (ast.BinOp(node, op(), name) for op in (ast.Mult, ast.Div))
        case ast.Constant(value=None):
            for first, second in itertools.product(loads, loads):
                yield ast.BinOp(first, ast.Mult(), second)


def with_options(node: ast.expr, names: Sequence[str], library: str | None) -> Iterator[ast.expr]:
    """A call with an axis kept that was lost, with a flag the other way, from the other end, of a transpose."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return
    given = {keyword.arg: keyword for keyword in node.keywords}
    for keyword in node.keywords:
        value = keyword.value
        if isinstance(value, ast.Constant) and isinstance(value.value, bool):
            flipped = ast.keyword(keyword.arg, ast.Constant(not value.value))
            others = [flipped if k is keyword else k for k in node.keywords]
            yield ast.Call(node.func, node.args, others)
    own = _is_a_module(node.func.value, library)
    has_axis = bool(given.keys() & {"axis", "dim"}) or len(node.args) > own
    if node.func.attr in _REDUCED and has_axis and not given.keys() & {"keepdims", "keepdim"}:
        yield _with_keyword(node, keeping_axes(library))
    if node.func.attr in _REDUCED and not has_axis:
        for axis in (0, -1):
            yield _with_keyword(node, axis_of(library), axis)
        yield _with_keyword(_with_keyword(node, axis_of(library), -1), keeping_axes(library))
    if node.func.attr in _RUNNING and "reverse" not in given:
        yield _with_keyword(node, "reverse")
    for i, argument in enumerate(node.args if node.func.attr in _OF_MATRICES else ()):
        turned = ast.Attribute(argument, "T", ast.Load())
        yield ast.Call(node.func, [*node.args[:i], turned, *node.args[i + 1 :]], node.keywords)
    if node.func.attr == "einsum" or "conv" in node.func.attr:
        for i, argument in enumerate(node.args):
            if isinstance(argument, ast.Name):
                round_about = backwards(library, argument)
                yield ast.Call(node.func, [*node.args[:i], round_about, *node.args[i + 1 :]], node.keywords)  # fmt: skip


def _is_a_module(owner: ast.expr, library: str | None) -> bool:
    """Is what a function is called of a module, `jnp`, `tf.math` or `jax.numpy`, and no array?"""
    while isinstance(owner, ast.Attribute):
        owner = owner.value
    return isinstance(owner, ast.Name) and owner.id in (library, "jax")


def _with_keyword(node: ast.Call, name: str, value: int = True) -> ast.Call:
    written = ast.Constant(value) if isinstance(value, bool) else _number(value)
    return ast.Call(node.func, node.args, [*node.keywords, ast.keyword(name, written)])


def summed(node: ast.expr, names: Sequence[str], library: str | None) -> Iterator[ast.expr]:
    """A gradient summed over what its argument was spread over: a batch, or all there is."""
    if library is None or isinstance(node, ast.Constant):
        return
    yield total(library, node, 0)
    yield total(library, node)


def to_powers(node: ast.expr, names: Sequence[str], library: str | None) -> Iterator[ast.expr]:
    """The root, or the square, of a name: a distance in place of its square."""
    match node:
        case ast.Name(ctx=ast.Load()) if node.id in names and library is not None:
            yield call(library, "sqrt", node)
            yield ast.BinOp(node, ast.Pow(), ast.Constant(2))


def with_signs(node: ast.expr, names: Sequence[str], library: str | None) -> Iterator[ast.expr]:
    """A sign that was forgotten: `delta * jnp.sign(x)` beyond the bend of a Huber loss."""
    match node:
        case ast.Name(ctx=ast.Load()) if node.id in names and library is not None:
            for other in names:
                if other != node.id:
                    sign = call(library, "sign", ast.Name(other, ast.Load()))
                    yield ast.BinOp(node, ast.Mult(), sign)


def _of_operator(node: ast.BinOp) -> Iterator[ast.expr]:
    other = _TURNED.get(type(node.op))
    if other is not None:
        yield ast.BinOp(node.left, other(), node.right)
    if isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
        yield node.left
        yield node.right
    if isinstance(node.op, (ast.Add, ast.Sub)):
        yield ast.BinOp(node.right, node.op, node.left)
        for factor in (2, 0.5):
            double = ast.BinOp(ast.Constant(factor), ast.Mult(), node.right)
            yield ast.BinOp(node.left, node.op, double)
    if isinstance(node.op, ast.MatMult):
        yield ast.BinOp(node.right, node.op, node.left)
        yield ast.BinOp(ast.Attribute(node.left, "T", ast.Load()), node.op, node.right)
        yield ast.BinOp(node.left, node.op, ast.Attribute(node.right, "T", ast.Load()))


def _of_call(node: ast.Call) -> Iterator[ast.expr]:
    if node.args:  # without what is done to it
        yield node.args[0]
    if isinstance(node.func, ast.Attribute):
        if not node.args and not isinstance(node.func.value, ast.Name):
            yield node.func.value
        for name in _TWINS.get(node.func.attr, ()):
            yield ast.Call(ast.Attribute(node.func.value, name, ast.Load()), node.args, node.keywords)  # fmt: skip
        if node.func.attr == "where" and len(node.args) == 3:
            yield node.args[2]
            yield node.args[1]
            yield ast.Call(node.func, [node.args[0], node.args[2], node.args[1]], node.keywords)


def _swapped(node: ast.Tuple, i: int, j: int) -> ast.Tuple:
    elements = list(node.elts)
    elements[i], elements[j] = elements[j], elements[i]
    return ast.Tuple(elements, ast.Load())


def _other_numbers(value: float) -> list[float]:
    close = [value + 1, value - 1, 2 * value, value / 2, -value]
    exact = [int(v) if isinstance(value, int) and v == int(v) else v for v in close]
    return [v for v in dict.fromkeys(exact) if v != value]


def _number(value: float) -> ast.expr:
    """A number as a text has it: -2 is two, with a sign before it."""
    return ast.UnaryOp(ast.USub(), ast.Constant(-value)) if value < 0 else ast.Constant(value)
