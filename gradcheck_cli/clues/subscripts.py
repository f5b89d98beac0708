"""What a function reads of an argument: by `params["w"]`, `params` has the key `w`; by `cfg.scale`, `cfg` has that attribute."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from gradcheck_cli.clues.source_text.tree import LIBRARIES, surroundings_of, text_of
from gradcheck_cli.clues.source_text.written_out import written_out

_MOST_HELPERS = 3  # one inside the other
_KEEPERS = ("ctx", "self")  # as in `ctx.cfg.scale`
_ARRAYS = (("torch", "Tensor"), ("jax", "Array"), ("tensorflow", "Tensor"))

T = TypeVar("T")


def keys_read(function: Callable[..., Any], depth: int = _MOST_HELPERS) -> dict[str, list[str]]:
    """For each parameter, the constant string keys that the body subscripts it with.

    What a helper of the module or a method of its class reads of what it is handed counts, too.
    """
    keys_of: dict[str, list[str]] = {}
    for node in _nodes(function):
        if isinstance(node, ast.Call) and depth:
            for name, read in _keys_of_helper(node, function, depth - 1).items():
                keys = keys_of.setdefault(name, [])
                keys += [key for key in read if key not in keys]
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Name)
            and isinstance(node.slice, ast.Constant)
            and isinstance(node.slice.value, str)
        ):
            keys = keys_of.setdefault(node.value.id, [])
            if node.slice.value not in keys:
                keys.append(node.slice.value)
    for rows, row in _scanned(function).items():
        keys_of.setdefault(rows, keys_of.get(row, []))
    return {name: keys for name, keys in keys_of.items() if keys}


def _scanned(function: Callable[..., Any]) -> dict[str, str]:
    """What a scan goes along, by name, with the name of each row in the inner function that it calls."""
    nodes = list(_nodes(function))
    steps = {n.name: n.args.args for n in nodes if isinstance(n, ast.FunctionDef)}
    found: dict[str, str] = {}
    for node in nodes:
        match node:
            case ast.Call(
                func=ast.Name(id="scan") | ast.Attribute(attr="scan"),
                args=[ast.Name(id=step), _, ast.Name(id=rows), *_],
            ) if len(steps.get(step, [])) == 2:
                found[rows] = steps[step][1].arg
    return found


def _keys_of_helper(
    call: ast.Call, function: Callable[..., Any], depth: int
) -> dict[str, list[str]]:
    """The keys that a helper reads of the names that this call hands to it."""
    called, is_method = _called(call, function)
    if called is None:
        return {}
    return _handed_on(call, called, keys_read(called, depth), is_method=is_method)


def _handed_on(
    call: ast.Call, called: Callable[..., Any], read: Mapping[str, T], *, is_method: bool
) -> dict[str, T]:
    """What a helper reads of its parameters, by the names that the call hands to it."""
    code = called.__code__
    own = code.co_varnames[is_method : code.co_argcount]
    given = [*zip(call.args, own, strict=False), *((k.value, k.arg or "") for k in call.keywords)]
    return {a.id: read[p] for a, p in given if isinstance(a, ast.Name) and p in read}


def _called(call: ast.Call, function: Callable[..., Any]) -> tuple[Callable[..., Any] | None, bool]:
    """The module's own function that is called, and whether it is a method that is not handed its object: one of the class that the caller stands in, or one of a class by name."""
    inner = inspect.unwrap(function)
    scope = getattr(inner, "__globals__", {})
    match call.func:
        case ast.Name(id=name):
            called, is_method = {**scope, **_around(function)}.get(name), False
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            cls = scope.get(inner.__qualname__.partition(".")[0])
            called, is_method = getattr(cls, name, None), True
        case ast.Attribute(value=ast.Name(id=owner), attr=name) if isinstance(
            scope.get(owner), type
        ):
            held = inspect.getattr_static(scope[owner], name, None)
            called, is_method = getattr(held, "__func__", held), isinstance(held, classmethod)
        case _:
            return None, False
    own = inspect.isfunction(called) and called.__globals__ is scope
    return (called, is_method) if own else (None, False)


def unpacked(functions: Sequence[Callable[..., Any]]) -> dict[str, list[str]]:
    """For each name that a body unpacks (`a, b = pair`, `helper(x, *pair)`), the names of its parts: the first's, if several do.

    What a helper of the module unpacks counts, too.
    """
    return _unpacked(functions, _MOST_HELPERS)


def _unpacked(functions: Sequence[Callable[..., Any]], depth: int) -> dict[str, list[str]]:
    parts: dict[str, list[str]] = {}
    for function, node in ((f, node) for f in functions for node in _nodes(f)):
        if isinstance(node, ast.Call):
            parts = {**_spread_in(node, function), **_handed(node, function, depth), **parts}
        whole = _whole(node.value) if isinstance(node, ast.Assign) else ""
        for target in node.targets if isinstance(node, ast.Assign) and whole else ():
            if isinstance(target, ast.Tuple):
                parts.setdefault(whole, [ast.unparse(part) for part in target.elts])
    return parts


def _whole(value: ast.expr) -> str:
    """The name of what is unpacked, as it is or each part by itself: `pair`, `(asarray(p) for p in pair)`."""
    match value:
        case ast.Name(id=name):
            return name
        case ast.GeneratorExp(generators=[each]) | ast.ListComp(generators=[each]):
            return each.iter.id if isinstance(each.iter, ast.Name) and not each.ifs else ""
        case ast.Call(func=ast.Name(id="map"), args=[_, ast.Name(id=name)]):
            return name
    return ""


def _handed(call: ast.Call, function: Callable[..., Any], depth: int) -> dict[str, list[str]]:
    """What a function of the module, or of the factory around, unpacks of the names that a call hands to it."""
    called, is_method = _called(call, function) if depth else (None, False)
    if called is None:
        return {}
    inner = _unpacked([called], depth - 1)
    given = zip(call.args, called.__code__.co_varnames[is_method:], strict=False)
    return {a.id: inner[p] for a, p in given if isinstance(a, ast.Name) and p in inner}


def _around(function: Callable[..., Any]) -> dict[str, Any]:
    """What the function takes from the functions around it, by name."""
    inner = inspect.unwrap(function)
    cells = getattr(inner, "__closure__", None) or ()
    names = inner.__code__.co_freevars if cells else ()
    held = zip(names, cells, strict=True)
    return {name: cell.cell_contents for name, cell in held if _is_filled(cell)}


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # nothing is bound to the name as yet
        return False


def _spread_in(call: ast.Call, function: Callable[..., Any]) -> dict[str, list[str]]:
    """What stands behind a star as the last argument of a call of the module's own function: the rest of its parameters."""
    starred = [
        arg.value.id
        for arg in call.args
        if isinstance(arg, ast.Starred) and isinstance(arg.value, ast.Name)
    ]
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    called = scope.get(call.func.id) if isinstance(call.func, ast.Name) else None
    code = getattr(called, "__code__", None)
    if len(starred) != 1 or not isinstance(call.args[-1], ast.Starred) or code is None:
        return {}
    rest = code.co_varnames[len(call.args) - 1 : code.co_argcount]
    needed = code.co_argcount - len(getattr(called, "__defaults__", None) or ())
    return {starred[0]: list(rest)} if len(rest) > 1 and needed == code.co_argcount else {}


def attributes_read(
    functions: Sequence[Callable[..., Any]], depth: int = _MOST_HELPERS
) -> dict[str, frozenset[str]]:
    """For each name in the functions' bodies, the attributes that are read of it, there or in a helper of the module."""
    found: dict[str, set[str]] = {}
    for function, node in ((f, node) for f in functions for node in _nodes(f)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.setdefault(node.value.id, set()).add(node.attr)
        elif isinstance(node, ast.Call) and depth:
            for name, attributes in _attributes_of_helper(node, function, depth - 1).items():
                found.setdefault(name, set()).update(attributes)
    return {name: frozenset(attributes) for name, attributes in found.items()}


def _attributes_of_helper(
    call: ast.Call, function: Callable[..., Any], depth: int
) -> dict[str, frozenset[str]]:
    """The attributes that a helper reads of the names that this call hands to it."""
    called, is_method = _called(call, function)
    if called is None or called is inspect.unwrap(function):
        return {}
    return _handed_on(call, called, attributes_read([called], depth), is_method=is_method)


def _nodes(function: Callable[..., Any]) -> Iterator[ast.AST]:
    """The syntax tree of the function's source, node by node; nothing where there is no source."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    except (OSError, TypeError, SyntaxError, ValueError):
        return
    yield from ast.walk(written_out(tree, surroundings_of(inspect.unwrap(function))))


def attributes_of_no_class(
    functions: Sequence[Callable[..., Any]], names: Sequence[str], known: Mapping[str, object]
) -> dict[str, frozenset[str]]:
    """The numbers that are read of each such argument.

    None of what has an attribute of arrays, or is computed with itself; nor of an object one of whose methods is
    called, or one of whose attributes is a word: nobody knows what these are.
    """
    texts = [text for text in map(text_of, functions) if text is not None]
    nodes = [n for text in texts for line in text.statements for n in ast.walk(line)]
    others = {name for node in nodes for name in _of_another_kind(node)}
    found: dict[str, set[str]] = {}
    for node in nodes:
        if isinstance(node, ast.Attribute):
            found.setdefault(_owner(node), set()).add(node.attr)
    arrays = _of_arrays() if found.keys() & {*names} else frozenset()
    return {
        name: frozenset(read)
        for name, read in found.items()
        if name in names and name not in known and name not in others and not read & arrays
    }


def _owner(node: ast.Attribute) -> str:
    """The argument of which it is an attribute; empty if it is one of something else."""
    of = node.value
    if isinstance(of, ast.Attribute) and isinstance(of.value, ast.Name):
        return of.attr if of.value.id in _KEEPERS else ""
    return of.id if isinstance(of, ast.Name) else ""


def _of_another_kind(node: ast.AST) -> Iterator[str]:
    """The names that are computed with, indexed, or given to a library here; those of which a method is called, or an attribute is a word."""
    match node:
        case ast.BinOp(left=left, right=right):
            yield from (side.id for side in (left, right) if isinstance(side, ast.Name))
        case ast.UnaryOp(operand=ast.Name(id=name)) | ast.Subscript(value=ast.Name(id=name)):
            yield name
        case ast.Call(func=ast.Attribute() as called, args=given):
            yield _owner(called)
            if isinstance(called.value, ast.Name) and called.value.id in LIBRARIES:
                yield from (each.id for each in given if isinstance(each, ast.Name))
        case ast.Compare(ops=[ast.Is() | ast.IsNot()]):  # `cfg is not None`
            return
        case ast.Compare(left=left, comparators=others):
            parts = [n for side in (left, *others) for n in ast.walk(side)]
            if any(isinstance(n, ast.Constant) and isinstance(n.value, str) for n in parts):
                yield from (_owner(n) for n in parts if isinstance(n, ast.Attribute))
            yield from (side.id for side in (left, *others) if isinstance(side, ast.Name))


def _of_arrays() -> frozenset[str]:
    """What arrays have, of NumPy and of the frameworks that are imported."""
    loaded = (getattr(sys.modules.get(module), name, None) for module, name in _ARRAYS)
    classes = (np.ndarray, *filter(None, loaded))
    plain = (n for cls in classes for n in dir(cls) if not callable(getattr(cls, n, None)))
    return frozenset((*plain, "aval", "weak_type"))
