"""Wrappers: functions and layers that hand their own parameters on, and whose docstrings and comments describe them."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gradcheck_cli.clues import comments
from gradcheck_cli.clues.documentation import Text, module_of, plain_function

_Function = ast.FunctionDef | ast.AsyncFunctionDef
# An argument is still what it was after these.
_CONVERSIONS = (
    "asarray", "array", "ascontiguousarray", "convert_to_tensor", "contiguous", "float", "double", "astype", "to", "clone", "detach", "as_tensor",
)  # fmt: skip


def texts_of_wrappers(function: Callable[..., Any], names: Sequence[str]) -> list[Text]:
    """Docstrings of functions that call this one with parameters of their own, and of their classes; comments beside these."""
    inner = plain_function(function)
    tree, qualname = module_of(inner), getattr(inner, "__qualname__", "")
    if tree is None or "<locals>" in qualname:
        return []
    lines = linecache.getlines(inner.__code__.co_filename)
    spoken, taken = _spellings(tree, qualname), _taken(inner, names)
    texts: list[Text] = []
    for wrapper, owner in _functions(tree):
        if wrapper.name in spoken or (owner is not None and f"{owner.name}.apply" in spoken):
            continue
        inside = owner is not None and qualname.startswith(f"{owner.name}.")
        here = spoken if inside else {s for s in spoken if not s.startswith("self.")}
        scopes = [wrapper] if owner is None else [wrapper, owner]
        said = [(f"the docstring of `{s.name}`", ast.get_docstring(s) or "") for s in scopes]
        said.append((f"a comment in `{wrapper.name}`", comments.of_function(wrapper, lines)))
        said = [(source, text) for source, text in said if text.strip()]
        renamed = _handed_on(wrapper, here, taken) if said else {}
        if renamed:
            texts += [Text(source, text, near=True, renamed=renamed) for source, text in said]
    return texts


def _spellings(tree: ast.Module, qualname: str) -> set[str]:
    """How the module calls the function: by its name, `Class.apply`, `self.name`, or what these were assigned to."""
    owner, _, name = qualname.rpartition(".")
    spellings = {f"self.{name}", *([f"{owner}.apply"] if name == "forward" else [])}
    spellings = spellings if owner else {name}
    for node in tree.body:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        value = node.value
        inner = [value, *value.args] if isinstance(value, ast.Call) else [value]
        if any(_spelled(part) in spellings for part in inner):
            spellings.add(node.targets[0].id)
    return spellings


def _taken(function: Any, names: Sequence[str]) -> list[str]:
    """The parameters as the function takes them: settings of its object, which are among them, are in no call."""
    code = getattr(function, "__code__", None)
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code else ()
    return [name for name in names if name in own] or list(names)


def _spelled(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


def _functions(tree: ast.Module) -> Iterator[tuple[_Function, ast.ClassDef | None]]:
    """Functions of the module and methods of its classes, these with their class."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node, None
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    yield part, node


def _handed_on(wrapper: _Function, spellings: set[str], names: Sequence[str]) -> dict[str, str]:
    """For each of our parameters what the wrapper calls it; nothing if it calls us in several ways."""
    calls = [n for n in ast.walk(wrapper) if isinstance(n, ast.Call) and _spelled(n.func) in spellings]  # fmt: skip
    if not calls:
        return {}
    a = wrapper.args
    arguments = [argument.arg for argument in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
    own = set(arguments) - _changed(wrapper)
    first = arguments[0] if arguments else ""
    renamings = []
    for call in calls:
        given: dict[str, ast.expr] = dict(zip(names, call.args, strict=False))
        given |= {k.arg: k.value for k in call.keywords if k.arg is not None and k.arg in names}
        renamings.append({ours: there for ours, value in given.items() if (there := _parameter(value, own, first))})  # fmt: skip
    return renamings[0] if all(r == renamings[0] for r in renamings) else {}


def _parameter(value: ast.expr, own: set[str], first: str) -> str:
    """The parameter of the wrapper, or the attribute of its object, that an argument is, converted or not."""
    while (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr in _CONVERSIONS
    ):
        method = isinstance(value.func.value, ast.Call) or _spelled(value.func.value) in own
        if not method and not value.args:
            break
        value = value.func.value if method else value.args[0]
    if isinstance(value, ast.Name):
        return value.id if value.id in own else ""
    spelled = _spelled(value)
    return spelled.removeprefix("self.") if first == "self" and spelled.startswith("self.") else ""


def _changed(wrapper: _Function) -> set[str]:
    """Names that the body gives another value, but for conversions of what they were, and for what is left out."""
    changed: set[str] = set()
    filled = {id(node) for branch in ast.walk(wrapper) for node in _filled_in(branch)}
    for node in (n for n in ast.walk(wrapper) if id(n) not in filled):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and _is_conversion(node):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        changed |= {n.id for t in targets if t is not None for n in ast.walk(t) if isinstance(n, ast.Name)}  # fmt: skip
    return changed


def _filled_in(node: ast.AST) -> Iterator[ast.Assign]:
    """What gives a parameter a value only where it has none: `if x is None: x = …`, `x = … if x is None else x`."""
    match node:
        case ast.If(test=ast.Compare(left=ast.Name(id=name), ops=[ast.Is()]), body=body):
            yield from (n for n in body if isinstance(n, ast.Assign) and _names(n) == [name])
        case ast.Assign(
            value=ast.IfExp(test=ast.Compare(left=ast.Name(id=name)), orelse=ast.Name(id=other))
        ):
            yield from [node] if _names(node) == [name] == [other] else []


def _names(assignment: ast.Assign) -> list[str]:
    return [_spelled(target) for target in assignment.targets]


def _is_conversion(node: ast.Assign) -> bool:
    """`x = jnp.asarray(x)`, `x = x.contiguous()`."""
    target, value = node.targets[0], node.value
    if not isinstance(target, ast.Name) or not isinstance(value, ast.Call):
        return False
    function = value.func
    if not isinstance(function, ast.Attribute) or function.attr not in _CONVERSIONS:
        return False
    sources = [function.value, *value.args[:1]]
    return any(isinstance(s, ast.Name) and s.id == target.id for s in sources)
