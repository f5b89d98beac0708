"""What a forward pass does not keep, and the backward would need: a rule that has all of it, and how to keep one more.

For a search the forward function hands on everything that it has a name for; what a change then rests on is kept in
the author's own way: one more residual, one more saved tensor, one more attribute of `ctx`.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from gradcheck_cli.contract.report import Edit
from gradcheck_cli.judge.source.rewritten import tree_of
from gradcheck_cli.judge.source.rule_text import Function, names_in, own_nodes, returned_by
from gradcheck_cli.judge.source.seen import seen
from gradcheck_cli.judge.source.source_file import SourceFile
from gradcheck_cli.subject.protocol import CustomGradient

_VJP, _TORCH = "custom_vjp", "Function"
_HANDED = "_cgcheck_handed"


@dataclass(frozen=True, slots=True)
class Keeping:
    """A backward function that sees what the forward one has a name for, while that one hands it on."""

    forward: FunctionType
    handing: Function  # the forward function that hands all of it on
    backward: FunctionType
    having: Function  # the backward function that takes it
    names: Collection[str]
    keep: Callable[[str], Sequence[Edit] | None]  # how the file keeps one of them
    spelled: Callable[[str], str]  # and what the backward function then calls it


def keeping(gradient: CustomGradient, run: Callable[[], object]) -> Keeping | None:
    """The widened rule; None where the text does not show how it keeps things, or nothing more is there.

    `run` runs forward and backward once.
    """
    functions = list(gradient.rule_code())
    if gradient.kind == _VJP and len(functions) > 1:
        return _of_vjp(functions[1], functions[0], run)
    if gradient.kind == _TORCH and functions:
        return _of_torch(functions[0], run)
    return None


def _of_vjp(
    forward: FunctionType, backward: FunctionType, run: Callable[[], object]
) -> Keeping | None:
    fwd, bwd = tree_of(forward), tree_of(backward)
    if not isinstance(fwd, ast.FunctionDef) or not isinstance(bwd, ast.FunctionDef):
        return None
    pairs, own = returned_by(fwd, apart=False), [a.arg for a in bwd.args.args]
    pair = pairs[0] if len(pairs) == 1 else None
    if not isinstance(pair, ast.Tuple) or len(pair.elts) != 2 or len(own) < 2:
        return None
    arrays, plain = _names(forward, fwd, backward, bwd, run)
    names, residuals, kept = [*arrays, *plain], own[-2], pair.elts[1]
    more = ast.Tuple([kept, _tuple(names)], ast.Load())
    pair_of_all = ast.Tuple([pair.elts[0], more], ast.Load())
    handing = _with_return(fwd, pair, pair_of_all)
    target = ast.Tuple([ast.Name(residuals, ast.Store()), _tuple(names, ast.Store())], ast.Store())
    having = _behind_docstring(bwd, ast.Assign([target], ast.Name(residuals, ast.Load())))
    file = SourceFile.of(forward.__code__.co_filename)

    def keep(name: str) -> Sequence[Edit] | None:
        opened = _opened(bwd, residuals)
        if isinstance(kept, ast.Tuple) and kept.elts and opened is not None:
            return [file.one_more(kept, name), file.one_more(opened, name)]
        if isinstance(kept, ast.Name) and opened is None:
            alone = _named_anew(bwd, residuals)
            if alone is not None:
                return [file.edit(kept, f"({kept.id}, {name})"), file.after(alone, f", {name}")]
        return None

    return Keeping(forward, handing, backward, having, names, keep, str) if names else None


def _of_torch(backward: FunctionType, run: Callable[[], object]) -> Keeping | None:
    forward = _method(backward, "forward")
    bwd = tree_of(backward)
    fwd = None if forward is None else tree_of(forward)
    if (
        forward is None
        or not isinstance(fwd, ast.FunctionDef)
        or not isinstance(bwd, ast.FunctionDef)
    ):
        return None
    saves, opened = _saved(fwd), _opened_tensors(bwd)
    if saves is None or opened is None or not bwd.args.args or not fwd.args.args:
        return None
    arrays, plain = _names(forward, fwd, backward, bwd, run)
    above = {n for n in [*arrays, *plain] if _stands_above(fwd, n, saves)}
    names = [n for n in (*arrays, *plain) if n in above]
    ctx, there = fwd.args.args[0].arg, bwd.args.args[0].arg
    handed = ast.Attribute(ast.Name(ctx, ast.Load()), _HANDED, ast.Store())
    handing = _before(fwd, saves, ast.Assign([handed], _tuple(names)))
    taken = ast.Attribute(ast.Name(there, ast.Load()), _HANDED, ast.Load())
    having = _behind_docstring(bwd, ast.Assign([_tuple(names, ast.Store())], taken))
    file = SourceFile.of(backward.__code__.co_filename)

    def keep(name: str) -> Sequence[Edit] | None:
        if name in plain:
            return [file.before(saves, f"{ctx}.{name} = {name}")]
        call = saves.value
        assert isinstance(call, ast.Call)
        return [file.after(call.args[-1], f", {name}"), file.one_more(opened, name)]

    def spelled(name: str) -> str:
        return f"{there}.{name}" if name in plain else name

    return Keeping(forward, handing, backward, having, names, keep, spelled) if names else None


def _names(
    forward: FunctionType,
    fwd: Function,
    backward: FunctionType,
    bwd: Function,
    run: Callable[[], object],
) -> tuple[list[str], list[str]]:
    """What the forward function calls arrays, and numbers, which the backward one has no name for."""
    known = {n.id for n in ast.walk(bwd) if isinstance(n, ast.Name)} | {
        a.arg for a in bwd.args.args
    }
    names = [name for name in names_in(fwd, fwd) if name not in known]
    found = seen(forward, fwd, fwd, [], names, run)
    arrays = [n for n in names if n in found.names and n not in found.plain]
    return arrays, [n for n in names if n in found.plain]


def _tuple(names: Sequence[str], context: ast.expr_context | None = None) -> ast.Tuple:
    here = context or ast.Load()
    return ast.Tuple([ast.Name(name, here) for name in names], here)


def _with_return(function: ast.FunctionDef, value: ast.expr, new: ast.expr) -> ast.FunctionDef:
    """The function that returns something else in a place of its own body."""
    made = copy.copy(function)
    made.body = [
        ast.Return(new) if isinstance(s, ast.Return) and s.value is value else s
        for s in function.body
    ]
    return made


def _behind_docstring(function: ast.FunctionDef, statement: ast.stmt) -> ast.FunctionDef:
    made = copy.copy(function)
    first = 1 if ast.get_docstring(function) is not None else 0
    made.body = [*function.body[:first], statement, *function.body[first:]]
    return made


def _before(function: ast.FunctionDef, mark: ast.stmt, statement: ast.stmt) -> ast.FunctionDef:
    made = copy.copy(function)
    at = function.body.index(mark)
    made.body = [*function.body[:at], statement, *function.body[at:]]
    return made


def _opened(function: Function, whole: str) -> ast.Tuple | None:
    """The names into which the residuals are taken apart."""
    for node in own_nodes(function):
        match node:
            case ast.Assign(targets=[ast.Tuple() as names], value=ast.Name(id=given)):
                if given == whole and names.elts:
                    return names
    return None


def _named_anew(function: Function, whole: str) -> ast.Name | None:
    """The other name that the residual is given: `seg = res`."""
    for node in own_nodes(function):
        match node:
            case ast.Assign(targets=[ast.Name() as name], value=ast.Name(id=given)):
                if given == whole:
                    return name
    return None


def _saved(forward: ast.FunctionDef) -> ast.Expr | None:
    """The one statement that saves tensors."""
    found = [
        statement
        for statement in forward.body
        if isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and isinstance(statement.value.func, ast.Attribute)
        and statement.value.func.attr == "save_for_backward"
        and statement.value.args
        and not any(isinstance(a, ast.Starred) for a in statement.value.args)
    ]
    return found[0] if len(found) == 1 else None


def _opened_tensors(backward: ast.FunctionDef) -> ast.Tuple | None:
    """The names of the saved tensors."""
    for node in own_nodes(backward):
        match node:
            case ast.Assign(
                targets=[ast.Tuple() as names], value=ast.Attribute(attr="saved_tensors")
            ) if names.elts:
                return names
    return None


def _stands_above(function: ast.FunctionDef, name: str, mark: ast.stmt) -> bool:
    """Is it a parameter, or given its last value above a statement?"""
    stored = [
        n.lineno
        for n in own_nodes(function)
        if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)
    ]
    return all(line < mark.lineno for line in stored)


def _method(method: FunctionType, name: str) -> FunctionType | None:
    """Another method of the class of a method, as the module has it."""
    owner: Any = method.__globals__.get(method.__qualname__.rpartition(".")[0])
    found = None if owner is None else vars(owner).get(name)
    function = getattr(found, "__func__", found)
    return function if isinstance(function, FunctionType) else None


def renamed(tree: ast.expr, names: Mapping[str, str], kept: ast.AST) -> ast.expr:
    """An expression with other texts for names, but for a part that stays the very same."""
    if tree is kept:
        return tree
    if isinstance(tree, ast.Name) and tree.id in names:
        return ast.parse(names[tree.id], mode="eval").body
    made = copy.copy(tree)
    for field, value in ast.iter_fields(tree):
        if isinstance(value, ast.expr):
            setattr(made, field, renamed(value, names, kept))
        elif isinstance(value, list):
            parts = [renamed(v, names, kept) if isinstance(v, ast.expr) else v for v in value]
            setattr(made, field, parts)
    return made


def names_used(tree: ast.expr, names: Collection[str]) -> Iterator[str]:
    """Names that an expression reads, out of some, each once."""
    read = (n.id for n in ast.walk(tree) if isinstance(n, ast.Name))
    yield from (name for name in dict.fromkeys(read) if name in names)
