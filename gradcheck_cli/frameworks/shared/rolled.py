"""Loops that a trace has unrolled: the same few equations again and again, each time on what they gave before.

A Python loop leaves no loop in a trace. What repeats is found again by its equations and by where their
inputs come from: a literal, something from before the loop, the same trip, or the trip before.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from jax.extend import core as jex

from gradcheck_cli.contract.limits import FEWEST_TRIPS
from gradcheck_cli.frameworks.shared.equations import bind

_LONGEST = 120  # equations of one trip


@dataclass(frozen=True, slots=True)
class Rolled:
    """The last trip of an unrolled loop: its equations, and what of it the next trip or the rest reads."""

    last: int  # the number of its last equation
    trips: int
    block: tuple[Any, ...]
    before: Mapping[
        Any, int
    ]  # what it reads of the trip before, as the place of that among the results
    results: tuple[Any, ...]

    def trip(self, state: Sequence[Any], env: Mapping[Any, Any]) -> list[Any]:
        """The results of one more trip after these."""
        made: dict[Any, Any] = {var: state[place] for var, place in self.before.items()}

        def read(atom: Any) -> Any:
            if isinstance(atom, jex.Literal):
                return atom.val
            return made[atom] if atom in made else env[atom]

        for eqn in self.block:
            made.update(zip(eqn.outvars, bind(eqn, list(map(read, eqn.invars))), strict=True))
        return [made[var] for var in self.results]


class _Made(NamedTuple):
    """Where a variable is made: in which trip, by which equation of it, as which of its outputs."""

    trip: int
    place: tuple[int, int]


@functools.lru_cache(maxsize=64)
def rolled(jaxpr: Any) -> Rolled | None:
    """The longest loop that was unrolled into these equations, if there is one."""
    kinds = [_kind(eqn) for eqn in jaxpr.eqns]
    for start, period, length in _repetitions(kinds):
        for phase in range(period):
            first, trips = start + phase, (length - phase) // period
            found = _loop(jaxpr, first, period, trips) if trips >= FEWEST_TRIPS.value else None
            if found is not None:
                return found
    return None


def _kind(eqn: Any) -> tuple[str, ...]:
    """What an equation does, whatever it does it to."""
    literals = (str(v.val) if isinstance(v, jex.Literal) else str(v.aval) for v in eqn.invars)
    return (eqn.primitive.name, str(eqn.params), *literals, *(str(v.aval) for v in eqn.outvars))


def _repetitions(kinds: Sequence[Any]) -> Iterator[tuple[int, int, int]]:
    """Stretches of equations that repeat: (start, period, length), short periods first."""
    count = len(kinds)
    for period in range(1, min(_LONGEST, count // FEWEST_TRIPS.value) + 1):
        longest, start, here = 0, 0, 0
        for i in range(count - period):
            here = here + 1 if kinds[i] == kinds[i + period] else 0
            if here > longest:
                longest, start = here, i - here + 1
        if longest >= period * (FEWEST_TRIPS.value - 1):
            yield start, period, longest + period


def _loop(jaxpr: Any, first: int, period: int, trips: int) -> Rolled | None:
    """The stretch as a loop, if each trip takes its inputs from the same places."""
    end = first + period * trips
    made = {
        var: _Made(number // period, (number % period, output))
        for number, eqn in enumerate(jaxpr.eqns[first:end])
        for output, var in enumerate(eqn.outvars)
    }
    wiring = [_wiring(jaxpr.eqns[i : i + period], made, n) for n, i in enumerate(range(first, end, period))]  # fmt: skip
    if any(each is None or each != wiring[-1] for each in wiring[1:]):
        return None
    used = [v for eqn in jaxpr.eqns[end:] for v in eqn.invars] + list(jaxpr.outvars)
    later = [v for v in used if not isinstance(v, jex.Literal) and v in made]
    if any(made[v].trip != trips - 1 for v in later):
        return None  # the rest reads of a trip before the last one
    return _rolled(jaxpr, end, period, trips, made, later)


def _rolled(
    jaxpr: Any, end: int, period: int, trips: int, made: Mapping[Any, _Made], later: Sequence[Any]
) -> Rolled | None:
    block = tuple(jaxpr.eqns[end - period : end])
    here = {made[var].place: var for eqn in block for var in eqn.outvars}
    read = dict.fromkeys(v for eqn in block for v in eqn.invars if not isinstance(v, jex.Literal))
    carried = [v for v in read if v in made and made[v].trip == trips - 2]
    if not carried:
        return None  # no trip knows of the one before
    order = list(dict.fromkeys(made[v].place for v in (*carried, *later)))
    before = {v: order.index(made[v].place) for v in carried}
    return Rolled(end - 1, trips, block, before, tuple(here[place] for place in order))


def _wiring(block: Sequence[Any], made: Mapping[Any, _Made], trip: int) -> list[Any] | None:
    """Where the inputs of one trip come from; None if from another trip than this one and the one before."""
    sources: list[Any] = []
    for eqn in block:
        for atom in eqn.invars:
            if isinstance(atom, jex.Literal):
                sources.append(str(atom.val))
            elif atom not in made:
                sources.append(atom)
            else:
                back = trip - made[atom].trip
                if back not in (0, 1):
                    return None
                sources.append((back, made[atom].place))
    return sources
