"""Functions of a module as a framework calls them: how many arguments they take, what they return and read."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gradcheck_cli.lint.nodes import of_module, walk

Function = ast.FunctionDef
_NOTHING = ("zeros_like", "zeros", "stop_gradient", "zero_from_primal")


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule's name, the place, and what is wrong there in words."""

    rule: str
    node: ast.stmt | ast.expr
    message: str


@dataclass(frozen=True)
class Module:
    """A module's tree, and what its imported names stand for."""

    tree: ast.Module
    imported: Mapping[str, str]

    def full(self, node: ast.expr) -> str:
        """`jax.custom_vjp` for whatever the module calls it; nothing for what it does not import."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.imported:
            return ""
        return ".".join([self.imported[node.id], *reversed(parts)])

    @functools.cached_property
    def functions(self) -> Mapping[str, Function]:
        """Functions by name, those of which there is one alone."""
        found: dict[str, list[Function]] = {}
        for node in of_module(self.tree):
            if isinstance(node, ast.FunctionDef):
                found.setdefault(node.name, []).append(node)
        return {name: each[0] for name, each in found.items() if len(each) == 1}

    def named(self, node: ast.expr) -> Function | None:
        """The function that an expression names."""
        return self.functions.get(node.id) if isinstance(node, ast.Name) else None


def parameters(function: Function) -> list[ast.arg]:
    """What may be given by place."""
    return [*function.args.posonlyargs, *function.args.args]


def least(function: Function) -> int:
    """How many of these have to be given."""
    return len(parameters(function)) - len(function.args.defaults)


def is_open(function: Function) -> bool:
    """Does it take whatever it is given, or anything by name alone?"""
    args = function.args
    return args.vararg is not None or args.kwarg is not None or bool(args.kwonlyargs)


def takes(function: Function, count: int) -> bool:
    """Can it be called with so many arguments by place?"""
    return is_open(function) or least(function) <= count <= len(parameters(function))


def returns(function: Function) -> Iterator[ast.Return]:
    """Its own returns, not those of functions inside."""
    yield from (node for node in _own(function.body) if isinstance(node, ast.Return))


def _own(statements: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    for statement in statements:
        yield from _own_nodes(statement)


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
        return
    for child in ast.iter_child_nodes(node):
        yield from _own_nodes(child)


def reads(function: Function, name: str) -> bool:
    """Is the name read anywhere in it?"""
    nodes = (n for s in function.body for n in walk(s) if isinstance(n, ast.Name))
    return any(n.id == name and isinstance(n.ctx, ast.Load) for n in nodes)


def gives_nothing(function: Function) -> bool:
    """Does it return zeros or None alone, or raise: for what has no gradient?"""
    values = [r.value for r in returns(function)]
    return all(value is None or _is_nothing(value) for value in values)


def _is_nothing(value: ast.expr) -> bool:
    if isinstance(value, ast.Tuple):
        return all(map(_is_nothing, value.elts))
    if isinstance(value, ast.Call):
        called = value.func
        return getattr(called, "attr", getattr(called, "id", "")) in _NOTHING
    return isinstance(value, ast.Constant)


def tuples(function: Function) -> Iterator[ast.Tuple]:
    """The tuples that it returns, written out without a star."""
    for each in returns(function):
        value = each.value
        starred = isinstance(value, ast.Tuple) and any(isinstance(e, ast.Starred) for e in value.elts)  # fmt: skip
        if isinstance(value, ast.Tuple) and not starred:
            yield value


def miscounted(function: Function, fewest: int, most: int, *, spare_none: bool = False) -> Iterator[Broken]:  # fmt: skip
    """Tuples of gradients that are too few or too many; `spare_none`: more of them may be None."""
    for value in tuples(function):
        count = len(value.elts)
        over = value.elts[most:]
        if spare_none and over and all(isinstance(e, ast.Constant) and e.value is None for e in over):  # fmt: skip
            continue
        if not fewest <= count <= most:
            wanted = f"{most}" if fewest == most else f"{fewest} to {most}"
            text = f"`{function.name}` returns {count} gradients for {wanted} arguments"
            yield Broken("wrong-number-of-gradients", value, text)


def unread(function: Function, cotangents: Sequence[str]) -> Iterator[Broken]:
    """Cotangents that nothing reads, but for those that say so by their name."""
    left = [n for n in cotangents if not n.startswith("_") and not reads(function, n)]
    if not left or not cotangents or gives_nothing(function):
        return
    names = ", ".join(f"`{name}`" for name in left)
    if len(left) == len(cotangents):
        text = f"`{function.name}` never reads the cotangent {names}: its gradient is that of a sum alone"
        yield Broken("cotangent-never-used", function, text)
    else:
        text = f"`{function.name}` never reads {names}, the cotangent of one output"
        yield Broken("output-cotangent-never-used", function, text)


def unpacked(function: Function, name: str) -> list[str]:
    """The names into which an argument is taken apart as a whole: `g1, g2 = g`."""
    for node in _own(function.body):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id == name:  # fmt: skip
            target = node.targets[0]
            if isinstance(target, ast.Tuple) and all(isinstance(e, ast.Name) for e in target.elts):
                return [e.id for e in target.elts if isinstance(e, ast.Name)]
    return []
