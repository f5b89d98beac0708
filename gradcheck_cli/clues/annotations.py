"""Annotations as clues: jaxtyping's `Float[Array, "b n"]`, `float`, `Literal["mean", "sum"]`, `int | None`."""

from __future__ import annotations

import ast
import enum
import inspect
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gradcheck_cli.clues.prose.dims import LEADING
from gradcheck_cli.clues.usual_numbers import usual_numbers, usual_sizes
from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.inputs.names import names_another
from gradcheck_cli.inputs.signature import Parameter
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code

_KINDS = {
    "f32": ("Float", "Float16", "Float32", "Float64", "BFloat16", "Num", "Inexact", "Real", "Shaped", "Complex", "Complex64", "Complex128"),
    "i32": ("Int", "Int8", "Int16", "Int32", "Int64", "UInt", "UInt8", "UInt16", "UInt32", "UInt64", "Integer"),
    "bool": ("Bool",),
}  # fmt: skip
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names}
_ARRAYS = {"f32": Kind.ARRAY, "i32": Kind.INTEGERS, "bool": Kind.BOOLS}
_JAXTYPING = re.compile(
    r"(?:^|[.|\[\s])(?P<kind>[A-Z]\w*)\[[^,\[\]]+,\s*['\"](?P<dims>[^'\"]*)['\"]\]"
)
# The short forms that people write as strings: `f[b n]`, `float32[b, n]`, `[b, n]`.
_SHORT = re.compile(
    r"(?:(?P<f32>f(?:loat)?(?:16|32|64)?|bf(?:loat)?16|c(?:omplex)?(?:64|128)?)"
    r"|(?P<i32>[iu](?:nt)?(?:8|16|32|64)?|uint(?:8|16|32|64)?)|(?P<bool>b(?:ool)?))?"
    r"\[(?P<dims>[^\[\]'\"]*)\]"
)
_DIM = re.compile(r"\w+(?:(?:\*\*?|//|\+|-)\w+)*")
_NAMES = {
    Kind.ARRAY: ("Array", "ArrayLike", "ndarray", "NDArray", "Tensor", "FloatTensor", "EagerTensor", "KerasTensor", "Variable", "TensorLike"),
    Kind.INTEGERS: ("LongTensor", "IntTensor"),
    Kind.BOOLS: ("BoolTensor",),
    Kind.NUMBER: ("float", "Scalar", "ScalarLike", "FloatScalar"),
    Kind.WHOLE: ("int",),
    Kind.FLAG: ("bool",),
    Kind.WORD: ("str",),
    Kind.FUNCTION: ("Callable", "FunctionType"),
    Kind.DTYPE: ("dtype", "DType", "DTypeLike"),
    Kind.SHAPE: ("Size", "Shape", "TensorShape"),
    Kind.KEY: ("PRNGKeyArray", "PRNGKey", "KeyArray", "Key"),
    Kind.TREE: ("dict", "Dict", "Mapping", "tuple", "Tuple", "list", "List", "PyTree", "FrozenDict"),
}  # fmt: skip
_KIND_BY_NAME = {name: kind for kind, names in _NAMES.items() for name in names}
_SIZES = re.compile(r"(?:tuple|list|sequence|iterable)\[\s*int(?:\s*,\s*(?:int|\.\.\.))*\s*\]", re.IGNORECASE)  # fmt: skip


_ROWS = re.compile(
    r"(?:\w+\.)*(?:Sequence|Iterable|list|List)\[(?P<part>[\w.]+)\]|(?:\w+\.)*[tT]uple\[(?P<each>[\w.]+)\s*,\s*\.\.\.\]"
)
# A row of plain numbers. They rise, as frequencies and knots do, and none is another's double.
_FLOATS = re.compile(r"(?:\w+\.)*(?:Sequence|Iterable)\[float\]")
_ONLY_SIZES = re.compile(rf"(?:\w+\.)*{_SIZES.pattern}", re.IGNORECASE)
_SEVERAL = 3  # where any number would do
_UNEVEN = (0.5, 1.25, 2.0)
_TWO_ARRAYS = "[f32[n d], f32[n d]]"


def clues(function: Callable[..., Any], parameters: Sequence[Parameter]) -> dict[str, list[Clue]]:
    """What the annotation of each parameter says, if it has one that says something, and a default of an enumeration."""
    texts = {p.name: p.annotation or "" for p in parameters}
    said = clues_of_texts(texts)
    classes = _enums(function)
    for parameter in parameters:
        name, default = parameter.name, parameter.default
        if name in classes:
            source = f"its annotation `{classes[name].__name__}`"
            members = _as_meant(classes[name], default)
            said[name] = Clue(source, values=members, kind=Kind.WORD)
        elif isinstance(default, enum.Enum) and name not in said:
            members = _as_meant(type(default), default)
            said[name] = Clue(f"its default `{default}`", values=members, kind=Kind.WORD)
    return {name: [clue] for name, clue in said.items()}


def clues_of_texts(texts: Mapping[str, str]) -> dict[str, Clue]:
    """What annotations say, each written as text, by the names that they annotate."""
    said = {name: _clue(name, text) for name, text in texts.items() if text}
    return {name: clue for name, clue in said.items() if clue is not None}


def annotated(parameters: Sequence[Parameter]) -> dict[str, str]:
    """Annotations of arrays, whole numbers and flags, as specs in text."""
    found = {p.name: _clue(p.name, p.annotation or "") for p in parameters}
    return {
        name: clue.spec
        for name, clue in found.items()
        if clue is not None and clue.spec and clue.kind not in (Kind.NUMBER, Kind.WORD)
    }


def whole_numbers(name: str, annotation: str) -> tuple[int, ...]:
    """Several whole numbers for what is annotated as such, the lower ones first where any count will do; none for anything else."""
    text = _without_none(annotation.strip().strip("'\"")).strip()
    clue = _clue(name, annotation) if _ONLY_SIZES.fullmatch(text) else None
    if clue is None or clue.kind is not Kind.SHAPE:
        return ()
    stated = next((value for value in clue.values if isinstance(value, tuple)), None)
    return stated or tuple(sorted(usual_sizes(name, _SEVERAL)[0]))


def _clue(name: str, annotation: str) -> Clue | None:
    """The clue in one annotation; with None among its values where this may be left out."""
    text = re.sub(r"\btyping\.", "", annotation.strip().strip("'\""))
    inner = _without_none(text)
    source = f"its annotation `{text}`"
    clue = _array(source, inner) or _choice(source, inner) or _plain(name, source, inner)
    if inner == text or clue is None:
        return clue
    return replace(clue, values=(*clue.values, None))


def _without_none(text: str) -> str:
    """`int` from `int | None`, `Optional[int]` and `Union[int, None]`."""
    match = re.fullmatch(r"Optional\[(.*)\]", text, re.DOTALL)
    if match is not None:
        return match[1].strip()
    match = re.fullmatch(r"Union\[(.*?)\s*,\s*None(?:Type)?\]", text, re.DOTALL)
    if match is not None:
        return match[1].strip()
    return re.sub(r"^None\s*\|\s*|\s*\|\s*None$", "", text)


def _array(source: str, text: str) -> Clue | None:
    """The clue in an annotation of jaxtyping, or in one of its short forms."""
    match, short = _JAXTYPING.search(text), _SHORT.fullmatch(text)
    if short is not None:
        kind = next((name for name in _ARRAYS if short[name]), "f32")
        tokens = short["dims"].replace(",", " ").split()
    elif match is not None and match["kind"] in _KIND_OF:
        kind, tokens = _KIND_OF[match["kind"]], match["dims"].split()
    else:
        return None
    dims = [_dim(token) for token in tokens]
    if not all(dims):
        return None
    spec, which = f"{kind}[{' '.join(dims)}]", _ARRAYS[kind]
    if tokens == ["..."]:  # any shape at all
        return Clue(source, kind=which)
    opened = [i for i, token in enumerate(tokens) if token.startswith(("*", "..."))]
    if not opened:
        return Clue(source, spec, kind=which)
    first, last = tuple(dims[: opened[0]]), tuple(dims[opened[0] + 1 :])
    return Clue(source, spec, least_rank=len(dims) - 1, kind=which, first=first, last=last)


def _dim(token: str) -> str:
    """`#b`, `?b`, `name=3` and `_` are dimensions like others; `*batch` and `...` are one for any number."""
    token = LEADING if token == "..." else token.lstrip("#?*").rpartition("=")[2]
    return token if _DIM.fullmatch(token) else ""


def _choice(source: str, text: str) -> Clue | None:
    """`Literal["mean", "sum"]`: the first is the spec."""
    match = re.fullmatch(r"(?:\w+\.)*Literal(?P<values>\[.*\])", text, re.DOTALL)
    if match is None:
        return None
    try:
        values = tuple(ast.literal_eval(match["values"]))
    except (ValueError, SyntaxError, TypeError):
        return None
    kinds = {str: Kind.WORD, bool: Kind.FLAG, int: Kind.WHOLE}
    return Clue(source, repr(values[0]), values=values, kind=kinds.get(type(values[0]), Kind.NOTHING))  # fmt: skip


def _plain(name: str, source: str, text: str) -> Clue | None:
    """The clue in the name of a type."""
    if sizes := _SIZES.search(text):
        count = sizes.group().lower().count("int") if "..." not in sizes.group() else 0
        several = usual_sizes(name, count) if count > 1 else ()
        return Clue(source, kind=Kind.SHAPE, values=several)
    if _FLOATS.fullmatch(text):
        return Clue(source, kind=Kind.NUMBER, values=(_UNEVEN,))
    row = _ROWS.fullmatch(text)
    if row is not None and _names_an_array(row["part"] or row["each"]):
        return Clue(
            source, _TWO_ARRAYS if row["part"] else f"({_TWO_ARRAYS[1:-1]})", kind=Kind.TREE
        )
    if "|" in text or text.startswith("Union["):
        return Clue(source, kind=Kind.ARRAY) if _names_an_array(text) else None
    base = re.split(r"[\[(]", text.removeprefix("<class '").removesuffix("'>"))[0]
    kind = _KIND_BY_NAME.get(base.rpartition(".")[2])
    if kind is None:
        return None
    if kind is Kind.WHOLE:
        axis, values = usual_numbers(name)
        return Clue(source, repr(values[0]), values=values, kind=Kind.AXIS if axis else kind)
    if kind is Kind.FLAG:
        return Clue(source, "False", values=(False, True), kind=kind)
    return Clue(source, "f32[]" if kind is Kind.NUMBER else "", kind=kind)


def _names_an_array(text: str) -> bool:
    return any(_KIND_BY_NAME.get(word) is Kind.ARRAY for word in re.findall(r"\w+", text))


def _as_meant(cls: type[enum.Enum], default: object) -> tuple[enum.Enum, ...]:
    """The members, the default first, but those by which another derivative is meant; all, if there are no others."""
    members = sorted(cls, key=lambda member: member is not default)
    kept = [m for m in members if m is default or not names_another(m.name)]
    return tuple(kept or members)


def _enums(function: Callable[..., Any]) -> dict[str, type[enum.Enum]]:
    """The class of each parameter that is annotated by an enumeration."""
    try:
        with calling_user_code():
            hints = typing.get_type_hints(inspect.unwrap(function))
    except UserCodeError:  # a name that exists for type checkers only
        return {}
    classes = {name: h for name, h in hints.items() if isinstance(h, type)}
    return {name: cls for name, cls in classes.items() if issubclass(cls, enum.Enum) and len(cls)}
