"""Iterations that run on (SEMANTICS B6): the same program with more trips of each loop that may seek a limit.

A loop may seek one if it carries numbers, and neither takes a row of anything at each trip nor collects
one. Whether it has found one is a matter of numbers: those after more trips, and after more still.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core as jex

from gradcheck_cli.contract.limits import FEWEST_TRIPS
from gradcheck_cli.frameworks.shared.batches import batch_size, padded
from gradcheck_cli.frameworks.shared.equations import (
    Values,
    asked_in,
    bind,
    evaluate,
    inner_jaxprs,
    retraced,
)
from gradcheck_cli.frameworks.shared.rolled import rolled
from gradcheck_cli.frameworks.shared.tracing import precision, with_jacobian, with_pullback
from gradcheck_cli.reals.facts import LOOPS, OPEN_LOOPS, Law, named
from gradcheck_cli.reals.inner_jaxprs import JAX_FOLDER, held_and_carried, inlined
from gradcheck_cli.reals.program import Program
from gradcheck_cli.subject.results import Limits, Reached
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]
# Trips of the function's own loops: in a rule, a few trips of another number seek nothing. None: in the function.
Counts = frozenset[int] | None

# Trips beyond a loop's own, and some more: an odd number, so that a cycle of two shows.
_MORE, _AND_MORE = 256, 37
_MOST = 2000  # trips of a loop that a condition ends
_TIMES = 3  # of a counted loop's own trips
_OFFERED = ("fori_loop", "scan", "while_loop")  # by JAX; a library's own loops are its business
_CONTROL = named(lambda facts: facts.law is Law.CONTROL)
_INDEXING = named(lambda facts: facts.law is Law.INDEXING)


@dataclass(slots=True)
class Iteration:
    """A function as float64 traces: itself, and its rule with (values, gradients)."""

    forward: Any
    rule: Any
    _compiled: list[Function] | None = None

    def limits(self, points: Sequence[Array], cotangents: Sequence[Array]) -> Limits | None:
        """What function and rule give where their loops have run on; None if none seeks a limit."""
        if not _has_seeker(self.forward.jaxpr):
            return None
        rows = [np.asarray(a, np.float64) for a in (*points, *cotangents)]
        count, size = len(points[0]), batch_size(len(points[0]))
        with precision("float64"):
            try:
                self._compiled = self._compiled or self._all_four()
            except UserCodeError:  # nothing differentiates it
                return None
            full = [padded(a, size, "float64") for a in rows]
            near, far, *rule = (self._reached(f, full, count) for f in self._compiled)
        return Limits((near, far), (rule[0], rule[1]))

    def ended(
        self, points: Sequence[Array], cotangents: Sequence[Array]
    ) -> tuple[Reached, Reached] | None:
        """What function and rule give at the end of their loops; None if nothing differentiates the function."""
        count, size = len(points[0]), batch_size(len(points[0]))
        with precision("float64"):
            full = [
                padded(np.asarray(a, np.float64), size, "float64") for a in (*points, *cotangents)
            ]
            both = (self._pullback(0), self._rule(0))
            try:
                truth, rule = (
                    self._reached(jax.jit(functools.partial(_mapped, f)), full, count) for f in both
                )
            except UserCodeError:
                return None
        return truth, rule

    def _all_four(self) -> list[Function]:
        """Function and rule after more trips and after some more, each as a map over rows."""
        rules = [self._rule(more) for more in (0, _AND_MORE)]
        functions: list[Function] = [self._pullback(0), self._pullback(_AND_MORE), *rules]
        return [jax.jit(functools.partial(_mapped, function)) for function in functions]

    def _rule(self, more: int) -> Function:
        """The rule; where it counts a few trips that are not the function's, these are its formula, and no iteration that was stopped."""
        return functools.partial(
            _ran_on, self.rule, more, own=frozenset(_counts(self.forward.jaxpr))
        )

    def _pullback(self, more: int) -> Function:
        """(leaves…, cotangents…) → values and gradients of the function: in reverse mode, or else in forward mode."""
        count = len(self.forward.in_avals)
        function = functools.partial(_ran_on, self.forward, more)
        reverse = with_pullback(function, count)
        avals = [*self.forward.in_avals, *self.forward.out_avals]
        structs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals]
        try:
            with calling_user_code():
                jax.make_jaxpr(reverse)(*structs)
        except UserCodeError:
            return with_jacobian(function, count)
        return reverse

    def _reached(self, function: Function, rows: Sequence[Array], count: int) -> Reached:
        """Values and gradients of all rows."""
        with calling_user_code():
            outs = [np.asarray(out, np.float64)[:count] for out in function(*rows)]
        values = len(self.forward.out_avals)
        return Reached(outs[:values], outs[values:])


def may_iterate(program: Program | None) -> bool:
    """Is there a loop in it, or one operation again and again, as where a loop was unrolled?"""
    if program is None:
        return False
    counts = Counter(step.name for step in program.steps)
    return (
        bool(program.primitives() & LOOPS) or max(counts.values(), default=0) >= FEWEST_TRIPS.value
    )


def _ran_on(closed: Any, more: int, *args: Any, own: Counts = None) -> tuple[Any, ...]:
    return tuple(run_on(closed, args, more, own))


def _mapped(function: Function, *rows: Any) -> Any:
    return lax.map(lambda row: jax.tree.leaves(function(*row)), rows)


def run_on(closed: Any, args: Sequence[Any], more: int, own: Counts = None) -> list[Any]:
    """The program's outputs where each loop that seeks a limit makes more trips than its own."""

    def equation(eqn: Any, values: list[Any]) -> list[Any]:
        if _seeks(eqn, own):
            return _longer(eqn, values, more)
        if not any(_has_seeker(inner, own) for inner in inner_jaxprs(eqn)):
            return bind(eqn, values)
        if eqn.primitive.name in _CONTROL:
            return bind(eqn, values, _longer_inside(eqn, more, own))
        body = inlined(eqn)
        return bind(eqn, values) if body is None else run_on(body, values, more, own)

    loop = rolled(closed.jaxpr)

    def after(number: int, values: Values) -> None:
        if loop is None or number != loop.last:
            return
        state = [values[var] for var in loop.results]
        trips = _MORE + _TIMES * loop.trips + more
        state = _repeated(lambda inner: loop.trip(inner, values), state, trips)
        values.update(zip(loop.results, state, strict=True))

    return evaluate(closed, args, equation, after)


def _repeated(trip: Function, state: list[Any], trips: int) -> list[Any]:
    return list(lax.scan(lambda inner, _: (trip(inner), None), state, None, length=trips)[0])


def _longer(eqn: Any, values: list[Any], more: int) -> list[Any]:
    """The loop, and after it as many trips again, and some."""
    p = eqn.params
    if eqn.primitive.name in OPEN_LOOPS:
        first = p["cond_nconsts"]
        constants, body = values[first : first + p["body_nconsts"]], p["body_jaxpr"]
        trips, ended = _MORE, _cut(eqn, values)
    else:
        constants, body = values[: held_and_carried(p)[0]], p["jaxpr"]
        trips, ended = _MORE + _TIMES * p["length"], bind(eqn, values)

    trip = functools.partial(jex.jaxpr_as_fun(body), *constants)
    return _repeated(lambda state: trip(*state), list(ended), trips + more)


def _cut(eqn: Any, values: list[Any]) -> list[Any]:
    """The loop itself, which ends after very many trips in any case."""
    p = eqn.params
    first, last = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
    condition, body = jex.jaxpr_as_fun(p["cond_jaxpr"]), jex.jaxpr_as_fun(p["body_jaxpr"])

    def goes_on(state: Any) -> Any:
        return jnp.all(condition(*values[:first], *state[1])[0]) & (state[0] < _MOST)

    def trip(state: Any) -> Any:
        return state[0] + 1, body(*values[first:last], *state[1])

    return list(lax.while_loop(goes_on, trip, (0, list(values[last:])))[1])


def _longer_inside(eqn: Any, more: int, own: Counts) -> dict[str, Any]:
    """The parameters of an equation that controls others, with the loops in these running on."""

    def changed(sub: Any) -> Any:
        if type(sub) is tuple:  # of branches
            return tuple(map(changed, sub))
        if not isinstance(sub, jex.ClosedJaxpr) or not _has_seeker(sub.jaxpr, own):
            return sub
        return retraced(sub, lambda *args: run_on(sub, args, more, own))

    return {key: changed(value) for key, value in eqn.params.items()}


def _has_seeker(jaxpr: Any, own: Counts = None) -> bool:
    each = (
        _seeks(eqn, own) or any(_has_seeker(inner, own) for inner in inner_jaxprs(eqn))
        for eqn in jaxpr.eqns
    )
    return any(each) or rolled(jaxpr) is not None


def _seeks(eqn: Any, own: Counts) -> bool:
    p, name = eqn.params, eqn.primitive.name
    if name in OPEN_LOOPS:
        body, first = p["body_jaxpr"].jaxpr, p["body_nconsts"]
    elif name == "scan":
        body, (first, carries) = p["jaxpr"].jaxpr, held_and_carried(p)
        rows = len(body.invars) > first + carries or len(body.outvars) > carries
        if rows or p["length"] < 2 or _is_a_formula(p["length"], own):
            return False
    else:
        return False
    carried = [v for v in body.invars[first:] if hasattr(v.aval, "dtype")]
    kinds = {np.dtype(v.aval.dtype).kind for v in carried}
    counters = [v for v in carried if np.dtype(v.aval.dtype).kind == "i"]
    by_place = _takes_rows_by(body, counters)
    return "f" in kinds and not by_place and not asked_in(eqn, _OFFERED).startswith(JAX_FOLDER)


def _is_a_formula(trips: int, own: Counts) -> bool:
    return own is not None and trips < FEWEST_TRIPS.value and trips not in own


def _counts(jaxpr: Any) -> Iterator[int]:
    """The trips of all counted loops of a program."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "scan":
            yield eqn.params["length"]
        for inner in inner_jaxprs(eqn):
            yield from _counts(inner)


def _takes_rows_by(jaxpr: Any, counters: Sequence[Any]) -> bool:
    """Is a row of anything taken by what is computed of these?"""
    counted = {*counters}
    for eqn in jaxpr.eqns if counted else ():
        if not any(isinstance(v, jex.Var) and v in counted for v in eqn.invars):
            continue
        if eqn.primitive.name in _INDEXING or any(map(_takes_rows, inner_jaxprs(eqn))):
            return True
        counted.update(eqn.outvars)
    return False


def _takes_rows(jaxpr: Any) -> bool:
    return any(
        eqn.primitive.name in _INDEXING or any(map(_takes_rows, inner_jaxprs(eqn)))
        for eqn in jaxpr.eqns
    )
