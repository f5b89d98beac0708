"""Arguments of one call as clues: their sizes by name, or small where numbers hang on them.

A size of the source is one dimension over all arguments of the call, so that what is equal stays equal.
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gradcheck_cli.clues.interpreted.arguments import kind_of
from gradcheck_cli.clues.interpreted.values import (
    A_FLOAT,
    FLOAT,
    INT,
    KEY,
    Array,
    Bound,
    Definition,
    Dim,
    Instance,
    Library,
    Sum,
    Symbol,
    Value,
)
from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.inputs.held_shapes import row_length

_AXES = re.compile(r"(f32|i32|bool)\[([^\]]*)\]")
_NAME = re.compile(r"(?<!\w)(?<!\w\.)[^\W\d]\w*(?!\w*[:=\[])")  # a size, but no key and no type
_KEY = re.compile(r"\w[\w./ -]*")
_DEEPEST = 3  # nestings that are looked into
_PAIRS = frozenset({1, 2, 3})  # lengths of tuples that are sizes, ends or axes
_FIRST_ONES = 4  # places that a stencil may need before the least that an example names
_LARGEST = 16  # a size that is larger shrinks
_ARRAYS = {FLOAT: Kind.ARRAY, INT: Kind.INTEGERS}
_PLAIN = {bool: Kind.FLAG, int: Kind.WHOLE, float: Kind.NUMBER, str: Kind.WORD}
_JOINT = ("simplex", "unit", "sorted")
_SQUARE = ("spd", "orthogonal")


def read_arguments(
    values: Mapping[str, Value],
    source: str,
    differentiable: Collection[str],
    defaults: Collection[Value] = (),
) -> dict[str, Clue]:
    """A clue for each argument that can be read; for each array in it, if it is nested.

    `defaults` are those of the parameters that the call leaves out.
    """
    leaves = [leaf for name, value in values.items() for leaf in _leaves(name, value)]
    numbers = [n for _, value in leaves for n in _whole_numbers(value)]
    arrays = [value for _, value in leaves if isinstance(value, Array)]
    small = _small(arrays, numbers) if _hangs_on_numbers(arrays, numbers) else None
    rows = frozenset(map(row_length, (*(value for _, value in leaves), *defaults)))
    sizes = _Sizes(small, rows, of_one_item=_of_one_item(arrays))
    clues: dict[str, Clue] = {}
    for path, value in leaves:
        clue = _clue(value, source, sizes, path in differentiable)
        if clue is not None:
            clues[path] = clue
    for name, value in values.items():
        if name not in clues and any(path.startswith((f"{name}[", f"{name}.")) for path in clues):
            clues[name] = Clue(source, spec=_tree(name, value, clues), kind=Kind.TREE)
    return clues


def with_names_of(
    calls: Mapping[str, Clue], others: Sequence[tuple[str, Sequence[Clue]]]
) -> dict[str, Clue]:
    """The clues of a call, with the names that another source has for the same dimensions."""
    names: dict[str, str] = {}
    for path, clues in others:
        here = _dimensions(calls[path].spec) if path in calls else []
        there = next((_dimensions(clue.spec) for clue in clues if clue.spec), [])
        if len(here) == len(there):
            pairs = zip(here, there, strict=True)
            names |= {
                a: b for a, b in pairs if a.isidentifier() and b.isidentifier() and a not in names
            }
    if len(set(names.values())) < len(names):  # two sizes of the call have one name
        return dict(calls)
    return {path: replace(clue, spec=_renamed(clue.spec, names)) for path, clue in calls.items()}


def _dimensions(spec: str) -> list[str]:
    """The dimensions of an array that a spec names."""
    match = _AXES.match(spec)
    return match[2].split() if match else []


def _renamed(spec: str, names: Mapping[str, str]) -> str:
    return spec if spec[:1] in ("'", '"') else _NAME.sub(lambda m: names.get(m[0], m[0]), spec)


def _tree(path: str, value: Value, clues: Mapping[str, Clue]) -> str:
    """A nested argument as comments have it, `{w: f32[n k], b: f32[k]}`; nothing if a part is unknown."""
    if path in clues:
        clue = clues[path]
        return f"{clue.spec} {clue.domain}".rstrip()
    items = _items(path, value)
    parts = [_tree(inner, item, clues) for inner, item in items]
    if isinstance(value, Instance) or not items or not all(parts):
        return ""
    if isinstance(value, dict):
        keys = [str(key) for key in value]
        named = [f"{key}: {part}" for key, part in zip(keys, parts, strict=True)]
        return f"{{{', '.join(named)}}}" if all(map(_KEY.fullmatch, keys)) else ""
    if isinstance(value, list):
        return f"[{', '.join(parts)}]"
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _leaves(path: str, value: Value, deep: int = _DEEPEST) -> Iterator[tuple[str, Value]]:
    """The arrays in a nested argument, each with its path; any other argument as it is."""
    items = _items(path, value)
    if not _holds_array(items, deep):
        yield path, value
        return
    for inner, item in items:
        yield from _leaves(inner, item, deep - 1)


def _items(path: str, value: Value) -> list[tuple[str, Value]]:
    if isinstance(value, dict):
        return [(f"{path}[{key!r}]", item) for key, item in value.items()]
    if isinstance(value, (tuple, list)):
        return [(f"{path}[{i}]", item) for i, item in enumerate(value)]
    if isinstance(value, Instance):
        return [(f"{path}.{name}", item) for name, item in value.attributes.items()]
    return []


def _holds_array(items: Sequence[tuple[str, Value]], deep: int) -> bool:
    """Is one of the items an array, or has one in it? Objects may hold themselves."""
    return deep > 0 and any(
        isinstance(item, Array) or _holds_array(_items(path, item), deep - 1)
        for path, item in items
    )


def _whole_numbers(value: Value) -> list[int]:
    """Whole numbers that sizes may hang on: a count, a kernel; no axis, no flag."""
    if isinstance(value, tuple):
        return [n for v in value for n in _whole_numbers(v)]
    return [value] if type(value) is int and value > 1 else []


def _hangs_on_numbers(arrays: Sequence[Array], numbers: Sequence[int]) -> bool:
    """Do numbers of the call speak of sizes, so that these cannot be chosen freely?"""
    sizes: set[Dim] = set()
    for array in arrays:
        sizes |= set(array.shape)
        if array.kind == INT and math.isfinite(array.range.high):
            count = int(array.range.high) + 1
            if count > 1 and count not in sizes:
                return True
    return bool(numbers)


def _small(arrays: Sequence[Array], numbers: Sequence[int]) -> dict[int, int]:
    """For each size a number: itself, or a small one that is a multiple of what it was a multiple of."""
    sizes = sorted({d for a in arrays for d in a.shape if isinstance(d, int)})
    small = {size: size for size in sizes if size <= _LARGEST}
    for size in sizes:
        if size <= _LARGEST:
            continue
        parts = [n for n in numbers if n < size and size % n == 0]
        step = math.lcm(*parts) if parts else 1
        least = max([2, *(n + 1 for n in numbers if n < size and n <= _LARGEST and size % n)])
        number = step * max(2, -(-least // step))
        while number in small.values() and number < size:
            number += step
        small[size] = min(number, size)
    return small


def _of_one_item(arrays: Sequence[Array]) -> bool:
    """Are all arrays, and several, lists of one: an example of one item, of which there may be more?"""
    shapes = [array.shape for array in arrays if array.shape]
    return len(shapes) > 1 and all(shape == (1,) for shape in shapes)


@dataclass(slots=True)
class _Sizes:
    """Names (or small numbers) of sizes, the same for all arguments of one call."""

    small: Mapping[int, int] | None
    rows: frozenset[int] = frozenset()  # lengths of tuples of numbers, which stay as they are
    of_one_item: bool = False
    names: dict[Symbol, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def text(self, size: Dim) -> str:
        """A size as a comment has it; nothing if it is open."""
        if isinstance(size, Symbol):
            return self._named(size)
        if isinstance(size, Sum):
            return self._sum(size)
        if size is None:
            return ""
        if size == 0 or (size == 1 and not self.of_one_item) or size in self.rows - _PAIRS:
            return str(size)
        if self.small is not None:
            return str(self.small[size])
        self.used.add(f"d{size}")
        return f"d{size}"

    def end(self, count: int) -> str:
        """The end of a range of whole numbers: a size that is named already, or a number."""
        if self.small is not None:
            return str(self.small.get(count, count))
        return f"d{count}" if count != 1 and f"d{count}" in self.used else str(count)

    def number(self, value: int) -> int:
        """A plain number that is a size as well shrinks with it."""
        if self.small is None or value <= _LARGEST:
            return value
        return self.small.get(value, value)

    def _sum(self, size: Sum) -> str:
        names = [(self._named(symbol), count) for symbol, count in size.terms]
        terms = "+".join(name if count == 1 else f"{count}*{name}" for name, count in names)
        return f"{terms}{size.constant:+d}" if size.constant else terms

    def _named(self, symbol: Symbol) -> str:
        if symbol not in self.names:
            plain = re.sub(r"\W", "_", symbol.name)
            taken = {*self.names.values(), *self.used}
            name = plain if plain.isidentifier() and not keyword.iskeyword(plain) else "n"
            while name in taken or re.fullmatch(r"d\d+", name):
                name += "_"
            self.names[symbol] = name
        return self.names[symbol]


def _clue(value: Value, source: str, sizes: _Sizes, differentiable: bool) -> Clue | None:
    if isinstance(value, Array):
        return _of_array(value, source, sizes)
    if value is KEY:
        return Clue(source, kind=Kind.KEY)
    if value is A_FLOAT:
        return Clue(source, spec="f32[]", rank=0, kind=Kind.NUMBER)
    if isinstance(value, (Definition, Bound)):
        return Clue(source, kind=Kind.FUNCTION)
    if isinstance(value, Library):
        return Clue(source, kind=Kind.DTYPE) if kind_of(value) is not None else None
    if type(value) is int:
        value = sizes.number(value)
    return _plain(value, source, differentiable) if _is_plain(value) else None


def _plain(value: Value, source: str, differentiable: bool) -> Clue:
    """A clue of a value that is no array; a float may be one where it is differentiated."""
    kind = _PLAIN.get(type(value), Kind.NOTHING)
    spec = "f32[]" if kind is Kind.NUMBER and differentiable else repr(value)
    rank = 0 if kind in (Kind.NUMBER, Kind.WHOLE) else None
    return Clue(source, spec=spec, rank=rank, values=(value,), kind=kind)


def _is_plain(value: Value) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str))


def _of_array(array: Array, source: str, sizes: _Sizes) -> Clue:
    rank, kind = len(array.shape), _ARRAYS.get(array.kind, Kind.BOOLS)
    texts = [sizes.text(size) for size in array.shape]
    domain = _domain(array) if array.kind == FLOAT else ""
    if not all(texts):
        return Clue(source, rank=rank, domain=domain, kind=kind)
    spec = f"{array.kind}[{' '.join(texts)}] {_span(array, sizes)}".rstrip()
    return Clue(source, spec=spec, rank=rank, domain=domain, kind=kind)


def _span(array: Array, sizes: _Sizes) -> str:
    """The range of whole numbers; its end may be the size of an axis.

    Of places in an axis an example names a few: the range is wider by its own width, but for the first ones,
    which a stencil may need before it.
    """
    low, high = array.range.low, array.range.high
    if array.kind != INT or not math.isfinite(low) or not math.isfinite(high):
        return ""
    end = sizes.end(int(high) + 1)
    least = int(low) if end.isdecimal() else max(min(int(low), _FIRST_ONES), int(2 * low - high))
    return f"in {least}..{end}"


def _domain(array: Array) -> str:
    square = len(array.shape) >= 2 and array.shape[-1] == array.shape[-2]
    fits = (array.family in _JOINT and bool(array.shape)) or (array.family in _SQUARE and square)
    return f"in {array.family}" if fits or array.family == "binary" else array.range.text
