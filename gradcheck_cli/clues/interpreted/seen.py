"""Calls that a file and those that use it make of what the file defines."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gradcheck_cli.clues.interpreted import project
from gradcheck_cli.clues.interpreted.calling import invoke
from gradcheck_cli.clues.interpreted.expressions import elements, evaluate
from gradcheck_cli.clues.interpreted.run import (
    HOME_STEPS,
    OTHER_STEPS,
    MadeDictionary,
    Run,
    SeenCall,
    library_name,
)
from gradcheck_cli.clues.interpreted.statements import execute
from gradcheck_cli.clues.interpreted.told import arrays_told, unfilled
from gradcheck_cli.clues.interpreted.values import (
    UNKNOWN,
    Bound,
    Class,
    Definition,
    Instance,
    Module,
    Scope,
    Value,
)
from gradcheck_cli.project.users import users

_MOST_CASES = 3


def seen_calls(path: Path, root: Path) -> tuple[SeenCall, ...]:
    """All calls that can be read, in the file itself and in other files of the project."""
    return _seen(path, root).calls


def made_dictionaries(path: Path, root: Path) -> tuple[MadeDictionary, ...]:
    """The dictionaries that functions of the file give back."""
    return _seen(path, root).made


@dataclass(frozen=True, slots=True)
class _Seen:
    calls: tuple[SeenCall, ...] = ()
    made: tuple[MadeDictionary, ...] = ()


def _seen(path: Path, root: Path) -> _Seen:
    try:
        changed = path.stat().st_mtime_ns
    except OSError:
        return _Seen()
    return _seen_then(path, root, changed)


@functools.lru_cache(maxsize=4)
def _seen_then(path: Path, root: Path, changed: int) -> _Seen:
    """One file at one time: many gradients ask for it."""
    tree = project.parsed(path)
    if tree is None:
        return _Seen()
    home = Scope(Module(path, is_home=True))
    run = Run(invoke, lambda module, level, name: library_name(module, name), HOME_STEPS)
    _interpret(tree, home, run)
    elsewhere = tuple(_calls_elsewhere(home, path, root))
    return _Seen((*run.calls, *elsewhere), tuple(run.made))


def _calls_elsewhere(home: Scope, path: Path, root: Path) -> Iterator[SeenCall]:
    names = {n for n, v in home.names.items() if not n.startswith("__")}
    left = OTHER_STEPS
    for other in users(path, root, names):
        text = project.parsed(other)
        if text is not None:
            elsewhere = Run(invoke, _Importer(home, other), left)
            _interpret(text, Scope(Module(other, is_home=False)), elsewhere)
            left -= elsewhere.steps
            yield from elsewhere.calls
        if left <= 0:
            return


class _Importer:
    """What imports in one file bind: names of the home file, or a library's."""

    def __init__(self, home: Scope, here: Path) -> None:
        self.home, self.here = home, here

    def __call__(self, module: str, level: int, name: str | None) -> Value:
        path, here = self.home.module.path, self.here
        if project.is_module(path, here, module, level):
            return self.home if name is None else self.home.names.get(name, UNKNOWN)
        if name is None:
            return library_name(module, None)
        inner = f"{module}.{name}" if module else name
        if project.is_module(path, here, inner, level):
            return self.home
        if project.is_package(path, here, module, level):
            return self.home.names.get(name, UNKNOWN)
        return UNKNOWN if level else library_name(module, name)


def _interpret(tree: ast.Module, scope: Scope, run: Run) -> None:
    """The module from its first line to its last, then each function that was not called from there."""
    try:
        execute(tree.body, scope, run)
        for value in list(scope.names.values()):
            if isinstance(value, Definition) and value.scope.module is scope.module:
                _function(value, scope, run)
            elif isinstance(value, Class):
                _class(value, scope, run)
    except RecursionError:  # an expression too deep to be anybody's array
        return


def _function(function: Definition, scope: Scope, run: Run) -> None:
    """A function that nobody calls, with its cases if it is a test, or with names for what it is given."""
    if function.node in run.entered or "fixture" in function.traits:
        return
    for case in _cases(function, scope, run) or [{}]:
        told = arrays_told(function)
        names = function.parameters
        filled = {n: _filled(n, function, {**told, **case}, scope, run) for n in names}
        invoke(run, function, [], filled)


def _filled(
    name: str, function: Definition, case: Mapping[str, Value], scope: Scope, run: Run
) -> Value:
    """What a parameter of a function that nobody calls may hold."""
    if name in case:
        return case[name]
    fixture = scope.names.get(name)
    if isinstance(fixture, Definition) and "fixture" in fixture.traits:
        return invoke(run, fixture, [], {})
    return function.defaults[name] if name in function.defaults else unfilled(function, name)


def _class(cls: Class, scope: Scope, run: Run) -> None:
    """Each method of a class that nobody called, on an object of it."""
    methods = [m for m in cls.members.values() if isinstance(m, Definition)]
    own = [m for m in methods if m.scope.module is scope.module and not _is_special(m)]
    waiting = [m for m in own if m.node not in run.entered]
    if not waiting:
        return
    start = cls.member("__init__")
    needed = start.parameters[1:] if isinstance(start, Definition) else []
    defaults = start.defaults if isinstance(start, Definition) else {}
    given = {
        n: defaults[n] if n in defaults else unfilled(start, n, plain=True)
        for n in needed
        if isinstance(start, Definition)
    }
    made = invoke(run, cls, [], given)
    set_up = cls.member("setUp")
    if isinstance(set_up, Definition):
        invoke(run, Bound(set_up, made), [], {})
    for method in waiting:
        if not isinstance(made, Instance) or "static" in method.traits:
            continue
        for case in _cases(method, scope, run) or [{}]:
            told, names = arrays_told(method), method.parameters[1:]
            filled = {n: _filled(n, method, {**told, **case}, scope, run) for n in names}
            invoke(run, Bound(method, made), [], filled)


def _is_special(method: Definition) -> bool:
    """Does Python call the method for something else than a call of the object?"""
    name = method.qualname.rpartition(".")[2]
    return (name.startswith("__") and name != "__call__") or "property" in method.traits


def _cases(function: Definition, scope: Scope, run: Run) -> list[dict[str, Value]]:
    """The first cases of `pytest.mark.parametrize`."""
    cases: list[dict[str, Value]] = []
    for decorator in getattr(function.node, "decorator_list", []):
        is_call = isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Attribute)
        if not is_call or decorator.func.attr != "parametrize" or len(decorator.args) < 2:
            continue
        names = evaluate(decorator.args[0], scope, run)
        rows = elements(evaluate(decorator.args[1], scope, run)) or []
        words = [n.strip() for n in names.split(",")] if isinstance(names, str) else elements(names)
        if words and rows:
            cases = _joined(cases, [_case(words, row) for row in rows[:_MOST_CASES]])
    return cases


def _case(words: list[Value] | list[str], row: Value) -> dict[str, Value]:
    fits = isinstance(row, (tuple, list)) and len(row) == len(words)
    values = list(row) if len(words) > 1 and fits and isinstance(row, (tuple, list)) else [row if len(words) == 1 else UNKNOWN] * len(words)  # fmt: skip
    return dict(zip((str(w) for w in words), values, strict=True))


def _joined(cases: list[dict[str, Value]], more: list[dict[str, Value]]) -> list[dict[str, Value]]:
    """Cases of two decorators side by side."""
    if not cases:
        return more
    count = max(len(cases), len(more))
    return [{**cases[i % len(cases)], **more[i % len(more)]} for i in range(count)]
