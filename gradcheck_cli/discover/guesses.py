"""Guesses of arguments for a function or a constructor that is called only to see what it makes."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.discover.needs import Need, needs, parts
from gradcheck_cli.discover.place_tables import pairs, places
from gradcheck_cli.discover.word_rows import word_rows
from gradcheck_cli.inputs.names import fixed_by_name
from gradcheck_cli.inputs.stand_ins import mask
from gradcheck_cli.inputs.whole_parts import divided
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code

Function = Callable[..., Any]

_SAYS_CALLABLE = re.compile(r"(^|_)(f|g|fn|fun|func|function|callable|activation|operator)$")
_HOLDS = re.compile(
    r"\b(?P<kind>[Tt]uple|[Ll]ist|Sequence|Iterable|Collection)\[(?P<held>[^\[\]]*)\]"
)
_SIZES, _REALS = (
    (5, 4, 3, 2, 7),
    (0.25, 0.75, 1.5, -0.5, 2.0),
)  # of which a fixed tuple takes the first
_OF_KIND: dict[str, tuple[Any, ...]] = {"int": (3, 2, 1), "float": (0.5, 2.0), "bool": (True,)}
_SEVERAL = 3  # where any number would do
_AXES = (4, 3, 5, 2, 7)  # sizes of axes that a text names
_CROSSES = ("x", "×", "by")
# From an entry's name to its shape, within one sentence.
_SHAPE = r"\W*[:(–-][^.;\n]*?\b(?:array|tensor|matrix|vector|shape)\b[^.;\n\[(]*[`(]*[\[(](?P<dims>\w+(?:,\s*\w+)*),?[\])]"
# Right behind it: `prey_mass: (Q,) body masses`.
_SHAPE_FIRST = r"`*\s*:\s*`*[\[(](?P<dims>[^\W\d]\w*(?:,\s*\w+)*),?[\])](?P<more>[^\n]*)"
# In a sentence: `coefficients [A, 4], aircraft int [N]`. One word alone may be a unit: `height [m]`.
_SHAPE_BESIDE = r"`*\s+\[(?P<dims>[^\W\d]\w*(?:,\s*\w+)*),?\]"
# `optional 0/1 sequence of length C`, `a mask of length n`.
_OF_LENGTH = r"`*\s*:[^.;\n]{0,40}?\b(?:sequence|list|tuple|array|vector|mask)s?\s+of\s+length\s+`*(?P<dims>[A-Z]\w{0,2}|[a-z]|(?:n|num)_\w+)\b(?!\()"
# `Cells of the raster [G, 2]`.
_OF_A_WHOLE = r"(?<=s)`*\s+of\s+(?:the|an?|each)\s+[a-z]+\s+\[(?=[^\[\]]*[A-Z\d])(?P<dims>[^\W\d]\w*(?:,\s*\w+)+)\]"
# `adjacency` is the symmetric (n, n) matrix of counts.
_IS_AN_ARRAY = r"`*\s+(?:is|are)\s+(?:an?|the)\s+(?:[a-z-]+\s+){0,3}?[\[(](?P<dims>[^\W\d]\w*(?:,\s*\w+)+)[\])](?P<more>\s+(?:[a-z-]+\s+)?(?:array|tensor|matrix|table|mask|grid)\b[^.;\n]*)"
# ``codes`` is an integer table (vocabulary, M).
_IS_OF_A_KIND = r"`*\s+(?:is|are)\s+(?:an?|the)\s+(?P<more>(?:[a-z-]+\s+){0,3}?(?:array|tensor|matrix|table|mask|grid|vector)s?)(?:\s+of\s+shape)?,?\s+`*[\[(](?P<dims>[^\W\d]\w*(?:(?:,\s*\w+)+,?|,))[\])](?P<behind>\s+(?:of|holding)\s+(?:[a-z-]+\s+){0,2}(?:ids|indices|indexes|integers|ints)\b)?"
# `sharers: lines x people, true where …`: plurals, and an array is made of it.
_CROSSED = r"`*\s*:\s*`*(?P<dims>[a-z_]+s\s+(?:x|×|by)\s+(?:[a-z_]+s|people))`*(?=\s*[,.;(\n]|\s*$)"
# `the entry of each receipt line`, beside an array whose axis is called so.
_OF_EACH = r"\b{name}\b`*\s*:(?:(?!\b(?:scalar|one|single|float|number)\b)[^.;\n])*?\b(?:each|every|per)\s+(?:[a-z]+\s+)?(?P<what>[a-z]+)\b"
# `Binds a padded id table, (sessions, lines), to …`: of the one parameter that there is, if an array is made of it.
_OF_THE_ONE = re.compile(
    r"\A\s*[^.\n]*\b(?:table|array|matrix|mask|tensor|grid|map|ids|indices)s?,?\s*[\[(](?P<dims>[^\W\d]\w*(?:,\s*[^\W\d]\w*)+)[\])]"
)
_MADE_AN_ARRAY = r"\b(?:asarray|array|as_tensor|tensor|convert_to_tensor|constant)\(\s*{name}\b"
# Where a word is a dimension in any case: among several, or behind a kind.
_CERTAIN = re.compile(
    r"\b(?:(?:int|bool)\w*\s*[\[(](?P<one>[^\W\d]\w*)[\])]|\w+\s*\[(?P<several>\w+(?:,\s*\w+)+)\])"
)
# Behind it what is in it: `(E, 2) joint ids`, `(N, D) bool`.
_WHOLE = re.compile(r"\b(?:ids|indices|indexes|ints?|integers?)\b")
_MARKS = re.compile(r"\b(?:bools?|booleans?|masks?|binary)\b|(?<![\w.])0/1\b")
# `asarray(sites, dtype="int32")`, `sites.astype(jnp.int32)`.
_MADE_WHOLE = r"\(\s*(?:self\.)?{name}\s*,\s*(?:dtype\s*=\s*)?['\"\w.]*\bu?int\d+\b|\b{name}\.(?:astype|to|type)\([^()\n]*\bu?int\d+\b"
# `table: int (rows, members)`: the kind before the shape; and what says that some of them are none.
_OF_A_KIND = (
    r"(?:`*\s*:\s*`*(?:optional\s+)?|\s+(?=(?:int|bool)\s*\[))(?P<kind>[Ii]nt|[Bb]ool)(?:\d+|eger|ean)?s?\b"
    r"(?:\s+(?:array|tensor|table|matrix|mask)s?)?(?:\s+of\s+shape)?\s*,?\s*`*[\[("
    r"](?P<dims>(?!(?:optional|default|required)\b)[^\W\d]\w*(?:,\s*\w+)*),?[\])](?P<more>[^\n]*)"
)
# `field` (a MainField), `field: the MainField of the survey`.
_OF_A_CLASS = r"\b{name}`*\s*[(:]\s*(?:an?\s+|the\s+)?[`:~]*(?P<cls>[A-Z]\w+)"
# A comment beside a field: `members: np.ndarray  # (E, 2) joint ids`.
_BESIDE = re.compile(r"^\s*(?P<name>\w+)\s*:[^#\n]*#\s*(?P<said>.*)$", re.MULTILINE)
_SYMMETRIC = re.compile(r"\b(?:symmetric(?:al)?|undirected)\b", re.IGNORECASE)
_NONE_OF_THEM = re.compile(r"(?<![\w.])-1\b")
# `years: number of calendar years in the series`.
_COUNTS = r"\b{name}\b`*(?:\s*\([^()\n]*\))?\s*:\s*(?:the\s+)?(?:total\s+)?(?:number of|how many)\b"
# `n_samples : int` in a line of its own, `n: (int) how many`.
_IS_WHOLE = (
    r"^\s*(?:\w+,\s*)*{name}(?:,\s*\w+)*\s*:\s*\(?int(?:eger)?\b(?!\s*(?:array|tensor|\[|\(|of\b))"
)
_LONGEST_WINDOW, _REST = 64, 3  # what two windows leave over
_FEW = 3  # integers are below this: places in something that is not small
_MOST_WITHIN = 2  # objects in objects
_MOST_NUMBERS = 4096  # of an array; what a text calls so large is none of a few axes
_DEEP = 4  # guesses for each of several parameters that are tried in all combinations


def guesses(
    function: Function, functions: Sequence[Function] = (np.tanh,), within: int = 0
) -> Iterator[list[Any]]:
    """Values for the required positional parameters: what their names say first, then the plainest.

    `functions` are the framework's own, for a parameter that is to be called: what the body calls gets
    nothing else. `within` is how many objects are being made around it. There is no guess where a parameter is
    a rule.
    """
    parameters = required(function)
    if parameters is None:
        return
    wanted = needs(function)
    if Need.RULE in wanted.values():
        return
    called = [wanted.get(p.name) is Need.FUNCTION and bool(functions) for p in parameters]
    counts, arrays = parts(function), _stated_arrays(function, [p.name for p in parameters])
    written = _source(function)
    divisible = _divided(function, [p.name for p in parameters])
    named = [
        list(functions)
        if is_called
        else [
            *pairs(p.name, written),
            *arrays.get(p.name, ()),
            *places(p.name, written),
            *word_rows(p, function),
            *(_objects(p, function, functions, within) if within < _MOST_WITHIN else ()),
            *(_numbers(p, counts) or divisible.get(p.name, ()) or _counted(p, function)),
            *_long_enough(p, function),
            *_named(p, functions),
        ]
        for p, is_called in zip(parameters, called, strict=True)
    ]
    plain = _plain(functions, wanted)
    if any(named):
        yield [(own or plain)[0] for own in named]
    if len(named) == 1:
        yield from ([value] for value in named[0][1:])
    for value in plain if parameters else [None]:
        yield [own[0] if is_called else value for own, is_called in zip(named, called, strict=True)]
    if len(parameters) > 1:
        choices = (
            own if is_called else [*own, *plain[:_DEEP]]
            for own, is_called in zip(named, called, strict=True)
        )
        yield from map(list, itertools.product(*choices))


def required(function: Function) -> list[inspect.Parameter] | None:
    """The positional parameters that a call must fill; None if nobody can say."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    return [
        p
        for p in signature.parameters.values()
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]


def _plain(functions: Sequence[Function], wanted: Mapping[str, Need]) -> list[Any]:
    """The plainest values; a function among them where none is called by its name."""
    return [
        np.float32(0.5), 2, _reals((3,)), *([] if wanted else functions[:1]),
        _square(), np.eye(3, dtype=np.float32), True, "relu",
    ]  # fmt: skip


def _stated_arrays(function: Function, names: Sequence[str]) -> dict[str, list[Any]]:
    """An array for each parameter of which the docstring gives the shape: `kernel: float array of shape [features, units]`.

    Dimensions of one name are equal, others differ. It holds integers where the text says so, or makes them of it.
    """
    written = _source(function)
    beside = "\n".join(f"{m['name']}: {m['said']}" for m in _BESIDE.finditer(written))
    spoken = (function.__doc__, getattr(function.__init__, "__doc__", ""))
    text = "\n".join(filter(None, (*spoken, beside if inspect.isclass(function) else "")))
    certain = {
        d for m in _CERTAIN.finditer(text) for d in re.findall(r"\w+", m["one"] or m["several"])
    }
    sizes: dict[str, int] = {}
    arrays: dict[str, list[Any]] = {}
    for name in names:
        patterns = (_OF_A_KIND, _SHAPE_FIRST, _IS_AN_ARRAY, _CROSSED, _IS_OF_A_KIND, _SHAPE, _SHAPE_BESIDE)  # fmt: skip
        said = [re.search(rf"\b{re.escape(name)}\b{pattern}", text) for pattern in patterns]
        begun = re.search(rf"\b(?i:{re.escape(name)})\b{_OF_A_WHOLE}", text)
        is_array = re.search(_MADE_AN_ARRAY.format(name=re.escape(name)), written)
        alone = _OF_THE_ONE.search(text) if len(names) == 1 and is_array else None
        length = re.search(rf"\b{re.escape(name)}\b{_OF_LENGTH}", text)
        match = next(filter(None, (*said, begun, length, alone)), None)
        if match is not None and match is said[-1] and "," not in match["dims"]:
            match = match if match["dims"] in certain else None
        dims = [] if match is None else re.findall(r"\w+", match["dims"])
        if match is not None and match is said[3]:
            dims = [d for d in dims if d not in _CROSSES] if is_array else []
        for dim in dims:
            sizes.setdefault(dim, int(dim) if dim.isdigit() else _AXES[len(sizes) % len(_AXES)])
        shape = tuple(sizes[dim] for dim in dims)
        if match is not None and shape and 0 < math.prod(shape) <= _MOST_NUMBERS:
            whole = re.search(_MADE_WHOLE.format(name=re.escape(name)), written) is not None
            said_beside = match.groupdict()
            more = " ".join(filter(None, (said_beside.get("more"), said_beside.get("behind"))))
            more = match.group() if match is length else more
            tables = sum(np.issubdtype(a.dtype, np.integer) for (a,) in arrays.values())
            is_table = whole or _WHOLE.search(more)
            plain = _integers(shape, "", tables) if is_table else _reals(shape)
            plain = _mirrored(plain) if _SYMMETRIC.search(match.group()) else plain
            plain = mask(shape, "").value if _MARKS.search(more) else plain
            arrays[name] = [_of_kind(match, shape, tables) if match is said[0] else plain]
    return {**arrays, **dict(_of_each([n for n in names if n not in arrays], text, written, sizes))}


def _of_each(
    names: Sequence[str], text: str, written: str, sizes: Mapping[str, int]
) -> Iterator[tuple[str, list[Any]]]:
    """A number, or a place, for each entry along an axis that another array has: `the price of each line`."""
    for name in names:
        said = re.search(_OF_EACH.format(name=re.escape(name)), text)
        size = 0 if said is None else sizes.get(said["what"]) or sizes.get(said["what"] + "s", 0)
        if size:
            yield name, [_integers((size,), "", 0) if places(name, written) else _reals((size,))]


def _objects(
    parameter: inspect.Parameter, function: Function, functions: Sequence[Function], within: int
) -> list[Any]:
    """An object of the class that the annotation or the text names, where that is one of fields, made with the first guesses for these."""
    cls = _class_of(parameter, function)
    if cls is None:
        return []
    needed = required(cls)
    first = next(guesses(cls, functions, within + 1), None) if needed else []
    if needed is None or first is None:
        return []
    try:
        with calling_user_code():
            return [cls(*first)]
    except UserCodeError:  # it checks what it is given: no such guess, then
        return []


def _class_of(parameter: inspect.Parameter, function: Function) -> type | None:
    """The class of fields that the annotation names, or the docstring behind the parameter: ``field`` (a MainField)."""
    home = sys.modules.get(getattr(function, "__module__", None) or "")
    cls = parameter.annotation
    if cls is parameter.empty:
        named = _OF_A_CLASS.format(name=re.escape(parameter.name))
        told = re.search(named, function.__doc__ or "")
        cls = told["cls"] if told is not None else None
    if isinstance(cls, str):
        cls = getattr(home, cls, None)
    is_one = inspect.isclass(cls) and (dataclasses.is_dataclass(cls) or hasattr(cls, "_fields"))
    return cls if is_one else None


def _source(function: Function) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return ""


def documented(function: Function) -> dict[str, Any]:
    """Arrays for optional parameters of which the docstring says the kind or the shape; their sizes are those of the guesses."""
    parameters = inspect.signature(function).parameters.values()
    names = [p.name for p in parameters]
    left_out = {p.name for p in parameters if p.default is None}
    arrays = _stated_arrays(function, names)
    return {name: each[0] for name, each in arrays.items() if name in left_out}


def _of_kind(said: re.Match[str], shape: tuple[int, ...], tables: int) -> Any:
    if said["kind"].lower() == "bool":
        return mask(shape, "").value
    return _integers(shape, said["more"], tables)


def _reals(shape: tuple[int, ...]) -> Any:
    """Numbers that all differ, and so do their distances: 0.25, 0.5, 0.875, 1.375, …"""
    places = np.arange(np.prod(shape)) % 7
    return (0.25 + (places + places * (places - 1) / 4) / 4).astype(np.float32).reshape(shape)


def _square() -> Any:
    """A symmetric and positive definite matrix that is no multiple of another one; its rows have sums of their own."""
    return np.array([[2, 1, 0.5], [1, 3, 0.25], [0.5, 0.25, 1.5]], np.float32)


def _mirrored(array: Any) -> Any:
    """The array itself, or for a square one what is above its diagonal below it, too."""
    is_square = array.ndim == 2 and array.shape[0] == array.shape[1]
    return np.triu(array) + np.triu(array, 1).T if is_square else array


def _integers(shape: tuple[int, ...], said: str, tables: int) -> Any:
    """Small integers that repeat, others than in as many tables before; a few of -1 where that is said to be none of them."""
    places = np.arange(np.prod(shape))
    values = ((places + places // (_FEW + 1) + tables) % _FEW).astype(np.int32).reshape(shape)
    if _NONE_OF_THEM.search(said):
        values.reshape(-1)[1 :: _FEW + 1] = -1
    return values


def _numbers(parameter: inspect.Parameter, counts: Mapping[str, int]) -> list[Any]:
    """Numbers by the annotation, several where it holds several or is unpacked into so many: the size of a picture."""
    annotation = parameter.annotation
    text = str(annotation)
    if inspect.isclass(annotation) and "[" not in text:
        text = annotation.__name__
    if text in _OF_KIND:
        return list(_OF_KIND[text])
    match = _HOLDS.search(text)
    kinds = [] if match is None else re.findall(r"\b(?:int|float)\b|\.\.\.", match["held"])
    count = counts.get(parameter.name, 0)
    if not kinds and 1 < count <= len(_SIZES):
        return [_SIZES[:count]]
    if not kinds:
        return []
    numbers: tuple[Any, ...] = _SIZES if kinds[0] == "int" else _REALS
    fixed = match is not None and match["kind"].lower() == "tuple" and "..." not in kinds
    chosen = numbers[: len(kinds) if fixed else _SEVERAL]
    return [chosen if match is not None and match["kind"].lower() == "tuple" else list(chosen)]


def _counted(parameter: inspect.Parameter, function: Function) -> list[Any]:
    """Whole numbers, where the docstring says that it is one, or how many there are of something."""
    said = "\n".join(filter(None, (function.__doc__, getattr(function.__init__, "__doc__", ""))))
    name = re.escape(parameter.name)
    told = (
        re.search(pattern.format(name=name), said, re.MULTILINE) for pattern in (_COUNTS, _IS_WHOLE)
    )
    return list(_OF_KIND["int"]) if any(told) else []


def _divided(function: Function, names: Sequence[str]) -> Mapping[str, tuple[int, ...]]:
    """Whole numbers for the parameters of which one is divided by another without a rest."""
    written = _source(function)
    try:
        tree = ast.parse(f"if 1:\n{written}" if written[:1].isspace() else written)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    return divided(tree, names)


def _long_enough(parameter: inspect.Parameter, function: Function) -> list[Any]:
    """A length for what is cut into windows, where the function has one by default: `n_samples` beside `window=20`."""
    is_whole = parameter.annotation in (int, "int") or bool(_counted(parameter, function))
    defaults = [p.default for p in inspect.signature(function).parameters.values()]
    longest = max((d for d in defaults if type(d) is int), default=0)
    is_window = max(_OF_KIND["int"]) < longest <= _LONGEST_WINDOW
    return [2 * longest + _REST] if is_whole and is_window else []


def _named(parameter: inspect.Parameter, functions: Sequence[Function]) -> list[Any]:
    """Values that the name or the annotation of a parameter asks for, likeliest first."""
    is_function = "Callable" in str(parameter.annotation)
    if is_function or _SAYS_CALLABLE.search(parameter.name.lower().strip("_")):
        return list(functions)
    return [fixed.value for fixed in fixed_by_name(parameter.name, (3,), None)]
