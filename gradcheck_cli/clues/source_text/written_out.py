"""Loops over words that stand in the text, written out: `a, b = (p[k] for k in ("a", "b"))` reads `p["a"]` and `p["b"]`."""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

_Node = TypeVar("_Node", bound=ast.AST)
_MOST_WORDS = 16
_MOST_LOOPS = 8  # of one text: loops inside of each other multiply


def written_out(tree: ast.Module, surroundings: Mapping[str, Any]) -> ast.Module:
    """The tree with the loops over words in the place of which their turns stand, one behind the other.

    A word list is a literal, or what a name of the module stands for that the text does not bind itself. A tree that
    is deeper than Python walks stays as it is.
    """
    try:
        written: ast.Module = _Turns(surroundings, _bound(tree)).visit(copy.deepcopy(tree))
    except RecursionError:
        return tree
    return ast.fix_missing_locations(written)


def _bound(tree: ast.Module) -> set[str]:
    """The names of parameters, and those that are assigned."""
    nodes = list(ast.walk(tree))
    stored = (n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return {*stored, *(n.arg for n in nodes if isinstance(n, ast.arg))}


class _Turns(ast.NodeTransformer):
    """Comprehensions become what they make; `for` statements become their bodies."""

    def __init__(self, surroundings: Mapping[str, Any], bound: Collection[str]) -> None:
        self._constants = {n: v for n, v in surroundings.items() if n not in bound}
        self._left = _MOST_LOOPS

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.AST:
        return self._made(node)

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        return self._made(node)

    def _made(self, node: ast.GeneratorExp | ast.ListComp) -> ast.AST:
        turns = self._turns(node.generators)
        if turns:
            items = [_with(node.elt, turn) for turn in turns]
            return self.generic_visit(ast.copy_location(ast.Tuple(items, ast.Load()), node))
        return self.generic_visit(node)

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        turns = self._turns(node.generators)
        if turns:
            keys: list[ast.expr | None] = [_with(node.key, turn) for turn in turns]
            values = [_with(node.value, turn) for turn in turns]
            return self.generic_visit(ast.copy_location(ast.Dict(keys, values), node))
        return self.generic_visit(node)

    def visit_For(self, node: ast.For) -> ast.AST | list[ast.stmt]:
        inside = [n for part in node.body for n in ast.walk(part)]
        leaves = any(isinstance(n, (ast.Break, ast.Continue)) for n in inside)
        own = {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}
        again = any(
            isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.id in own for n in inside
        )
        turns = [] if leaves or again else self._of(node.target, node.iter)
        if not turns:
            return self.generic_visit(node)
        statements = [_with(part, turn) for turn in turns for part in node.body] + node.orelse
        whole = self.generic_visit(ast.Module(statements, []))
        assert isinstance(whole, ast.Module)
        return whole.body

    def _turns(self, generators: list[ast.comprehension]) -> list[dict[str, ast.expr]]:
        one = generators[0]
        return self._of(one.target, one.iter) if len(generators) == 1 and not one.ifs else []

    def _of(self, target: ast.expr, several: ast.expr) -> list[dict[str, ast.expr]]:
        """What each turn gives to the names of the target; nothing where it goes over no words."""
        items = self._items(several)
        turns = [_given(target, item) for item in items]
        spoken = [t for t in turns if t is not None and any(map(_is_word, t.values()))]
        if not self._left or not 0 < len(spoken) == len(items) <= _MOST_WORDS:
            return []
        self._left -= 1
        return spoken

    def _items(self, several: ast.expr) -> list[ast.expr]:
        if isinstance(several, (ast.Tuple, ast.List)):
            starred = any(isinstance(n, ast.Starred) for n in ast.walk(several))
            return [] if starred else several.elts
        words = self._constants.get(several.id) if isinstance(several, ast.Name) else None
        whole = isinstance(words, (tuple, list)) and all(type(word) is str for word in words)
        return [ast.Constant(word) for word in words] if whole and words is not None else []


def _is_word(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _given(target: ast.expr, item: ast.expr) -> dict[str, ast.expr] | None:
    """The names of the target with what they stand for in a turn."""
    if isinstance(target, ast.Name):
        return {target.id: item}
    pairs = isinstance(target, ast.Tuple) and isinstance(item, ast.Tuple)
    if not pairs or not isinstance(target, ast.Tuple) or not isinstance(item, ast.Tuple):
        return None
    names = [part.id for part in target.elts if isinstance(part, ast.Name)]
    fits = len(names) == len(target.elts) == len(item.elts)
    return dict(zip(names, item.elts, strict=True)) if fits else None


def _with(node: _Node, turn: Mapping[str, ast.expr]) -> _Node:
    """A copy in which the loop's names are what they stand for."""
    written: _Node = _Named(turn).visit(copy.deepcopy(node))
    return written


class _Named(ast.NodeTransformer):
    """Names that are read become what they stand for."""

    def __init__(self, turn: Mapping[str, ast.expr]) -> None:
        self._turn = turn

    def visit_Name(self, node: ast.Name) -> ast.AST:
        meant = self._turn.get(node.id) if isinstance(node.ctx, ast.Load) else None
        return node if meant is None else ast.copy_location(copy.deepcopy(meant), node)
