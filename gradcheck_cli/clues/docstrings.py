"""Clues in prose: docstrings of functions, classes, factories and modules, and comments beside parameters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gradcheck_cli.clues.documentation import Text, texts_about
from gradcheck_cli.clues.prose.dims import BRACKETS, Dims, stated
from gradcheck_cli.clues.prose.kinds import (
    array_of_booleans,
    array_of_integers,
    element_kind,
    examples,
    greatest_length,
    integer_range,
    is_as_long,
    least_integer,
    named_kind,
    never,
    words,
)
from gradcheck_cli.clues.prose.passages import plain
from gradcheck_cli.clues.prose.readings import PREVIOUS, Reading, reading_of
from gradcheck_cli.clues.prose.said_of_several import with_what_is_said_of_several
from gradcheck_cli.clues.prose.shapes import Shape, certain_names
from gradcheck_cli.clues.prose.together import unnamed_shapes
from gradcheck_cli.clues.trees import arrays_of
from gradcheck_cli.clues.usual_numbers import usual_numbers, usual_sizes
from gradcheck_cli.clues.wrappers import texts_of_wrappers
from gradcheck_cli.inputs.clue import Clue, Kind

_SQUARE = ("in spd", "in lower", "in upper", "in symmetric")
_ANY_SHAPE = re.compile(r"\b(?:any|arbitrary) shapes?\b|\barbitrarily shaped\b", re.IGNORECASE)
_WORD_FIRST = re.compile(
    r"[\s`]*['\"]\w+['\"]"
)  # `"none"` for `(n,)`: the shape is that of the result
# A shape by that of another: `shape x.shape[:-1]`, `idx.shape + (width,)`.
_PART_OF_SHAPE = re.compile(
    r"(?P<other>[^\W\d]\w*)\.shape(?:\[(?P<first>-?\d?):(?P<last>-?\d?)\])?(?!\[|\w)"
    r"(?:\s*\+\s*\((?P<more>\w+),\))?"
)
_IN_A_ROW = re.compile(
    r"\b(?:sequence|list|tuple|iterable)\s+of\s+(?P<dim>[^\W\d]\w*)\s+(?:floats|numbers|weights)\b"
)
_PLAIN = (Kind.WHOLE, Kind.FLAG, Kind.NUMBER)
_NO_ARRAY = re.compile(
    r"(?:\w+_)?(?:shape|size|axes|axis|dtype|dims|numbers|strides?|padding|dilations?|perm)"
)
# What a sentence has before a shape that is taken out of it.
_WORDS_OF_A_SENTENCE = re.compile(r"\A(?:[\s`]|\b(?:and|is|are|either|the|has|shape|of)\b)+")
_OR_SHAPE = re.compile(
    rf"[`'\")\]]*(?:\s*\b(?:shared|common|global|fixed|for all)\b|,\s*[^,;.()\[\]]{{1,60}})?\s*,?\s*or\s+(?:of\s+shape\s+)?`*(?P<dims>{BRACKETS})"
)
_WORD_OR_NONE = re.compile(
    r"[\W_]*['\"](?P<word>[A-Za-z_][\w-]*)['\"]`*\s*(?:\([^()]*\)\s*)?(?:or|\|)\s*`*None\b"
)
_SIZES = re.compile(
    r"(?:\w+_)?(?:size|strides?|padding|dilations?)"
)  # several of them: one for each axis
_MOST_SIZES = 3
_QUOTED_KEY = re.compile(r"(?P<mark>['\"])(?P<key>[A-Za-z_]\w*)(?P=mark)")
_OTHERS = re.compile(r"\b(?:at|by|over|to)\b")  # what follows is about other arrays
_ARRAYS = (Kind.NOTHING, Kind.ARRAY, Kind.INTEGERS, Kind.BOOLS)
# What counts the entries of each row, and the names in the brackets of a spec.
_COUNTS = re.compile(r"(?:n|num|number_of)_(?P<of>\w+)|(?P<what>\w+)_counts?")
_AXIS = re.compile(r"[A-Za-z_]\w*(?=[^\[\]]*\])")
# Numbers of such are no whole ones: `effective number of points`, `number densities`.
_NO_COUNT = re.compile(
    r"float|real|fraction|soft|expect|effective|densit|weight|normal|index|component|mean|average|log|share|ratio|rate",
    re.IGNORECASE,
)
_LONG = (8, 7)  # no axis of what is judged first is longer: an even number, and an odd one
_LONGEST = 48  # letters of a text in a report


def clues(function: Callable[..., Any], names: Sequence[str]) -> dict[str, list[Clue]]:
    """For each parameter what the texts about the function say of it, the nearest text first."""
    found: dict[str, list[Clue]] = {}
    about = texts_about(function)
    nearest = [text for text in about if text.near]
    for text in (*nearest, *texts_of_wrappers(function, names), *(t for t in about if not t.near)):
        called = text.renamed or {name: name for name in names if name not in text.hidden}
        said = read_text(text, list(called.values()))
        for name, there in called.items():
            for path, clue in _with_arrays(name, said[there]) if there in said else ():
                found.setdefault(path, []).append(clue)
    return found


def clues_of_keys(
    function: Callable[..., Any], keys: Mapping[str, Sequence[str]]
) -> dict[str, list[Clue]]:
    """What the nearest texts say of each part of a dictionary, by its path: `ascend` and `descend` (> 0)."""
    found: dict[str, list[Clue]] = {}
    parameters = getattr(inspect.unwrap(function), "__code__", None)
    own = [] if parameters is None else parameters.co_varnames[: parameters.co_argcount]
    for text in (t for t in texts_about(function) if t.near):
        for name, parts in keys.items():
            # What is told of `users` is told of that parameter, and not of the key `user`.
            others = [other for other in own if other not in (name, *parts)]
            bare = replace(text, text=_unquoted(text.text, parts))
            said = read_text(bare, [name, *(part for part in parts if part != name), *others])
            for key in (part for part in parts if part in said and part not in own):
                alike = said[key].alike
                mate = f"{name}[{alike!r}]" if alike in parts and alike not in own else alike
                found.setdefault(f"{name}[{key!r}]", []).append(replace(said[key], alike=mate))
    return found


def _unquoted(text: str, keys: Collection[str]) -> str:
    """The text with these keys as bare words, as parameters are."""
    return _QUOTED_KEY.sub(lambda m: m["key"] if m["key"] in keys else m[0], text)


def _with_arrays(name: str, clue: Clue) -> Iterator[tuple[str, Clue]]:
    """The clue of a parameter, and of each array in it where it is a tree."""
    yield name, clue
    if clue.kind is Kind.TREE and clue.spec:
        for path, spec in arrays_of(name, clue.spec).items():
            yield path, Clue(clue.source, spec, kind=Kind.ARRAY)


def read_text(text: Text, names: Sequence[str]) -> dict[str, Clue]:
    """What one text says of each parameter."""
    written = plain(text.text)
    certain = certain_names(written, names)
    readings = {name: reading_of(written, name, names, certain, near=text.near) for name in names}
    readings = _with_shapes_of_others(_with_any_shape(readings))
    if text.near:
        told_of = {name: _has_dims(reading) for name, reading in readings.items()}
        others = {n for n, reading in readings.items() if reading.sort is not Kind.NOTHING}
        for name, unnamed in unnamed_shapes(written, told_of, others, certain).items():
            readings[name] = replace(readings[name], shape=unnamed.shape, about=unnamed.about)
        readings = _with_shapes_of_others(readings)
    told = {
        name: _with_distinct_places(_with_mate(_clue(name, reading, text.source), reading), reading)
        for name, reading in readings.items()
    }
    told = _with_counts(told, readings)
    related = with_what_is_said_of_several(told, written, text.source, near=text.near)
    return {name: clue for name, clue in related.items() if clue != Clue(clue.source)}


def _has_dims(reading: Reading) -> bool:
    return bool(reading.tree) or (reading.shape is not None and reading.shape.dims is not None)


def _with_any_shape(readings: Mapping[str, Reading]) -> dict[str, Reading]:
    """The readings, with two axes for an array of any shape beside integers of the same shape: floats are found anyway."""
    found = dict(readings)
    names = list(readings)
    for place, (name, reading) in enumerate(readings.items()):
        before = next((n for n in reversed(names[:place]) if not _NO_ARRAY.fullmatch(n)), "")
        other = before if reading.same_as == PREVIOUS else reading.same_as
        like = readings.get(other)
        if (
            like is None
            or like.shape is not None
            or named_kind(name, element_kind(reading.about), reading.about) == "f32"
        ):
            continue
        if any_shape := _ANY_SHAPE.search(like.about):
            shape_said = Shape(any_shape.group(), Dims((f"{other}_0", f"{other}_1")))
            found[other] = replace(like, shape=shape_said)
    return found


def _with_shapes_of_others(readings: Mapping[str, Reading]) -> dict[str, Reading]:
    """The readings, each with the shape of the parameter that it is said to be like."""
    found: dict[str, Reading] = {}
    dims = {name: r.shape.dims for name, r in readings.items() if r.shape and r.shape.dims}
    for name, reading in readings.items():
        others = [other for other in dims if other != name]
        before = [other for other in others if other in found]
        previous = (before[-1:] or others[:1] or [""])[0]
        other = previous if reading.same_as == PREVIOUS else reading.same_as
        found[name] = reading
        if reading.shape is not None and reading.shape.dims is not None:
            continue
        part = _PART_OF_SHAPE.search(reading.about)
        if part is not None and part["other"] in others:
            found[name] = replace(reading, shape=_part_of(dims[part["other"]], part))
        elif other in dims:
            found[name] = replace(reading, shape=Shape(f"the shape of {other}", dims[other]))
    return found


def _part_of(dims: Dims, part: re.Match[str]) -> Shape:
    """The axes that `x.shape[:-1]` or `x.shape[1:] + (k,)` leaves of those of x."""
    first, last = (int(number) if number else None for number in (part["first"], part["last"]))
    more = (part["more"],) if part["more"] else ()
    return Shape(part.group(), Dims((*dims.names[first:last], *more)))


def _clue(name: str, reading: Reading, source: str) -> Clue:
    """The reading as a clue: a tree, an array, a plain value, or only a number of axes."""
    if spec := reading.tree:
        return Clue(_named(source, name, reading.about), spec, kind=Kind.TREE)
    if reading.sort is Kind.TREE:
        row = _IN_A_ROW.search(reading.about)
        spec, kind = ("", Kind.NOTHING) if row is None else (f"f32[{row['dim']}]", Kind.ARRAY)
        return Clue(source if row is None else _named(source, name, row.group()), spec, kind=kind)
    if (
        reading.shape is not None
        and reading.shape.dims is not None
        and not _NO_ARRAY.fullmatch(name)
        and not _WORD_FIRST.match(reading.about)
    ):
        return _array(name, reading, source)
    if reading.sort in (Kind.NOTHING, Kind.SHAPE) and (sizes := _sizes(name, reading)):
        return Clue(_named(source, name, reading.about), values=sizes, kind=Kind.SHAPE)
    choices: tuple[object, ...] = words(reading.about)
    if not choices and (word := _WORD_OR_NONE.match(reading.about)) is not None:
        choices = (word["word"], None)
    if not choices and reading.sort is Kind.WORD:
        choices = examples(reading.about)
    if choices and reading.sort in (Kind.NOTHING, Kind.WORD):
        return Clue(
            _named(source, name, reading.about), repr(choices[0]), values=choices, kind=Kind.WORD
        )
    if reading.sort in _PLAIN or (reading.sort is Kind.NOTHING and is_as_long(reading.about)):
        return _plain_value(name, reading, source)
    if reading.sort is not Kind.NOTHING:
        return Clue(_named(source, name, reading.about), kind=reading.sort)
    return _loose(name, reading, source)


def _with_mate(clue: Clue, reading: Reading) -> Clue:
    """The clue, with whose shape the array has, where the text says that and no shape."""
    named = reading.same_as != PREVIOUS and not clue.spec and clue.kind in _ARRAYS
    return replace(clue, alike=reading.same_as) if named else clue


def _with_distinct_places(clue: Clue, reading: Reading) -> Clue:
    """The clue of a table, with the promise that no two of its places are one."""
    promised = reading.distinct and clue.kind in (Kind.INTEGERS, Kind.NOTHING, Kind.ARRAY)
    return replace(clue, distinct=True) if promised else clue


def _sizes(name: str, reading: Reading) -> tuple[tuple[int, ...], ...]:
    """Tuples of whole numbers for `stride: (sh, sw)`; none where the name is no size's."""
    brackets = re.search(BRACKETS, reading.about)
    dims = None if brackets is None else stated(brackets.group())
    if dims is None or dims.is_open or not _SIZES.fullmatch(name):
        return ()
    return usual_sizes(name, len(dims.names)) if 1 < len(dims.names) <= _MOST_SIZES else ()


def _array(name: str, reading: Reading, source: str) -> Clue:
    assert reading.shape is not None
    assert reading.shape.dims is not None
    dims = reading.shape.dims
    ahead, _, behind = reading.about.partition(reading.shape.written)
    rest = f"{ahead} {behind}"
    dtype = named_kind(name, element_kind(f"{ahead} {_OTHERS.split(behind)[0]}"), rest)
    axes = [re.sub(r"^any(\d)$", rf"{name}_\1", axis) for axis in dims.text.split()]
    spec = f"{dtype}[{' '.join(axes)}]"
    where = reading.domain if dtype == "f32" and _suits(reading.domain, axes) else ""
    avoids = ""
    if dtype == "i32":
        spec = f"{spec} {integer_range(rest) or greatest_length(name, rest)}".strip()
        least = least_integer(name, rest)
        where = f">= {least}" if least else ""
        avoids = never(rest)
    kind = {"f32": Kind.ARRAY, "i32": Kind.INTEGERS, "bool": Kind.BOOLS}[dtype]
    shown = _named(source, name, reading.shape.written)
    first, last = dims.ends
    return Clue(
        shown, spec, least_rank=dims.least_rank, domain=where, kind=kind, first=first, last=last, avoids=avoids,
        otherwise=_otherwise(dtype, axes, behind or _WORDS_OF_A_SENTENCE.sub("", ahead)),
    )  # fmt: skip


def _otherwise(dtype: str, axes: Sequence[str], behind: str) -> str:
    """The array with more axes, where its text has that behind its shape: `(B, C) or (B, T, C)`."""
    brackets = _OR_SHAPE.match(behind)
    dims = None if brackets is None else stated(brackets["dims"])
    more = dims is not None and not dims.is_open and len(dims.text.split()) > len(axes)
    return f"{dtype}[{dims.text}]" if dims is not None and more else ""


def _suits(where: str, axes: Sequence[str]) -> bool:
    """Can an array of these axes be in the domain?"""
    if where in _SQUARE:
        return len(axes) > 1 and axes[-1] == axes[-2]
    if where == "in orthogonal":
        return len(axes) > 1
    return bool(axes) or where not in (
        "in unit",
        "in nonzero",
        "in simplex",
        "in sorted",
        "in increasing",
    )


def _plain_value(name: str, reading: Reading, source: str) -> Clue:
    shown = _named(source, name, reading.about or "a scalar")
    if reading.sort in (Kind.NOTHING, Kind.WHOLE) and is_as_long(reading.about):
        return Clue(shown, domain=f">= {min(_LONG)}", values=_LONG, kind=Kind.WHOLE)
    if reading.sort is Kind.WHOLE:
        axis, values = usual_numbers(name)
        kind = Kind.AXIS if axis else Kind.WHOLE
        return Clue(shown, repr(values[0]), values=values, kind=kind)
    if reading.sort is Kind.FLAG:
        return Clue(shown, "False", values=(False, True), kind=Kind.FLAG)
    where = reading.domain if _suits(reading.domain, ()) else ""
    return Clue(shown, "f32[]", domain=where, kind=Kind.NUMBER)


def _loose(name: str, reading: Reading, source: str) -> Clue:
    """A number of axes, a domain, an integer array of no stated shape."""
    if _NO_ARRAY.fullmatch(name):  # but where it is one, as an annotation may say, it has a domain
        bound = reading.domain if reading.domain.startswith((">", "<")) else ""
        return Clue(_named(source, name, bound), domain=bound) if bound else Clue(source)
    loose = reading.shape
    shown = _named(source, name, loose.written if loose else reading.domain or reading.about)
    square = (loose is not None and loose.square) or reading.domain in _SQUARE
    if square and (loose is None or loose.rank != 1):
        lead = "lead " if loose is not None and loose.rank == 3 else ""
        spec = f"f32[{lead}n_{name} n_{name}]"
        return Clue(shown, spec, least_rank=2, domain=reading.domain, kind=Kind.ARRAY)
    where = "" if reading.domain in (*_SQUARE, "in orthogonal") else reading.domain
    rank = None if loose is None else loose.rank
    is_alike = bool(reading.same_as) and element_kind(reading.about) == "bool"
    if is_alike or array_of_booleans(reading.about):
        return Clue(shown, rank=rank, kind=Kind.BOOLS)
    if array_of_integers(reading.about):
        within = integer_range(reading.about)
        where = within if re.fullmatch(r"in -?\d+\.\.-?\d+", within) else ""
        return Clue(shown, rank=rank, domain=where, kind=Kind.INTEGERS)
    return Clue(shown, rank=rank, domain=where, kind=Kind.ARRAY if rank else Kind.NOTHING)


def _with_counts(told: Mapping[str, Clue], readings: Mapping[str, Reading]) -> dict[str, Clue]:
    """Arrays that count along an axis of another one hold integers up to its length: `n_dates (bonds,)` beside `(bonds, dates)`."""
    axes = {axis for clue in told.values() for axis in _AXIS.findall(clue.spec) if len(axis) > 1}
    return {
        name: clue
        if _NO_COUNT.search(readings[name].about)
        else _counts(clue, _counted(name), axes)
        for name, clue in told.items()
    }


def _counts(clue: Clue, counted: Collection[str], axes: Collection[str]) -> Clue:
    own = _AXIS.findall(clue.spec)
    along = next((axis for axis in sorted(axes) if axis in counted and axis not in own), "")
    if not (along and own and clue.kind is Kind.ARRAY and clue.spec.startswith("f32[")):
        return clue
    spec = f"i32{clue.spec.removeprefix('f32')} in 1..{along}"
    return replace(clue, spec=spec, kind=Kind.INTEGERS, domain=">= 1")


def _counted(name: str) -> Collection[str]:
    """What an axis may be called that a name counts along."""
    match = _COUNTS.fullmatch(name)
    what = "" if match is None else match["of"] or match["what"]
    return {what, f"{what}s", what.removesuffix("s")} if what else ()


def _named(source: str, name: str, written: str) -> str:
    """The source with the words that count: the docstring `x: (batch, dim)`."""
    short = " ".join(written.split()).strip(" :,;.`")
    short = short if len(short) <= _LONGEST else f"{short[: _LONGEST - 1].rstrip()}…"
    return f"{source} `{name}: {short}`" if short else source
