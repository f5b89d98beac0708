"""What edits leave behind: a line that gives a name to what nothing reads any more."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradcheck_cli.contract.report import Edit
from gradcheck_cli.project.edits import lines_of, stands_alone
from gradcheck_cli.project.framework_marks import PACKAGES

_Place = tuple[int, int]  # a line, from 1, and the letters before

# Of arrays, which only give numbers.
_METHODS = frozenset({"exp", "log", "sqrt", "tanh", "sigmoid", "sum", "mean", "abs", "square", "pow", "clamp", "max", "min", "detach", "reshape", "unsqueeze"})  # fmt: skip
_SEE_NAMES = frozenset({"locals", "vars", "dir", "eval", "exec"})
_NUMERIC = frozenset({"math", "cmath", "numpy", "scipy", *PACKAGES})
_NAME = re.compile(r"[^\W\d]\w*")


def leftovers(source: str, edits: Sequence[Edit]) -> list[Edit]:
    """The lines of a source to be taken out beside these edits, for only what they replace has read their names.

    A line whose value may do more than give a number stays.
    """
    gone: list[Edit] = []
    while more := _next(source, [*gone, *edits]):
        gone += more
    return gone


def _next(source: str, edits: Sequence[Edit]) -> list[Edit]:
    """What nothing reads once these are made; taking it out may leave more behind."""
    module = _module(source)
    found = [
        _without(statement)
        for function in module.functions
        if any(_inside(edit, function) for edit in edits)
        for statement in _unread(_Edited(function, module.lines, edits))
        if stands_alone(statement, module.lines) and not _may_do_more(statement.value, module.names)
    ]
    return [each for each in dict.fromkeys(found) if not any(_meet(each, e) for e in edits)]


@dataclass(frozen=True, slots=True)
class _Module:
    """The functions of a source, its lines, and the names of modules in it."""

    functions: Sequence[ast.FunctionDef]
    lines: Sequence[str]
    names: frozenset[str]


@functools.lru_cache(maxsize=1)
def _module(source: str) -> _Module:
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError):
        nodes = []
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    return _Module(functions, lines_of(source), frozenset(_modules(nodes)))


def _modules(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """The names of modules, and of what comes from a package of numbers."""
    for node in nodes:
        match node:
            case ast.Import(names=names):
                yield from (each.asname or each.name.partition(".")[0] for each in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                if module.partition(".")[0] in _NUMERIC:
                    yield from (each.asname or each.name for each in names)


def _inside(edit: Edit, function: ast.FunctionDef) -> bool:
    return function.lineno <= edit.line and edit.end_line <= (function.end_lineno or 0) + 1


class _Edited:
    """A function, and what is left in it of what reads a name."""

    def __init__(
        self, function: ast.FunctionDef, lines: Sequence[str], edits: Sequence[Edit]
    ) -> None:
        self.function = function
        names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
        self.stored = [node.id for node in names if isinstance(node.ctx, ast.Store)]
        others = [node for node in names if not isinstance(node.ctx, ast.Store)]
        self.read = {node.id for node in others}
        self.written = {name for edit in edits for name in _NAME.findall(edit.text)}
        self.left = self.written | {
            node.id
            for node in others
            if not any(_start(e) <= _place(node, lines) < _end(e) for e in edits)
        }


def _unread(edited: _Edited) -> Iterator[ast.Assign]:
    """The statements that give a name to what the function read before, and does not now."""
    function = edited.function
    if _SEE_NAMES & edited.read:
        return
    shared = {
        n for s in ast.walk(function) if isinstance(s, ast.Global | ast.Nonlocal) for n in s.names
    }
    lost = edited.read - edited.left - shared
    for block in _blocks(function) if lost else ():
        for statement in block:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)]) if name in lost:
                    if edited.stored.count(name) == 1 and _is_not_alone(block):
                        yield statement


def _blocks(function: ast.FunctionDef) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(function):
        for part in ("body", "orelse", "finalbody"):
            block = getattr(node, part, None)
            if isinstance(block, list):
                yield block


def _is_not_alone(block: Sequence[ast.stmt]) -> bool:
    """Does something of the block stay, whatever names go?"""
    return any(not isinstance(statement, ast.Assign) for statement in block)


def _place(node: ast.expr, lines: Sequence[str]) -> _Place:
    before = lines[node.lineno - 1].encode()[: node.col_offset]
    return node.lineno, len(before.decode(errors="ignore"))


def _start(edit: Edit) -> _Place:
    return edit.line, edit.column - 1


def _end(edit: Edit) -> _Place:
    return edit.end_line, edit.end_column - 1


def _without(statement: ast.stmt) -> Edit:
    end = (statement.end_lineno or statement.lineno) + 1
    return Edit(line=statement.lineno, column=1, end_line=end, end_column=1, text="")


def _meet(lines: Edit, other: Edit) -> bool:
    """Does the other one change something in these whole lines? What is written before them does not."""
    if _start(other) == _end(other):
        return _start(lines) < _start(other) < _end(lines)
    return _start(other) < _end(lines) and _start(lines) < _end(other)


def _may_do_more(value: ast.expr, modules: frozenset[str]) -> bool:
    """May it do more than give a number? A function of a module does not, nor does a usual method of an array."""
    nodes = list(ast.walk(value))
    if any(isinstance(n, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom) for n in nodes):
        return True
    return any(isinstance(n, ast.Call) and not _is_plain(n.func, modules) for n in nodes)


def _is_plain(called: ast.expr, modules: frozenset[str]) -> bool:
    if not isinstance(called, ast.Attribute):
        return False
    root = called.value
    while isinstance(root, ast.Attribute):
        root = root.value
    return called.attr in _METHODS or (isinstance(root, ast.Name) and root.id in modules)
