"""What edits leave behind: a line that gives a name to what nothing reads any more."""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
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
_IN_PLACE = re.compile(r"[a-z]\w*[^\W_]_")
_STATEFUL = frozenset({"random", "io", "distributed", "debug", "debugging", "cuda"})
_DOES_MORE = re.compile(
    r"set_|manual_|seed|save|load|print|assert|callback|register|enable|disable|fill|put|copyto|default_rng"
)
_NAME = re.compile(r"[^\W\d]\w*")


def leftovers(source: str, edits: Sequence[Edit]) -> list[Edit]:
    """The lines of a source to be taken out beside these edits, for only what they replace has read their names.

    A line whose value may do more than give a number stays.
    """
    module = _module(source)
    found = [
        _without(statement)
        for function in module.functions
        if any(_inside(edit, function) for edit in edits)
        for statement in _unread(function, module, edits)
    ]
    return list(dict.fromkeys(found))


def acts(node: ast.AST) -> bool:
    """Is there a call that writes into an array, or a name that an expression gives?"""
    return any(
        isinstance(part, ast.NamedExpr)
        or (
            isinstance(part, ast.Call)
            and (
                any(keyword.arg in ("out", "inplace") for keyword in part.keywords)
                or _IN_PLACE.fullmatch(getattr(part.func, "attr", getattr(part.func, "id", "")))
            )
        )
        for part in ast.walk(node)
    )


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
    """The names of packages of numbers, and of what comes from them."""
    for node in nodes:
        match node:
            case ast.Import(names=names):
                numeric = [n for n in names if n.name.partition(".")[0] in _NUMERIC]
                yield from (each.asname or each.name.partition(".")[0] for each in numeric)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                if module.partition(".")[0] in _NUMERIC:
                    yield from (each.asname or each.name for each in names)


def _inside(edit: Edit, function: ast.FunctionDef) -> bool:
    return function.lineno <= edit.line and edit.end_line <= (function.end_lineno or 0) + 1


def _unread(
    function: ast.FunctionDef, module: _Module, edits: Sequence[Edit]
) -> Iterator[ast.Assign]:
    """The statements that give a name to what the function read before, and does not now; the last one may take others with it."""
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
    others = [node for node in names if not isinstance(node.ctx, ast.Store)]
    stored = Counter(node.id for node in names if isinstance(node.ctx, ast.Store))
    left = Counter(node.id for node in others if not _is_replaced(node, module.lines, edits))
    left.update(name for edit in edits for name in _NAME.findall(edit.text))
    left.update(_in_words(function))
    read = {node.id for node in others}
    if _SEE_NAMES & read:
        return
    kept = {n for s in ast.walk(function) if isinstance(s, ast.Global | ast.Nonlocal) for n in s.names}  # fmt: skip
    lines = dict(_plain_lines(function, module, edits))
    waiting = [name for name in lines if name in read and not left[name]]
    for name in waiting:  # it grows on the way
        if name in kept or stored[name] != 1:
            continue
        yield lines[name]
        freed = Counter(n.id for n in ast.walk(lines[name].value) if isinstance(n, ast.Name))
        left.subtract(freed)
        waiting += [n for n in freed if n in lines and left[n] <= 0 and n not in waiting]


def _in_words(function: ast.FunctionDef) -> Iterator[str]:
    """Names in strings, which may be code for somebody else."""
    for node in ast.walk(function):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _NAME.findall(node.value)


def _is_replaced(node: ast.expr, lines: Sequence[str], edits: Sequence[Edit]) -> bool:
    return any(_start(e) <= _place(node, lines) < _end(e) for e in edits)


def _plain_lines(
    function: ast.FunctionDef, module: _Module, edits: Sequence[Edit]
) -> Iterator[tuple[str, ast.Assign]]:
    """The statements that only give a number a name, on lines of their own that no edit changes, by that name."""
    for block in _blocks(function):
        for statement in block if _is_not_alone(block) else ():
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    told = "".join(module.lines[statement.lineno - 1 : statement.end_lineno])
                    before = module.lines[statement.lineno - 2] if statement.lineno > 1 else ""
                    alone = stands_alone(statement, module.lines) and "#" not in told
                    whole = alone and not before.rstrip().endswith("\\")
                    touched = any(_meet(_without(statement), edit) for edit in edits)
                    if whole and not touched and not _may_do_more(value, module.names):
                        yield name, statement


def _blocks(function: ast.FunctionDef) -> Iterator[list[ast.stmt]]:
    for node in (n for n in ast.walk(function) if not isinstance(n, ast.ClassDef)):
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
    """May it do more than give a number? A function of a package of numbers does not, nor does a usual method of an array."""
    nodes = list(ast.walk(value))
    if acts(value) or any(isinstance(n, ast.Await | ast.Yield | ast.YieldFrom) for n in nodes):
        return True
    return any(isinstance(n, ast.Call) and not _is_plain(n.func, modules) for n in nodes)


def _is_plain(called: ast.expr, modules: frozenset[str]) -> bool:
    if not isinstance(called, ast.Attribute) or _DOES_MORE.match(called.attr):
        return False
    root = called.value
    while isinstance(root, ast.Attribute) and root.attr not in _STATEFUL:
        root = root.value
    return called.attr in _METHODS or (isinstance(root, ast.Name) and root.id in modules)
