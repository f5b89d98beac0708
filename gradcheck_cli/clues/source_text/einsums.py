"""Strings that name axes: `einsum('bij,bjk->bik', a, b)` and einops' `rearrange(x, 'b (h d) -> b h d')`."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from gradcheck_cli.clues.source_text.computed import axis_of
from gradcheck_cli.clues.source_text.facts import Facts
from gradcheck_cli.clues.source_text.sizes import GROUPS
from gradcheck_cli.clues.source_text.values import (
    Call,
    Computed,
    Dim,
    Many,
    Part,
    Taken,
    Value,
    itself,
    whole,
    word,
)
from gradcheck_cli.inputs.clue import Kind

_EINOPS = ("rearrange", "reduce", "repeat", "pack", "einsum")
_DOTS = "..."
_TOKEN = re.compile(r"\.\.\.|…|\([^()]*\)|[A-Za-z_]\w*|\d+|\*")
_LETTERS = re.compile(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*")


@dataclass(frozen=True, slots=True)
class Pattern:
    """The axes of one operand: names, numbers, `...`, or a group in brackets."""

    axes: tuple[str, ...]

    @property
    def dots(self) -> int | None:
        return self.axes.index(_DOTS) if _DOTS in self.axes else None


def call(made: Call, facts: Facts) -> Value:
    """Ranks and names of the axes of each operand."""
    if made.name not in _EINOPS:
        return None
    operands = [o for value in made.operands for o in _flat(value)]
    texts = [word(o) for o in operands]
    text = next((t for t in texts if t is not None), None)
    if text is None:
        return None
    spaced = " " in text.partition("->")[0].strip().replace(", ", ",")
    if made.name != "einsum" and "->" not in text:
        return None
    if spaced or made.name != "einsum":
        arrays = operands[: texts.index(text)] or operands[1:]
        patterns = _spaced(text)
    else:
        arrays, patterns = (
            [o for o, t in zip(operands, texts, strict=True) if t is None],
            _packed(text),
        )
    if patterns is None or len(patterns) != len(arrays):
        return None
    scope = facts.new_scope()
    for value, pattern in zip(arrays, patterns, strict=True):
        if isinstance(value, Taken):
            _of_rows(value, pattern, scope, facts)
        if isinstance(value, Part):
            _state(value, pattern, scope, made, facts)
    result = text.partition("->")[2].replace(" ", "")
    return _result(result, arrays, patterns) if made.name == "einsum" and result.isalpha() else None


def _result(letters: str, arrays: Sequence[Value], patterns: Sequence[Pattern]) -> Value:
    """The array that a product of arrays gives, whose axes have these letters."""
    sizes = {
        name: axis_of(array, place - len(pattern.axes))
        for array, pattern in zip(arrays, patterns, strict=True)
        for place, name in enumerate(pattern.axes)
        if isinstance(array, Part)
    }
    return Computed(tuple(sizes.get(letter) for letter in letters), whole=True)


def _flat(value: Value) -> Sequence[Value]:
    return value.items if isinstance(value, Many) else (value,)


def _packed(text: str) -> list[Pattern] | None:
    """`bij,...jk->bik`: a letter for each axis."""
    operands = text.replace(" ", "").partition("->")[0].split(",")
    if not all(_LETTERS.fullmatch(o) for o in operands):
        return None
    return [Pattern(tuple(re.findall(r"\.\.\.|[A-Za-z]", o))) for o in operands]


def _spaced(text: str) -> list[Pattern] | None:
    """`b (h d) t -> b h d t`: a word for each axis."""
    operands = text.partition("->")[0].split(",")
    patterns = []
    for operand in operands:
        if _TOKEN.sub("", operand).strip():
            return None
        tokens = [_DOTS if t in ("…", "*") else t for t in _TOKEN.findall(operand)]
        patterns.append(Pattern(tuple(tokens)))
    return patterns


def _of_rows(rows: Taken, pattern: Pattern, scope: str, facts: Facts) -> None:
    """The axes of the integers come first, then those of the table but its first."""
    if pattern.dots is not None or not all(name.isalpha() for name in pattern.axes):
        return
    facts.rank(rows.table, len(pattern.axes) - rows.rank + 1)
    for place, name in enumerate(pattern.axes):
        inner = place - rows.rank + 1
        dim = Dim(rows.ids, place) if inner < 1 else facts.axis(rows.table, inner)
        facts.name(dim, name, scope)


def _state(part: Part, pattern: Pattern, scope: str, made: Call, facts: Facts) -> None:
    count, dots = len(pattern.axes), pattern.dots
    if dots is None:
        facts.rank(part, count)
    else:
        facts.least_rank(part, count - 1)
    for place, name in enumerate(pattern.axes):
        if place == dots:
            continue
        axis = place if dots is None or place < dots else place - count
        dim = facts.axis(part, axis)
        if name.isdigit():
            facts.size(dim, int(name))
        elif name.startswith("("):
            _group(part, axis, name.strip("()").split(), made, facts)
        else:
            facts.name(dim, name, scope, rank=1)


def _group(part: Part, axis: int, names: Sequence[str], made: Call, facts: Facts) -> None:
    """`(h d)` with `h=heads`: the axis is a multiple of `heads`."""
    dim = facts.axis(part, axis)
    for name in names:
        length = made.keywords.get(name)
        if itself(length) is not None:
            facts.kind(length, Kind.WHOLE, GROUPS)
            facts.divides(length, dim)
    lengths = [whole(made.keywords.get(name)) for name in names]
    if lengths and None not in lengths:
        facts.size(dim, math.prod(n for n in lengths if n is not None))
