"""Calls of a project that differentiate twice: Hessians, gradients of gradients, `create_graph=True`, nested tapes.

Which functions of a file such a call reaches is read by name, through two calls. What a parameter stands
for is not known, so a silence says nothing.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gradcheck_cli.clues.interpreted.project import is_module, parsed
from gradcheck_cli.project.users import users

_CALLS = 2  # from one function to another
_GIVES_A_DERIVATIVE = re.compile(
    r"(?:jax|torch\.func|functorch)(?:\.\w+)*\.(?:grad|value_and_grad|jacfwd|jacrev|jacobian|vjp|jvp|linearize)"
)
_GIVES_A_SECOND_ONE = re.compile(
    r"(?:jax|torch\.func|functorch|torch\.autograd\.functional)(?:\.\w+)*\.(?:hessian|hvp|vhp)"
)
_TAPE = re.compile(r"tensorflow(?:\.\w+)*\.GradientTape")

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Definitions = Mapping[str, Sequence[ast.AST]]


@dataclass(frozen=True, slots=True)
class Twice:
    """A call that differentiates twice, and the names of the home file that it reaches."""

    path: Path
    line: int
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Names:
    """What the names of a file are bound to: in the file itself, and in the home file that it imports from."""

    own: Definitions
    home: Definitions
    imported: Mapping[str, str]  # its names for those of the home file
    modules: frozenset[str]  # its names for the home file itself
    libraries: Mapping[str, str]  # what its imports are called in full

    def full(self, function: ast.expr) -> str:
        """The function by its full name in a library: `jax.grad`; nothing for what is in none."""
        rest: list[str] = []
        while isinstance(function, ast.Attribute):
            rest.insert(0, function.attr)
            function = function.value
        library = self.libraries.get(function.id, "") if isinstance(function, ast.Name) else ""
        return ".".join([library, *rest]) if library else ""

    def reached(self, nodes: Iterable[ast.AST], bound: Collection[str]) -> frozenset[str]:
        """The names of the home file that stand in these, and in what these call; `bound` are parameters around."""
        local = _read(nodes) - set(bound)
        homely = self._of_home(nodes, local)
        for _ in range(_CALLS):
            bodies = _bodies(local, self.own)
            further = _read(bodies)
            homely |= _read(_bodies(homely, self.home)) | self._of_home(bodies, further)
            local |= further
        return frozenset(homely)

    def bodies(self, nodes: Iterable[ast.AST]) -> list[ast.AST]:
        """What the names in these are bound to."""
        local = _read(nodes)
        return [*_bodies(local, self.own), *_bodies(self._of_home(nodes, local), self.home)]

    def _of_home(self, nodes: Iterable[ast.AST], names: Collection[str]) -> set[str]:
        """The names of the home file among these, and those that are asked of the module."""
        found = {self.imported[name] for name in names if name in self.imported}
        for node in (inner for each in nodes for inner in ast.walk(each)):
            match node:
                case ast.Attribute(value=ast.Name(id=module), attr=name) if module in self.modules:
                    found.add(name)
        return found


def differentiated_twice(path: Path, root: Path, name: str) -> str:
    """Where the function of this name in the file is differentiated twice, as `train.py:31`; nothing if it is nowhere."""
    try:
        changed = path.stat().st_mtime_ns
    except OSError:
        return ""
    try:
        found = next((call for call in _calls(path, root, changed) if name in call.names), None)
    except RecursionError:  # an expression too deep to be written by hand
        return ""
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
    itself = Names({}, own, {name: name for name in own}, frozenset(), _libraries(home))
    found = [*_of_file(path, home, itself)]
    for other in users(path, root, set(own)):
        tree = parsed(other)
        if tree is not None:
            found += _of_file(other, tree, _names_of(tree, own, path, other))
    return tuple(found)


def _of_file(path: Path, tree: ast.Module, names: Names) -> Iterator[Twice]:
    for functions, node in _with_functions(tree, ()):
        if isinstance(node, ast.Call):
            differentiated = _by_call(node, functions, names)
        elif isinstance(node, ast.With):
            differentiated = _by_tapes(node, names)
        else:
            continue
        if differentiated:
            reached = names.reached(differentiated, _parameters(functions))
            yield Twice(path, node.lineno, reached)


def _by_call(call: ast.Call, functions: Sequence[Function], names: Names) -> Sequence[ast.AST]:
    """What a call differentiates twice: its function, that of an inner call, or the function that it stands in."""
    name = names.full(call.func)
    if _GIVES_A_SECOND_ONE.fullmatch(name):
        return call.args[:1]
    if any(k.arg == "create_graph" and _is_true(k.value) for k in call.keywords):
        return functions[-1:]
    if not _GIVES_A_DERIVATIVE.fullmatch(name):
        return []
    bodies = [*call.args[:1], *names.bodies(call.args[:1])]
    inner = [n for b in bodies for n in ast.walk(b) if isinstance(n, ast.Call) and n is not call]
    return [
        a for n in inner if _GIVES_A_DERIVATIVE.fullmatch(names.full(n.func)) for a in n.args[:1]
    ]


def _by_tapes(outer: ast.With, names: Names) -> Sequence[ast.AST]:
    """What is recorded on an inner tape of which an outer one records the gradient."""
    if not _is_tape(outer, names):
        return []
    inside = [node for statement in outer.body for node in ast.walk(statement)]
    inner = [node for node in inside if isinstance(node, ast.With) and _is_tape(node, names)]
    asked = {_tape_asked(node) for node in inside}
    return [statement for tape in inner if _tape_name(tape) in asked for statement in tape.body]


def _is_tape(node: ast.With, names: Names) -> bool:
    calls = (i.context_expr for i in node.items if isinstance(i.context_expr, ast.Call))
    return any(_TAPE.fullmatch(names.full(call.func)) for call in calls)


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


def _with_functions(
    node: ast.AST, around: tuple[Function, ...]
) -> Iterator[tuple[tuple[Function, ...], ast.AST]]:
    """Each node below this one, with the functions that it stands in, the innermost last."""
    for child in ast.iter_child_nodes(node):
        yield around, child
        inner = (*around, child) if isinstance(child, Function) else around
        yield from _with_functions(child, inner)


def _parameters(functions: Iterable[Function]) -> set[str]:
    """The names of all their parameters, which nobody knows what they stand for."""
    return {
        node.arg for each in functions for node in ast.walk(each.args) if isinstance(node, ast.arg)
    }


def _names_of(tree: ast.Module, own: Definitions, home: Path, here: Path) -> Names:
    """The names of a file that imports from the home file."""
    imported: dict[str, str] = {}
    modules: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {a.asname or a.name for a in node.names if is_module(home, here, a.name, 0)}
        elif isinstance(node, ast.ImportFrom):
            module, level = node.module or "", node.level
            if is_module(home, here, module, level):
                imported |= {a.asname or a.name: a.name for a in node.names}
            else:
                inner = {a.asname or a.name: f"{module}.{a.name}".strip(".") for a in node.names}
                modules |= {n for n, full in inner.items() if is_module(home, here, full, level)}
    return Names(_definitions(tree), own, imported, frozenset(modules), _libraries(tree))


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


def _bodies(names: Iterable[str], known: Definitions) -> list[ast.AST]:
    return [body for name in sorted(names) for body in known.get(name, ())]


def _read(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that are read in these, but parameters of functions that stand in them."""
    found: set[str] = set()
    for each in nodes:
        inside = [node for node in ast.walk(each) if isinstance(node, Function)]
        names = {node.id for node in ast.walk(each) if isinstance(node, ast.Name)}
        found |= names - _parameters(inside)
    return found
