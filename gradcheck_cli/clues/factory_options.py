"""What the factory or the class around a function does with its options: words it knows, as in `mode not in _MODES`, arrays it makes of them, numbers of which one divides another."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any

from gradcheck_cli.clues.documentation import (
    classes_around,
    factories_around,
    own_parameters,
    plain_function,
)
from gradcheck_cli.clues.source_text.tree import last_word, text_of
from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.inputs.signature import OMITTED, Parameter
from gradcheck_cli.inputs.whole_parts import divided

_MOST = 8
_DEEP = 2  # functions in functions
_MAKES = frozenset({"array", "asarray"})
_LIBRARIES = frozenset({"np", "numpy"})
_WHOLE = frozenset({"int", "int32", "int64", "long"})


def clues(function: Callable[..., Any], parameters: Sequence[Parameter]) -> dict[str, Clue]:
    """For each option that is none of the function's own parameters the words that its factory or its class knows, or that it is an array.

    Its default is one of the words.
    """
    inner = plain_function(function)
    own = own_parameters(inner)
    known = getattr(inner, "__globals__", {})
    found: dict[str, Clue] = {}
    for factory in (*factories_around(inner), *classes_around(inner)):
        source = f"the body of `{factory.name}`"
        counts = divided(factory, [p.name for p in parameters])
        for name, default in ((p.name, p.default) for p in parameters):
            if name in own or name in found:
                continue
            read = [*_words(factory, name, known), *([default] if isinstance(default, str) else [])]
            words = tuple(dict.fromkeys(read))[:_MOST]
            if len(words) > 1:
                found[name] = Clue(source, values=words, kind=Kind.WORD)
            elif default is OMITTED and (numbers := counts.get(name, ())):
                found[name] = Clue(source, values=numbers, kind=Kind.WHOLE)
            elif default is OMITTED and (made := _made_array(factory, name)) is not Kind.NOTHING:
                found[name] = Clue(source, kind=made)
    return found


def _made_array(factory: ast.AST, name: str) -> Kind:
    """The kind of the array of a stated type that the factory makes of the option: `accrual = np.asarray(accrual, float)`.

    Without a type, or with another library, as many make an array of a single number; but of one that is made a float
    wherever it is used, `table.astype(x.dtype)`, each number is whole.
    """
    statements = getattr(factory, "body", [])
    for node in (s for s in statements if isinstance(s, ast.Assign)):
        match node.value:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=library), attr=attr),
                args=[ast.Name(id=given), *types],
                keywords=keywords,
            ) if library in _LIBRARIES and attr in _MAKES and given == name:
                wanted = [*types, *(k.value for k in keywords if k.arg == "dtype")]
                whole = any(last_word(each) in _WHOLE for each in wanted)
                if wanted:
                    return Kind.INTEGERS if whole else Kind.ARRAY
                if _is_converted(factory, node.targets):
                    return Kind.INTEGERS
    return Kind.NOTHING


def _is_converted(factory: ast.AST, targets: Sequence[ast.expr]) -> bool:
    """Is it called by one name, and never read but to be made of another type?"""
    match targets:
        case [ast.Name(id=name)]:
            read = {id(n) for n in ast.walk(factory) if _reads(n, name)}
            made = {id(n.func.value) for n in ast.walk(factory) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "astype"}  # fmt: skip
            return bool(read) and read <= made
    return False


def _reads(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)


def _words(
    factory: ast.AST, name: str, known: Mapping[str, Any], deep: int = _DEEP
) -> Iterator[str]:
    """The words that the option is compared with, here or in a function of the module that it is handed to."""
    for node in ast.walk(factory):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and _is(node.left, name):
            yield from _listed(node.comparators[0], known)
        elif isinstance(node, ast.Subscript) and _is(node.slice, name):
            yield from _listed(node.value, known)
        elif isinstance(node, ast.Call) and deep:
            for helper, parameter in _handed_to(node, name, known):
                yield from _words(helper, parameter, known, deep - 1)


def _handed_to(
    call: ast.Call, name: str, known: Mapping[str, Any]
) -> Iterator[tuple[ast.AST, str]]:
    """The function of the same module that a call hands the option to, and what it is called there."""
    function = known.get(call.func.id) if isinstance(call.func, ast.Name) else None
    if not isinstance(function, FunctionType) or function.__globals__ is not known:
        return
    text = text_of(function)
    if text is None:
        return
    pairs = [
        *zip(text.parameters, call.args, strict=False),
        *((k.arg, k.value) for k in call.keywords),
    ]
    body = ast.Module(list(text.statements), [])
    yield from ((body, n) for n, value in pairs if n is not None and _is(value, name))


def _is(node: ast.expr, name: str) -> bool:
    """Is it the option, or what an object keeps of it: `self.mode`?"""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.value.id == "self" and node.attr.lstrip("_") == name
    return isinstance(node, ast.Name) and node.id == name


def _listed(node: ast.expr, known: Mapping[str, Any]) -> list[str]:
    """The words of a literal, or of a constant of the module."""
    held: Any = known.get(node.id) if isinstance(node, ast.Name) else None
    if isinstance(node, ast.Constant):
        held = (node.value,)
    elif isinstance(node, ast.Tuple | ast.List | ast.Set):
        held = [e.value for e in node.elts if isinstance(e, ast.Constant)]
    elif isinstance(node, ast.Dict):
        held = [key.value for key in node.keys if isinstance(key, ast.Constant)]
    if not isinstance(held, Collection) or isinstance(held, str):
        return []
    words = list(held)
    return words if all(isinstance(word, str) for word in words) else []
