"""The choices in a text: `if`, `else`, and `a if c else b`, each with the names that its question rests on."""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_Place = tuple[int, int]  # line and column
# Arms that refuse what nobody means; nothing is differentiated there.
_REFUSES = (ast.Raise, ast.Assert, ast.Pass)
_OTHERWISE = re.compile(
    r"dtype|device|cuda|float(16|64)|half|x64|backend|requires_grad|needs_input_grad|training"
)
_SHAPES = frozenset({"shape", "ndim"})
_HOLDS = re.compile(r"(['\"])\w+\1 (?:not )?in |\blen\(|\.dim\(\)")  # `'bias' in params`


@dataclass(frozen=True, slots=True)
class Span:
    """From one place of a text to another."""

    start: _Place
    end: _Place

    @classmethod
    def of(cls, position: tuple[int | None, int | None, int | None, int | None]) -> Span | None:
        """The span of an instruction, where its code says it."""
        line, end_line, column, end_column = position
        if line is None or end_line is None or column is None or end_column is None:
            return None
        return cls((line, column), (end_line, end_column))

    @classmethod
    def around(cls, first: ast.AST, last: ast.AST) -> Span:
        """From the beginning of one node to the end of another."""
        start, end = _span(first), _span(last)
        return cls(start.start, end.end)

    def within(self, other: Span) -> bool:
        return other.start <= self.start and self.end <= other.end


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to go after a question; without a `body`, past the `other` way and so out of the whole choice."""

    path: str
    whole: Span
    test: Span
    body: Span | None
    other: Span
    names: frozenset[str]  # what the question rests on
    named: frozenset[str]  # what its own words name: variables, fields, keys
    words: str

    @property
    def line(self) -> int:
        return self.test.start[0]

    @property
    def asks_for_shapes(self) -> bool:
        """Is it about how an array or a tree is made, and not about its numbers?"""
        return bool(self.names & _SHAPES) or _HOLDS.search(self.words) is not None

    @property
    def opens_otherwise(self) -> bool:
        """Is it another dtype, device or mode of a framework that opens it, and no argument?"""
        return _OTHERWISE.search(self.words) is not None

    def taken(self, before: Span | None, here: Span) -> bool:
        """Does the step from one instruction to the next lead into it?"""
        if self.body is not None:
            return here.within(self.body)
        if before is None or not before.within(self.whole) or before.within(self.other):
            return False
        return not here.within(self.whole)


@functools.lru_cache(maxsize=8)
def arms(path: str) -> tuple[Arm, ...]:
    """All arms in a file of Python, in the order of their lines; none that only refuses."""
    nodes = {id(node): node for function in _functions(path) for node in ast.walk(function)}
    made_of = _made_of(nodes.values())
    last = {id(node) for parent in nodes.values() for node in _before_a_refusal(parent)}
    found = [arm for i, n in nodes.items() for arm in _arms(path, n, made_of, refused=i in last)]
    return tuple(sorted(found, key=lambda arm: (arm.test.start, arm.body is None)))


def names_behind(path: str, line: int) -> frozenset[str]:
    """All names that the function which begins at a line rests on, by the assignments of its file and what it calls there."""
    functions = _functions(path)
    made_of = _made_of(node for function in functions for node in ast.walk(function))
    for function in functions:
        if isinstance(function, ast.FunctionDef):
            a = function.args
            own = {each.arg for each in (*a.posonlyargs, *a.args, *a.kwonlyargs)}
            made_of.setdefault(function.name, set()).update(set(_names(function)) - own)
    here = [function for function in functions if line in _first_lines(function)]
    return frozenset(name for function in here for name in _sources(function, made_of))


@functools.lru_cache(maxsize=8)
def _functions(path: str) -> tuple[ast.FunctionDef | ast.Lambda, ...]:
    try:
        tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return ()
    return tuple(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.Lambda))


def _first_lines(function: ast.FunctionDef | ast.Lambda) -> range:
    """The lines of its decorators and its own first one."""
    decorators = [d.lineno for d in getattr(function, "decorator_list", [])]
    return range(min([function.lineno, *decorators]), function.lineno + 1)


def _before_a_refusal(parent: ast.AST) -> Iterator[ast.stmt]:
    """The statements right before one that only refuses: past the last `if` of these nobody comes who is meant to."""
    for block in (getattr(parent, "body", None), getattr(parent, "orelse", None)):
        if isinstance(block, list):
            pairs = itertools.pairwise(block)
            yield from (first for first, second in pairs if isinstance(second, _REFUSES[:2]))


def _arms(
    path: str, node: ast.AST, made_of: Mapping[str, set[str]], *, refused: bool
) -> Iterator[Arm]:
    body: Sequence[ast.AST]
    orelse: Sequence[ast.AST]
    if isinstance(node, ast.If):
        body, orelse = node.body, node.orelse
    elif isinstance(node, ast.IfExp):
        body, orelse = [node.body], [node.orelse]
    else:
        return
    whole, test, names = _span(node), _span(node.test), frozenset(_sources(node.test, made_of))
    named = frozenset(_named(node.test))
    there = Span.around(body[0], body[-1])
    text = ast.unparse(node.test)
    if not _refuses(body):
        yield Arm(path, whole, test, there, there, names, named, f"`{text}` holds")
    if orelse and not _refuses(orelse):
        elsewhere = Span.around(orelse[0], orelse[-1])
        yield Arm(path, whole, test, elsewhere, there, names, named, f"`{text}` does not hold")
    if not orelse and not _refuses(body) and not refused:
        yield Arm(path, whole, test, None, there, names, named, f"`{text}` does not hold")


def _refuses(body: Sequence[ast.AST]) -> bool:
    return isinstance(body[-1], _REFUSES)


def _span(node: ast.AST) -> Span:
    assert isinstance(node, ast.expr | ast.stmt)
    end = node.end_lineno or node.lineno, node.end_col_offset or 0
    return Span((node.lineno, node.col_offset), end)


def _made_of(nodes: Iterable[ast.AST]) -> dict[str, set[str]]:
    """The names that each assigned name is made of; a field goes by its last name: `ctx.stride` by `stride`.

    What a function of the file is called with, its parameters are made of.
    """
    nodes = list(nodes)
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    parameters = {f.name: [a.arg for a in (*f.args.posonlyargs, *f.args.args)] for f in functions}
    found: dict[str, set[str]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for name in (n for target in targets for n in _names(target)):
                found.setdefault(name, set()).update(_names(node.value))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            for name, value in zip(parameters.get(node.func.id, ()), node.args, strict=False):
                found.setdefault(name, set()).update(_names(value))
    return found


def _sources(test: ast.AST, made_of: Mapping[str, set[str]]) -> set[str]:
    """All names that a question rests on, by the assignments of its file."""
    found: set[str] = set()
    waiting = set(_names(test))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting |= made_of.get(name, set())
    return found


def _named(test: ast.AST) -> Iterator[str]:
    """What the words of a question name, with keys in quotes."""
    yield from _names(test)
    constants = (part.value for part in ast.walk(test) if isinstance(part, ast.Constant))
    yield from (value for value in constants if isinstance(value, str))


def _names(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr
