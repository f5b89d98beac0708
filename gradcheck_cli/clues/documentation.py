"""Texts about a function: its docstring, those of the class, factory and module around it, comments beside it."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import linecache
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradcheck_cli.clues import comments

# The head of what a factory gives back, where that is a function: its text speaks of its arguments.
_GIVES_A_FUNCTION = re.compile(
    r"^\s*:?returns?\s*:?\s*(?:\n\s*-{3,}\s*)?(?=\n?[^\n]*(?:\b(?:function|callable)\b|`\w+\([\w, *=]*\)`))",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of prose. A `near` one is about this function; others speak of more than it."""

    source: str  # as a report names it
    text: str
    near: bool
    hidden: frozenset[str] = frozenset()  # names that mean something else there
    renamed: Mapping[str, str] | None = None  # what it calls the parameters, if not as the function


# Where a text refers to another one: `same arguments as CRFLogPartition`, `shapes as in attention`.
_REFERS = re.compile(
    r"\bsame (?:arguments?|args|inputs|parameters|shapes|signature)(?: and \w+)? (?:as|of)\s+(?:in |for |those of )?"
    r"|\b(?:arguments?|args|inputs|parameters|shapes)(?: are)? (?:the same )?as (?:in|for|of|those of)\s+",
    re.IGNORECASE,
)
_REGISTERS, _TAKES = "RegisterGradient", "gradient_override_map"
_REFERENCE = re.compile(r"[`:~(]*(?:\w+:`)?(?P<name>[A-Za-z_][\w.]*)")


def texts_about(function: Callable[..., Any]) -> list[Text]:
    """The nearest first; what a near one refers to is near, too."""
    inner = plain_function(function)
    own = Text("the docstring", _docstring(inner), near=True)
    texts = [text for text in (own, *_surroundings(inner)) if text.text.strip()]
    near = [text for text in texts if text.near]
    referred = [other for text in near for other in _referred(text, module_of(inner))]
    return [*near, *referred, *(text for text in texts if not text.near)]


def _referred(text: Text, tree: ast.Module | None) -> Iterator[Text]:
    """The docstrings of definitions in the file whose arguments a text says are the same."""
    names = {
        name["name"].rstrip(".").rpartition(".")[2]
        for match in _REFERS.finditer(text.text)
        if (name := _REFERENCE.match(text.text, match.end())) is not None
    }
    for scope in ast.walk(tree) if tree is not None and names else ():
        if isinstance(scope, comments.SCOPES) and scope.name in names:
            doc = ast.get_docstring(scope) or ""
            yield Text(f"the docstring of `{scope.name}`", doc, near=True, hidden=text.hidden)


def plain_function(function: Callable[..., Any]) -> Any:
    """The function itself, below partials, wrappers and bound methods."""
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    inner = inspect.unwrap(inner)
    return getattr(inner, "__func__", inner)


def _docstring(function: Any) -> str:
    doc = getattr(function, "__doc__", None)
    return inspect.cleandoc(doc) if isinstance(doc, str) else ""


def _surroundings(function: Any) -> Iterator[Text]:
    code, tree = getattr(function, "__code__", None), module_of(function)
    if code is None or tree is None:
        return
    lines = linecache.getlines(code.co_filename)
    scopes = _around(tree, code.co_firstlineno)
    if scopes and isinstance(scopes[-1], (ast.FunctionDef, ast.AsyncFunctionDef)):
        yield Text("a comment", comments.of_function(scopes[-1], lines), near=True)
        yield from _of_users(tree, scopes[-1])
    for scope in reversed(scopes[:-1]):
        doc = ast.get_docstring(scope) or ""
        if isinstance(scope, ast.ClassDef):
            yield Text(f"the docstring of `{scope.name}`", doc, near=True)
            yield Text(f"a comment in `{scope.name}`", comments.of_class(scope, lines), near=True)
        else:
            hidden = frozenset(a.arg for a in comments.arguments_of(scope)).intersection(
                own_parameters(function)
            )
            made = _GIVES_A_FUNCTION.sub("\n", doc)
            yield Text(f"the docstring of `{scope.name}`", made, near=True, hidden=hidden)
    if len(scopes) > 1:
        yield from _of_what_is_made(tree, scopes[0].name, lines)
    if _takes_fields(tree, function):
        yield from _of_classes_alike(tree, own_parameters(function), lines)
    yield Text("the module's docstring", ast.get_docstring(tree) or "", near=False)
    yield Text("a comment of the module", comments.conventions(tree, lines), near=True)


def own_parameters(function: Any) -> tuple[str, ...]:
    """The names of a function's own parameters, by its code: a signature may have been given others."""
    code = getattr(function, "__code__", None)
    return () if code is None else code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def factories_around(function: Any) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions in whose bodies a function is defined, the innermost first."""
    code, tree = getattr(function, "__code__", None), module_of(function)
    scopes = [] if code is None or tree is None else _around(tree, code.co_firstlineno)
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [scope for scope in reversed(scopes[:-1]) if isinstance(scope, kinds)]


def classes_around(function: Any) -> list[ast.ClassDef]:
    """The classes in which a function is defined, or in a method of which, the innermost first."""
    code, tree = getattr(function, "__code__", None), module_of(function)
    scopes = [] if code is None or tree is None else _around(tree, code.co_firstlineno)
    return [scope for scope in reversed(scopes) if isinstance(scope, ast.ClassDef)]


def _of_what_is_made(tree: ast.Module, factory: str, lines: Sequence[str]) -> Iterator[Text]:
    """The comments above what the module has a factory make, and the string below it."""
    for node, after in itertools.zip_longest(tree.body, tree.body[1:]):
        if isinstance(node, ast.Assign) and _calls(node.value, factory):
            name = ast.unparse(node.targets[0])
            yield Text(
                f"a comment above `{name}`",
                "\n".join(comments.above_line(node.lineno, lines)),
                near=True,
            )
            below = after.value if isinstance(after, ast.Expr) else None
            if isinstance(below, ast.Constant) and isinstance(below.value, str):
                yield Text(f"the docstring of `{name}`", inspect.cleandoc(below.value), near=True)


def _takes_fields(tree: ast.Module, function: Any) -> bool:
    """Does the module hand it the fields of something: `asc_cdl(frames, *look)`, `f(look.slope, look.power)`?"""
    owner, _, name = getattr(function, "__qualname__", "").rpartition(".")
    spellings, own = (name, f"{owner.rpartition('.')[2]}.apply"), own_parameters(function)
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if ast.unparse(call.func) in spellings:
            fields = [a for a in call.args if isinstance(a, ast.Attribute) and a.attr in own]
            if len(fields) > 1 or any(isinstance(a, ast.Starred) for a in call.args):
                return True
    return False


def _of_classes_alike(
    tree: ast.Module, names: Sequence[str], lines: Sequence[str]
) -> Iterator[Text]:
    """What the classes of a module say of fields that are called as several parameters: `asc_cdl(frames, *look)`."""
    for scope in tree.body:
        if isinstance(scope, ast.ClassDef):
            fields = {ast.unparse(n.target) for n in scope.body if isinstance(n, ast.AnnAssign)}
            if len(fields.intersection(names)) > 1:
                doc = ast.get_docstring(scope) or ""
                said = "\n".join([doc, "", comments.of_fields(scope, lines)])
                yield Text(f"the fields of `{scope.name}`", said, near=False)


def _of_users(tree: ast.Module, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Text]:
    """The docstrings of the functions that take a registered gradient by its name."""
    names = [
        call.args[0].value
        for call in function.decorator_list
        if isinstance(call, ast.Call) and _ends_in(call.func, _REGISTERS)
        if call.args and isinstance(call.args[0], ast.Constant)
    ]
    for node in ast.walk(tree) if names else ():
        if isinstance(node, ast.FunctionDef) and _takes(node, names):
            doc = ast.get_docstring(node) or ""
            yield Text(f"the docstring of `{node.name}`", doc, near=True)


def _takes(function: ast.FunctionDef, names: Sequence[object]) -> bool:
    """Does it put one of these names in the place of an operation's own gradient?"""
    maps = (n for n in ast.walk(function) if isinstance(n, ast.Call) and _ends_in(n.func, _TAKES))
    words = (n.value for call in maps for n in ast.walk(call) if isinstance(n, ast.Constant))
    return any(word in names for word in words)


def _ends_in(function: ast.expr, name: str) -> bool:
    return getattr(function, "attr", getattr(function, "id", "")) == name


def _calls(node: ast.expr, name: str) -> bool:
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(called, ast.Name) and called.id == name


def text_of_class(cls: type) -> Text:
    """What a class says of its fields: its docstring, and the comments beside them as entries."""
    source = f"the class `{cls.__name__}`"
    try:
        lines, _ = inspect.getsourcelines(cls)
    except (OSError, TypeError):
        return Text(source, "", near=True)
    tree = _parsed(textwrap.dedent("".join(lines)))
    scope = tree.body[0] if tree is not None and tree.body else None
    if not isinstance(scope, ast.ClassDef):
        return Text(source, "", near=True)
    said = "\n".join([ast.get_docstring(scope) or "", "", comments.of_fields(scope, lines)])
    return Text(source, said, near=True)


def module_of(function: Any) -> ast.Module | None:
    """The syntax tree of the file that a function is defined in; None where it has no source."""
    code = getattr(function, "__code__", None)
    return None if code is None else _parsed("".join(linecache.getlines(code.co_filename)))


@functools.lru_cache(maxsize=4)
def _parsed(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):
        return None


def _around(tree: ast.Module, line: int) -> list[comments.Scope]:
    """Classes and functions around a line, the outermost first."""
    scopes: list[comments.Scope] = []
    body: Sequence[ast.AST] = tree.body
    while True:
        inner = next((n for part in body for n in _scopes_in(part) if comments.first_line(n) <= line <= (n.end_lineno or 0)), None)  # fmt: skip
        if inner is None:
            return scopes
        scopes.append(inner)
        body = inner.body


def _scopes_in(node: ast.AST) -> Iterator[comments.Scope]:
    """Definitions in a statement, also below `if` and `try`, but not inside of each other."""
    if isinstance(node, comments.SCOPES):
        yield node
        return
    for child in ast.iter_child_nodes(node):
        yield from _scopes_in(child)
