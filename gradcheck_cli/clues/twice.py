"""Calls of a project that differentiate twice: Hessians, gradients of gradients, `create_graph=True`, nested tapes.

Which functions of a file such a call reaches is read by name, through two calls. What a parameter stands
for is not known, so a silence says nothing.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gradcheck_cli.clues.interpreted.project import is_module, parsed, users

_CALLS = 2  # from one function to another
_GIVES_A_DERIVATIVE = re.compile(
    r"(?:jax|torch\.func|functorch)(?:\.\w+)*\.(?:grad|value_and_grad|jacfwd|jacrev|jacobian|vjp|jvp|linearize)"
)
_GIVES_A_SECOND_ONE = re.compile(
    r"(?:jax|torch\.func|functorch|torch\.autograd\.functional)(?:\.\w+)*\.(?:hessian|hvp|vhp)"
)
_TAPE = re.compile(r"tensorflow(?:\.\w+)*\.GradientTape")

Definitions = Mapping[str, Sequence[ast.AST]]


@dataclass(frozen=True, slots=True)
class Twice:
    """A call that differentiates twice, and the names that it reaches in the file that it is asked for."""

    path: Path
    line: int
    names: frozenset[str]


def differentiated_twice(path: Path, root: Path, name: str) -> str:
    """Where the function of this name in the file is differentiated twice, as `train.py:31`; nothing if it is nowhere."""
    try:
        changed = path.stat().st_mtime_ns
    except OSError:
        return ""
    found = next((call for call in _calls(path, root, changed) if name in call.names), None)
    if found is None:
        return ""
    shown = found.path.relative_to(root) if found.path.is_relative_to(root) else found.path
    return f"{shown.as_posix()}:{found.line}"


@functools.lru_cache(maxsize=4)
def _calls(path: Path, root: Path, changed: int) -> tuple[Twice, ...]:
    """All such calls in the file itself and in those of the project that import from it."""
    home = parsed(path)
    if home is None:
        return ()
    own = _definitions(home)
    found = [*_of_file(path, home, own, {name: name for name in own})]
    for other in users(path, root, set(own)):
        tree = parsed(other)
        if tree is not None:
            meant = _imported(tree, path, other)
            imported = {name: own.get(original, []) for name, original in meant.items()}
            found += _of_file(other, tree, {**own, **imported, **_definitions(tree)}, meant)
    return tuple(found)


def _of_file(
    path: Path, tree: ast.Module, known: Definitions, meant: Mapping[str, str]
) -> Iterator[Twice]:
    """The calls of one file; `meant` are its names for those of the file that is asked for."""
    for line, nodes in _Sites(tree, known).found():
        reached = _reached(nodes, known)
        names = frozenset(meant.get(name, name) for name in reached)
        yield Twice(path, line, names)


class _Sites:
    """Where a file differentiates twice, and what stands there to be differentiated."""

    def __init__(self, tree: ast.Module, known: Definitions) -> None:
        self._tree, self._known = tree, known
        self._libraries = _libraries(tree)

    def found(self) -> Iterator[tuple[int, Sequence[ast.AST]]]:
        for around, node in _with_function(self._tree):
            if isinstance(node, ast.Call):
                differentiated = self._by_call(node, around)
            elif isinstance(node, ast.With):
                differentiated = self._by_tapes(node)
            else:
                continue
            if differentiated:
                yield node.lineno, differentiated

    def _by_call(self, call: ast.Call, around: ast.AST) -> Sequence[ast.AST]:
        """What a call differentiates twice: its function, the function inside an inner call, or all that is around."""
        name = self._name(call.func)
        if _GIVES_A_SECOND_ONE.fullmatch(name):
            return call.args[:1]
        if any(k.arg == "create_graph" and _is_true(k.value) for k in call.keywords):
            return [around]
        if not _GIVES_A_DERIVATIVE.fullmatch(name):
            return []
        bodies = [*call.args[:1], *_bodies(_reached(call.args[:1], self._known, 1), self._known)]
        inner = [
            n for b in bodies for n in ast.walk(b) if isinstance(n, ast.Call) and n is not call
        ]
        return [
            a
            for n in inner
            if _GIVES_A_DERIVATIVE.fullmatch(self._name(n.func))
            for a in n.args[:1]
        ]

    def _by_tapes(self, outer: ast.With) -> Sequence[ast.AST]:
        """What is recorded on an inner tape of which an outer one records the gradient."""
        if not self._is_tape(outer):
            return []
        inside = [node for statement in outer.body for node in ast.walk(statement)]
        inner = [node for node in inside if isinstance(node, ast.With) and self._is_tape(node)]
        asked = {_tape_asked(node) for node in inside}
        return [s for tape in inner if _tape_name(tape) in asked for s in tape.body]

    def _is_tape(self, node: ast.With) -> bool:
        calls = (i.context_expr for i in node.items if isinstance(i.context_expr, ast.Call))
        return any(_TAPE.fullmatch(self._name(call.func)) for call in calls)

    def _name(self, function: ast.expr) -> str:
        """The function by its full name in a library: `jax.grad`."""
        first, _, rest = ast.unparse(function).partition(".")
        library = self._libraries.get(first, "")
        return f"{library}.{rest}" if library and rest else library


def _tape_name(node: ast.With) -> str:
    names = (i.optional_vars.id for i in node.items if isinstance(i.optional_vars, ast.Name))
    return next(names, "")


def _tape_asked(node: ast.AST) -> str:
    """The name of the tape that is asked for a gradient here."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="gradient" | "jacobian")):
            return name
    return ""


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _with_function(tree: ast.Module) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Each node below the module's statements, with the outermost statement around it."""
    for statement in tree.body:
        for node in ast.walk(statement):
            yield statement, node


def _libraries(tree: ast.Module) -> dict[str, str]:
    """What the names that a file imports are called in full."""
    full: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                full[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            full |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    return full


def _imported(tree: ast.Module, home: Path, here: Path) -> dict[str, str]:
    """The names under which a file knows those of the home file."""
    froms = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    own = (node for node in froms if is_module(home, here, node.module or "", node.level))
    return {alias.asname or alias.name: alias.name for node in own for alias in node.names}


def _definitions(tree: ast.Module) -> dict[str, list[ast.AST]]:
    """What each name of a file is bound to: a function, a class, or what is assigned at the top."""
    found: dict[str, list[ast.AST]] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.setdefault(node.name, []).append(node)
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(statement.value)
    return found


def _reached(nodes: Iterable[ast.AST], known: Definitions, calls: int = _CALLS) -> frozenset[str]:
    """The names that stand in these, and in what these call."""
    names = _names(nodes)
    for _ in range(calls):
        names |= _names(_bodies(names, known))
    return frozenset(names)


def _bodies(names: Iterable[str], known: Definitions) -> list[ast.AST]:
    return [body for name in sorted(names) for body in known.get(name, ())]


def _names(nodes: Iterable[ast.AST]) -> set[str]:
    """Names that are read, also those of a module: `ops` and `relu` of `ops.relu(x)`."""
    found: set[str] = set()
    for node in (inner for each in nodes for inner in ast.walk(each)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.add(node.attr)
    return found
