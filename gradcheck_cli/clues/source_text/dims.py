"""Dimensions that a text says are equal: axes of arrays, and the names that they are given."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from gradcheck_cli.clues.source_text.values import Dim
from gradcheck_cli.inputs.names import is_extent, is_slid


@dataclass(frozen=True, slots=True)
class Label:
    """A name of a dimension inside of one text, or of one string of `einsum`."""

    scope: str
    name: str
    rank: int = 0  # names of a lower rank are chosen first


Node = Dim | Label


@dataclass(slots=True)
class Dims:
    """Classes of equal dimensions, with sizes where the text has them."""

    parents: dict[Node, Node] = field(default_factory=dict)
    sizes: dict[Dim, int] = field(default_factory=dict)
    least_sizes: dict[Dim, int] = field(default_factory=dict)
    columns: dict[Dim, set[int]] = field(default_factory=dict)  # which are read one by one
    factors: dict[Dim, int] = field(default_factory=dict)  # each size is a multiple of this
    multiples: dict[Dim, tuple[int, Dim]] = field(default_factory=dict)  # so many times another

    def join(self, one: Node, other: Node) -> None:
        """One class of two."""
        first, second = self.root(one), self.root(other)
        if first != second:
            self.parents[second] = first

    def root(self, node: Node) -> Node:
        """The node that stands for the class of this one."""
        self.parents.setdefault(node, node)
        while self.parents[node] != node:
            node = self.parents[node]
        return node

    def classes(self) -> list[list[Node]]:
        """The classes, each in the order in which its nodes were met."""
        groups: dict[Node, list[Node]] = {}
        for node in self.parents:
            groups.setdefault(self.root(node), []).append(node)
        return list(groups.values())

    def texts(self, ranks: dict[str, int]) -> dict[Dim, str]:
        """A name or a size for each axis that the text speaks of, no name for two classes."""
        for node in [n for n in self.parents if isinstance(n, Dim)]:
            if node.axis < 0 and node.path in ranks:
                self.join(Dim(node.path, node.axis + ranks[node.path]), node)
        names: dict[Dim, str] = {}
        taken: set[str] = set()
        for nodes in self.classes():
            axes = [n for n in nodes if isinstance(n, Dim)]
            sizes = {self.sizes[a] for a in axes if a in self.sizes}
            if len(sizes) == 1:
                names |= dict.fromkeys(axes, str(sizes.pop()))
                continue
            labels = sorted((n for n in nodes if isinstance(n, Label)), key=lambda n: n.rank)
            name = _unused([n.name for n in labels] or _of_axis(axes), taken)
            taken.add(name)
            factor = math.lcm(*(self.factors.get(a, 1) for a in axes))
            slides = is_extent(name) or any(is_slid(axis.path) for axis in axes)
            names |= dict.fromkeys(axes, _multiple(name, factor, slides=slides))
        return names | self._of_multiples(names)

    def _of_multiples(self, names: dict[Dim, str]) -> dict[Dim, str]:
        """The texts of dimensions that are so many times another one, all that are equal to one of them."""
        texts: dict[Dim, str] = {}
        for dim, (count, other) in self.multiples.items():
            root, text = self.root(dim), names.get(other, "*")
            if root == self.root(other) or "*" in text or names.get(dim, "").isdigit():
                continue
            same = [d for d in names if self.root(d) == root]
            texts |= dict.fromkeys(
                same, str(count * int(text)) if text.isdigit() else f"{count}*{text}"
            )
        return texts

    def least_size(self, axis: Dim, ranks: dict[str, int]) -> int:
        """The size that the text asks of this axis at least; 0 where it asks nothing."""
        return max((self.least_sizes.get(a, 0) for a in _same(axis, ranks)), default=0)

    def seems_full(self, axis: Dim, ranks: dict[str, int]) -> bool:
        """Are all its places that must be there read one by one, as those of coordinates are?"""
        read = {n for a in _same(axis, ranks) for n in self.columns.get(a, ())}
        return read == set(range(self.least_size(axis, ranks)))


def _same(axis: Dim, ranks: dict[str, int]) -> set[Dim]:
    """The axis, counted from the front and from the back."""
    rank = ranks.get(axis.path)
    return {axis} if rank is None else {axis, Dim(axis.path, axis.axis - rank)}


def _multiple(name: str, factor: int, *, slides: bool) -> str:
    """The text of an axis that a text divides by a number: half of a window is what lies beside its centre."""
    if factor == 1:
        return name
    return f"2*{name}_half+1" if factor == 2 and slides else f"{factor}*{name}_part"


def _of_axis(axes: Iterable[Dim]) -> list[str]:
    """A name for axes that have none: of the array and its axis."""
    for axis in sorted(axes, key=lambda axis: axis.axis < 0):
        letters = "".join(c if c.isalnum() else "_" for c in axis.path).strip("_")
        return [f"{letters}_{axis.axis}".replace("-", "m")]
    return ["n"]


def _unused(names: Iterable[str], taken: set[str]) -> str:
    choices = list(names)
    for name in choices:
        if name not in taken:
            return name
    number = 2
    while f"{choices[0]}{number}" in taken:
        number += 1
    return f"{choices[0]}{number}"
