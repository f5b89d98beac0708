"""How far a change of the function or of the rule moves the gradient: two ways to look, one answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gradcheck_cli.adequacy.forward import backward, forward
from gradcheck_cli.adequacy.replay import NotReplayed, Replay, replay
from gradcheck_cli.adequacy.sample import Sample, beside
from gradcheck_cli.contract.limits import CHANGE_NOISE, CHANGE_ROUNDING, CHANGE_SEED, CHANGE_STEP
from gradcheck_cli.reals.program import Program

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Moves:
    """For each number that is compared: how far it moved, and how far matters there."""

    moved: Array
    scale: Array
    noise: Array

    def beyond(self, share: float) -> bool:
        """Has any number moved by more than this share of its scale, and by more than noise?"""
        with np.errstate(invalid="ignore"):
            far = self.moved > np.maximum(share * self.scale, 8 * self.noise)
        return bool((far | np.isnan(self.moved)).any())


class Watch(Protocol):
    """A program at judged rows, and at random ones beside them."""

    def affordable(self, most: int) -> int: ...
    def at_probes(self, program: Program) -> Moves | None: ...
    def at_random(self, program: Program) -> Moves | None: ...


class PrimalWatch:
    """Gradients of a changed function by differences of its values along one direction an argument.

    A direction moves all elements of an argument, so a change in any component of its gradient shows.
    """

    def __init__(self, pullback: Program, sample: Sample, values: int) -> None:
        self.program = forward(pullback, len(sample.points), values)
        self.sample = sample
        self._probes = _Slopes(self.program, sample.points, sample.cotangents)
        own = self._probes.slopes(self._probes.replay.outputs)
        products = [
            (g * v).reshape(sample.count, -1)
            for g, v in zip(sample.gradients, self._probes.directions, strict=True)
        ]
        self._size = np.stack([np.abs(p).max(axis=1, initial=0.0) for p in products])
        gaps = np.abs(own - np.stack([p.sum(axis=1) for p in products]))
        floor = np.maximum(self._size, self._probes.values)
        self._usable = gaps <= CHANGE_NOISE.value * floor
        self._noise = gaps + CHANGE_ROUNDING.value * self._probes.values
        if 2 * self._usable.sum() < self._usable.size:
            raise NotReplayed("differences of its values are not its gradient")
        self._random: _Slopes | None = None

    def affordable(self, most: int) -> int:
        return self._probes.replay.affordable(most)

    def at_probes(self, program: Program) -> Moves | None:
        return self._moves(self._probes, program, self._usable, self._size, self._noise)

    def at_random(self, program: Program) -> Moves | None:
        if self._random is None:
            rows, points = beside(self.sample.points, CHANGE_SEED.value)
            cotangents = [c[rows] for c in self.sample.cotangents]
            self._random = _Slopes(self.program, points, cotangents)
        slopes = self._random
        usable = np.isfinite(slopes.own)
        return self._moves(
            slopes, program, usable, np.abs(slopes.own), CHANGE_ROUNDING.value * slopes.values
        )

    @staticmethod
    def _moves(
        slopes: _Slopes, program: Program, usable: Array, size: Array, noise: Array
    ) -> Moves | None:
        outputs = slopes.replay.changed(program)
        if outputs is None:
            return None
        new = slopes.slopes(outputs)
        scale = np.maximum(size, np.nan_to_num(np.abs(new)))
        return Moves(np.abs(new - slopes.own)[usable], scale[usable], np.broadcast_to(noise, new.shape)[usable])  # fmt: skip


class _Slopes:
    """Values at both sides of some points, one direction for each argument."""

    def __init__(
        self, program: Program, points: Sequence[Array], cotangents: Sequence[Array]
    ) -> None:
        count, leaves = len(points[0]), len(points)
        self.cotangents, self.count, self.leaves = cotangents, count, leaves
        self.directions = [_direction(p, i) for i, p in enumerate(points)]
        sides = [
            [p + (CHANGE_STEP.value * sign * v if i == k else 0.0) for i, (p, v) in enumerate(zip(points, self.directions, strict=True))]
            for k in range(leaves)
            for sign in (1, -1)
        ]  # fmt: skip
        self.replay: Replay = replay(program, [np.concatenate(column) for column in zip(*sides, strict=True)])  # fmt: skip
        weighed = self._weighed(self.replay.outputs)
        self.values = np.nan_to_num(np.abs(weighed)).max(axis=1)
        self.own = self.slopes(self.replay.outputs)

    def slopes(self, outputs: Sequence[Array]) -> Array:
        """Arguments × rows: how fast the weighed value moves along each argument's direction."""
        weighed = self._weighed(outputs)
        with np.errstate(invalid="ignore"):
            return np.asarray((weighed[:, 0] - weighed[:, 1]) / (2 * CHANGE_STEP.value))

    def _weighed(self, outputs: Sequence[Array]) -> Array:
        """Arguments × sides × rows: the sum of all outputs by their cotangents."""
        total = np.zeros((self.leaves, 2, self.count))
        with np.errstate(invalid="ignore"):
            for out, weight in zip(outputs, self.cotangents, strict=True):
                each = np.asarray(out, np.float64).reshape(self.leaves, 2, self.count, -1)
                total += (each * weight.reshape(self.count, -1)).sum(axis=-1)
        return total


def _direction(points: Array, number: int) -> Array:
    """Generic numbers as large as the point's own."""
    rng = np.random.default_rng((CHANGE_SEED.value, number))
    shape = points.shape[1:]
    generic = rng.choice([-1.0, 1.0], shape) * rng.uniform(0.5, 1.5, shape)
    largest = np.abs(points).reshape(len(points), -1).max(axis=1, initial=0.0)
    least = np.where(largest > 0, largest / 64, 1.0).reshape(-1, *(1,) * len(shape))
    return np.asarray(generic * np.maximum(np.abs(points), least))


class RuleWatch:
    """Gradients of a changed rule, component by component."""

    def __init__(self, pullback: Program, sample: Sample, values: int) -> None:
        self.program = backward(pullback, values)
        self.sample = sample
        self._probes = replay(self.program, [*sample.points, *sample.cotangents])
        self._random: Replay | None = None

    def affordable(self, most: int) -> int:
        return self._probes.affordable(most)

    def at_probes(self, program: Program) -> Moves | None:
        return _components(self._probes, program, self.sample.gradients)

    def at_random(self, program: Program) -> Moves | None:
        if self._random is None:
            rows, points = beside(self.sample.points, CHANGE_SEED.value)
            cotangents = [c[rows] for c in self.sample.cotangents]
            self._random = replay(self.program, [*points, *cotangents])
        return _components(self._random, program, self._random.outputs)


def _components(own: Replay, program: Program, judged: Sequence[Array]) -> Moves | None:
    outputs = own.changed(program)
    if outputs is None:
        return None
    moved, scales, noises = [], [], []
    for before, after, exact in zip(own.outputs, outputs, judged, strict=True):
        old, new, sure = (np.asarray(a, np.float64).reshape(own.batch, -1) for a in (before, after, exact))  # fmt: skip
        with np.errstate(invalid="ignore"):
            size = np.maximum(np.abs(old), np.nan_to_num(np.abs(new)))
            largest = np.broadcast_to(size.max(axis=1, initial=0.0)[:, None], size.shape)
            noise = np.nan_to_num(np.abs(old - sure)) + CHANGE_ROUNDING.value * largest
            usable = np.isfinite(old)
            moved.append(np.abs(new - old)[usable])
        scales.append(largest[usable])
        noises.append(noise[usable])
    return Moves(*(np.concatenate(parts) for parts in (moved, scales, noises)))
