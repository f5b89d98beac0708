"""Other ways to make a JAX call: mapped, inside scan, for some arguments or outputs alone, twice, …

Batches run jitted and op by op already. Most of these are traced and walked over the reals: nothing is
compiled for a row, and there is no rounding between two ways.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.frameworks.jax.devices import spread, two
from gradcheck_cli.frameworks.jax.leaks import tracers
from gradcheck_cli.frameworks.jax.over_reals import OverReals
from gradcheck_cli.frameworks.jax.subject import JaxSubject
from gradcheck_cli.frameworks.shared.other_calls import (
    ELSEWHERE,
    IMPURE,
    KEEP_IT,
    Derivatives,
    Make,
    Numbers,
    Result,
    alike,
    crossed,
    named,
    raising_counts,
    second_beside,
    shares,
    summed,
    twice,
    user_error_counts,
)
from gradcheck_cli.frameworks.shared.tracing import cast, precision
from gradcheck_cli.reals.walk import uncovered
from gradcheck_cli.subject.other_calls import OtherCall, WentWrong
from gradcheck_cli.subject.results import JIT, Array
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code

Function = Callable[..., Any]
Walk = Callable[[Numbers, Numbers], list[Array] | None]

_LEAKS = (
    "the rule leaves a tracer in `{}`: under `jit` it is dead when the trace is over, and whoever "
    "uses it gets an UnexpectedTracerError"
)
_THROUGH = "autodiff through the primal"


def other_calls(subject: JaxSubject) -> list[OtherCall]:
    """The other calls that apply to this signature."""
    if subject.loops:
        return []  # reverse mode through what is bounded for it is not what user code has
    own = _Ways(subject)
    calls = [
        OtherCall("under vmap", own.under_vmap),
        OtherCall("inside scan", own.beside(own.in_scan)),
        twice(own.second(own.reverse), _THROUGH),
        twice(own.second(own.forward), _THROUGH),
    ]
    if len(subject.leaves) > 1:  # the others are constants to it, or symbolic zeros
        calls.append(
            OtherCall("differentiated in one argument at a time", own.beside(own.each_argument))
        )
    if len(subject.outputs) > 1:
        calls.append(OtherCall("with one output used at a time", own.beside(own.each_output)))
    if subject.gradient.kind != "custom_jvp":  # what has a forward and a backward may carry a state
        calls.append(crossed(own.between))
    calls.append(OtherCall("traced", own.traced, IMPURE, Severity.WARNING, help=KEEP_IT))
    if alike(subject.leaves) is not None:
        calls.append(OtherCall("with one array for two arguments", own.one_for_two))
    if two() is not None:
        calls.append(OtherCall("spread over two devices", own.on_two_devices))
    return [named(way, subject) for way in calls]


class _Ways:
    """Functions of leaves and cotangents, each of which gives gradients in a way of its own."""

    def __init__(self, subject: JaxSubject) -> None:
        self.subject = subject
        self.count = len(subject.avals)
        self._plain = self._walk(self._pulled(subject.rule))

    # -- the ways -----------------------------------------------------------------------

    @functools.cached_property
    def under_vmap(self) -> Make:
        """The rule mapped over two rows, where vmap goes through the primal."""
        run = self.beside(self.mapped)
        return lambda point, cotangent: run(point, cotangent) if self._maps() else None

    def mapped(self, *args: Any) -> Any:
        """Two equal rows, as they come in a batch."""
        stacked = (jnp.stack([a, a]) for a in args)
        return tuple(g[0] for g in jax.vmap(self._pulled(self.subject.rule))(*stacked))

    def each_argument(self, *args: Any) -> Any:
        """Gradients of one argument at a time: to a rule with symbolic zeros, the others are constants."""
        xs, cts = args[: self.count], tuple(args[self.count :])

        def alone(i: int) -> Any:
            def one(x: Any) -> Any:
                return self.subject.rule(*xs[:i], x, *xs[i + 1 :])

            return jax.vjp(one, xs[i])[1](cts)[0]

        return tuple(alone(i) for i in range(self.count))

    def each_output(self, *args: Any) -> Any:
        """The sum of what each output gives alone, the other cotangents being symbolic zeros."""
        xs, cts = args[: self.count], args[self.count :]

        def alone(k: int) -> Any:
            def one(*xs: Any) -> Any:
                return self.subject.rule(*xs)[k]

            return jax.vjp(one, *xs)[1](cts[k])

        parts = map(alone, range(len(cts)))
        return tuple(sum(each[1:], each[0]) for each in zip(*parts, strict=True))

    def in_scan(self, *args: Any) -> Any:
        """The gradients through a scan of two equal steps."""

        def step(carry: float, row: Any) -> Any:
            return carry, self.subject.rule(*row)

        def looped(*xs: Any) -> Any:
            return jax.lax.scan(step, 0.0, tuple(jnp.stack([x, x]) for x in xs))[1]

        both = tuple(jnp.stack([ct, ct]) for ct in args[self.count :])
        return tuple(g / 2 for g in jax.vjp(looped, *args[: self.count])[1](both))

    def crossed(self, *args: Any) -> Any:
        """The gradients of a first call that is pulled back after a second one was made."""
        xs, cts = args[: self.count], args[self.count :]
        _, pull = jax.vjp(self.subject.rule, *xs)
        jax.vjp(self.subject.rule, *(ELSEWHERE * x for x in xs))
        return pull(tuple(cts))

    def reverse(self, pulled: Function, xs: Sequence[Any], cts: Sequence[Any]) -> Any:
        """The gradient, weighed, pulled back again."""

        def total(*xs: Any) -> Any:
            parts = (g.reshape(-1) @ _weights(g).reshape(-1) for g in pulled(*xs, *cts))
            return sum(parts, jnp.zeros((), xs[0].dtype))

        return jax.grad(total, tuple(range(self.count)))(*xs)

    def forward(self, pulled: Function, xs: Sequence[Any], cts: Sequence[Any]) -> Any:
        """The gradient's change along a direction, as a Hessian's product is made."""
        direction = tuple(map(_weights, xs))
        return jax.jvp(lambda *xs: tuple(pulled(*xs, *cts)), tuple(xs), direction)[1]

    @functools.cached_property
    def one_for_two(self) -> Make:
        """The gradient of f(z, z), in which both paths count."""
        pair = alike(self.subject.leaves)
        assert pair is not None
        i, j = pair

        def shared(*xs: Any) -> Any:
            return self.subject.rule(*(xs[i] if k == j else x for k, x in enumerate(xs)))

        def both_paths(point: Numbers, cotangent: Numbers) -> list[Array] | None:
            plain = self._plain(point, cotangent)
            return None if plain is None else summed(plain, pair)

        run = self.beside(self._pulled(shared), both_paths)
        return lambda point, cotangent: run(
            [point[i] if k == j else p for k, p in enumerate(point)], cotangent
        )

    @functools.cached_property
    def between(self) -> Make:
        walk = self._walk(self.crossed)

        def run(point: Numbers, cotangent: Numbers) -> Result:
            with user_error_counts(IMPURE):
                both = _both(walk, self._plain, point, cotangent)
            return both or self._between_eagerly(point, cotangent)

        return run

    def _between_eagerly(self, point: Numbers, cotangent: Numbers) -> Result:
        """The way `between` in floats, where there is no walk over the reals."""
        with precision(self.subject.dtype):
            leaves = cast(point, self.subject.avals)
            weights = tuple(cast(cotangent, self.subject.out_avals))
            try:
                with calling_user_code():
                    plain = jax.vjp(self.subject.rule, *leaves)[1](weights)
                    _, pull = jax.vjp(self.subject.rule, *leaves)
                    jax.vjp(self.subject.rule, *(ELSEWHERE * x for x in leaves))
            except UserCodeError:  # it says so itself, or it takes no such numbers
                return None
            with raising_counts(IMPURE):
                pulled = pull(weights)
        return [np.asarray(g, np.float64) for g in pulled], [np.asarray(g, np.float64) for g in plain]  # fmt: skip

    def traced(self, point: Numbers, cotangent: Numbers) -> Result:
        """A warning if tracing the rule leaves a tracer in the user's own variables."""
        functions = self.subject.gradient.rule_code()
        before = tracers(functions)
        if self.subject.rule_program() is None:  # it says so itself
            return None
        new = [name for key, name in tracers(functions).items() if key not in before]
        if new:
            raise WentWrong(IMPURE, Severity.WARNING, _LEAKS.format(new[0]))
        return None

    def on_two_devices(self, point: Numbers, cotangent: Numbers) -> Result:
        """The call compiled for two devices, beside what the plain batch gives.

        A program that is walked is pure: there only raising counts, as floats that differ are rounded
        differently, which at a step of the primal is quite another number.
        """
        with precision(self.subject.dtype):
            args = cast((*point, *cotangent), (*self.subject.avals, *self.subject.out_avals))
            if not self._maps():
                return None
            with raising_counts():
                gradients = self._spread(*args)
            program = self.subject.traces().rule
            if program is not None and not uncovered(program):
                return None
            rows = [np.asarray(a)[None] for a in (*point, *cotangent)]
            floats = self.subject.run(rows[: self.count], rows[self.count :], (JIT,))[JIT]
        return gradients, [g[0] for g in floats.custom or []]

    # -- pieces ---------------------------------------------------------------------------

    def beside(self, function: Function, plain: Walk | None = None) -> Make:
        """The function's gradients beside the plain ones, over the reals."""
        walk, expected = self._walk(function), plain or self._plain

        def run(point: Numbers, cotangent: Numbers) -> Result:
            with user_error_counts():
                return _both(walk, expected, point, cotangent)

        return run

    def second(self, again: Callable[[Function, Sequence[Any], Sequence[Any]], Any]) -> Make:
        """The rule's second derivative beside the primal's, where their first ones agree."""

        def both(function: Function) -> OverReals:
            pulled = self._pulled(function)

            def firsts_and_seconds(*args: Any) -> Any:
                xs, cts = args[: self.count], args[self.count :]
                return (*pulled(*args), *again(pulled, xs, cts))

            return self._walk(firsts_and_seconds)

        primal, rule = both(self.subject.primal), both(self.subject.rule)

        def run(point: Numbers, cotangent: Numbers) -> Result:
            expected = self._halves(primal, point, cotangent)
            return second_beside(expected and self._halves(rule, point, cotangent), expected)

        return run

    def _halves(self, walk: OverReals, point: Numbers, cotangent: Numbers) -> Derivatives | None:
        try:
            outs = walk(point, cotangent)
        except UserCodeError:  # it says so itself
            return None
        return None if outs is None else (outs[: self.count], outs[self.count :])

    @functools.cached_property
    def _spread(self) -> Callable[..., list[Array]]:
        avals = (*self.subject.avals, *self.subject.out_avals)
        return spread(self._pulled(self.subject.rule), avals)

    def _maps(self) -> bool:
        """Does vmap go through the primal?"""
        rows = [jax.ShapeDtypeStruct((2, *a.shape), a.dtype) for a in self.subject.avals]
        try:
            with precision(self.subject.dtype), calling_user_code():
                jax.eval_shape(jax.vmap(self.subject.primal), *rows)
        except UserCodeError:
            return False
        return True

    def _pulled(self, function: Function) -> Function:
        return lambda *args: jax.vjp(function, *args[: self.count])[1](tuple(args[self.count :]))

    def _walk(self, function: Function) -> OverReals:
        return OverReals(self.subject, function)


def _both(walk: Walk, plain: Walk, point: Numbers, cotangent: Numbers) -> Result:
    """The numbers of a way, and those that they must be, where both are to be had."""
    got = walk(point, cotangent)
    expected = None if got is None else plain(point, cotangent)
    return None if got is None or expected is None else (got, expected)


def _weights(x: Any) -> Any:
    return jnp.asarray(shares(x.size), x.dtype).reshape(x.shape)
