"""What a subject gives back: floats, programs over the reals, and where things are defined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradcheck_cli.reals.program import Program

Array = np.ndarray[Any, Any]
Pullback = Callable[[Sequence[Array]], list[Array]]  # cotangents to gradients

# The two float programs of a framework that compiles (SEMANTICS A1), and the one of one that does not.
JIT, OP_BY_OP, EAGER = "jit", "op-by-op", "eager"

# Whose numbers: the value that the rule's forward gives, the rule's gradient, autodiff's.
VALUE, CUSTOM, AUTO = "value", "custom", "auto"


@dataclass(frozen=True, slots=True)
class Floats:
    """Results in the framework's floats for a batch of probes, in one mode.

    Each list holds one array per output (values) or per differentiable leaf
    (gradients), with the batch axis first. `custom` is None for a function
    without a rule, `auto` where autodiff does not go through the primal.
    """

    value: list[Array]
    rule_value: list[Array]
    custom: list[Array] | None
    auto: list[Array] | None
    refused: Array | None = None  # rows at which the function raised: outside its domain


@dataclass(frozen=True, slots=True)
class Traces:
    """The programs over the reals: (leaves…, cotangents…) → (values…, gradients…)."""

    primal: Program | None  # None where autodiff does not go through it
    rule: Program | None
    trusting: Program | None = None  # autodiff that takes the user's inner rules at their word
    reason: str | None = None  # why there is no program, where the framework knows
    inner: tuple[str, ...] = ()  # the names of the user's inner rules
    solves: bool = False  # does one of these say that it is the solution of something?


@dataclass(frozen=True, slots=True)
class Reached:
    """Values and gradients in float64, rows first, where the loops have run on."""

    values: list[Array]
    gradients: list[Array]

    def sampled(self, sample: Sample) -> Reached:
        """The components that are judged, each output's and each argument's in a line."""
        return Reached(picked(self.values, sample.outputs), picked(self.gradients, sample.leaves))


@dataclass(frozen=True, slots=True)
class Limits:
    """What a function and its rule give after more trips of their loops, and after some more."""

    truth: tuple[Reached, Reached]
    rule: tuple[Reached, Reached]

    def sampled(self, sample: Sample) -> Limits:
        near, far = (reached.sampled(sample) for reached in self.truth)
        rule_near, rule_far = (reached.sampled(sample) for reached in self.rule)
        return Limits((near, far), (rule_near, rule_far))


def picked(arrays: Sequence[Array], places: Sequence[Array]) -> list[Array]:
    """The elements at these places of each array, rows first."""
    return [a.reshape(len(a), -1)[:, p] for a, p in zip(arrays, places, strict=True)]


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is defined."""

    path: str
    line: int
    qualname: str
    definition: str = ""  # the qualname of what made it, where it goes by another name
    siblings: tuple[str, ...] = ()  # the names of others that the same definition made
    made: int = 0  # the line of the call that made it, if that was seen
    invented: str = ""  # the function that cgcheck made up to get at it: `tanh` for `f`


@dataclass(frozen=True, slots=True)
class Spelled:
    """A derivative written as text: its program, and its floats for a batch of probes."""

    program: Program
    run: Callable[[Sequence[Array], Sequence[Array]], list[Array]]


@dataclass(frozen=True, slots=True)
class Sample:
    """Flat numbers of the components that are judged, for each output and each argument."""

    outputs: tuple[Array, ...]
    leaves: tuple[Array, ...]

    @property
    def size(self) -> int:
        return sum(map(len, (*self.outputs, *self.leaves)))


@dataclass(frozen=True, slots=True)
class Missing:
    """A gradient that is there and cannot be checked, with the reason."""

    place: Place
    reason: str
    is_scope: bool = False  # an enclosing function that could not be entered
    add: str = ""  # the line to add, if it is known


@dataclass(slots=True)
class Found:
    """What a framework's hooks recorded: an object, and the line that made it."""

    thing: object
    kind: str
    path: str
    line: int
    extra: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cut:
    """An axis of an array that a kernel takes in blocks of so many."""

    size: int
    block: int

    @property
    def longer(self) -> tuple[int, int]:
        """Sizes that would be three blocks, the last one ragged, and two."""
        return 2 * self.block + 1, 2 * self.block


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel that is called, by how its arrays are cut."""

    cuts: tuple[Cut, ...]
    programs: int = 1  # of its grid, where each is walked by itself; 0 where it has no grid

    @property
    def is_whole(self) -> bool:
        """Does it take all that it is given in one block, and would not take more so?"""
        return self.programs == 1 and all(cut.size <= cut.block for cut in self.cuts)
