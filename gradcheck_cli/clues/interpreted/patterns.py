"""Shapes out of the texts of `einsum` and `rearrange`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gradcheck_cli.clues.interpreted.values import Dim, Shape

_GROUPS = re.compile(r"\(([^()]*)\)|(\S+)")


def einsum_shape(text: str, operands: Sequence[Shape]) -> Shape | None:
    """The shape of `einsum(text, …)`, where the text names each axis by a letter."""
    left, arrow, right = text.replace(" ", "").partition("->")
    terms = left.split(",")
    if not arrow or len(terms) != len(operands):
        return None
    sizes: dict[str, Dim] = {}
    for term, shape in zip(terms, operands, strict=True):
        if len(term) != len(shape) or not term.isalpha() * bool(term) + (not term):
            return None
        for letter, size in zip(term, shape, strict=True):
            if letter in sizes and sizes[letter] != size:
                return None
            sizes[letter] = size
    return tuple(sizes[c] for c in right) if all(c in sizes for c in right) else None


def rearranged(text: str, shape: Shape, sizes: Mapping[str, int]) -> Shape | None:
    """The shape of einops' `rearrange(x, text)`."""
    left, arrow, right = text.partition("->")
    before, after = _groups(left), _groups(right)
    if not arrow or len(before) != len(shape) or "..." in text:
        return None
    named: dict[str, Dim] = dict(sizes)
    for group, size in zip(before, shape, strict=True):
        if not _split(group, size, named):
            return None
    out: list[Dim] = []
    for group in after:
        size = _joined(group, named)
        if size is None:
            return None
        out.append(size)
    return tuple(out)


def _groups(text: str) -> list[list[str]]:
    return [m[1].split() if m[2] is None else [m[2]] for m in _GROUPS.finditer(text)]


def _split(group: Sequence[str], size: Dim, named: dict[str, Dim]) -> bool:
    """Give the names of a group their sizes; one may be missing."""
    if len(group) == 1 and not group[0].isdigit():
        return named.setdefault(group[0], size) == size
    missing = [n for n in group if n not in named and not n.isdigit()]
    rest = _joined([n for n in group if n not in missing], named)
    if len(missing) > 1 or not isinstance(size, int) or not isinstance(rest, int) or not rest:
        return False
    if size % rest or (not missing and size != rest):
        return False
    named |= dict.fromkeys(missing, size // rest)
    return True


def _joined(group: Sequence[str], named: Mapping[str, Dim]) -> Dim:
    if len(group) == 1 and not group[0].isdigit():
        return named.get(group[0])
    total = 1
    for name in group:
        size = int(name) if name.isdigit() else named.get(name)
        if not isinstance(size, int):
            return None
        total *= size
    return total
