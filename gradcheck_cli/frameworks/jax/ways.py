"""Other ways to make a JAX call: mapped, inside scan, for some arguments or outputs alone, twice, …

Batches run jitted and op by op already. Most of these are traced and walked over the reals: nothing is
compiled for a row, and there is no rounding between two ways.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from flint import arb

from gradcheck_cli.frameworks.compared import (
    BETWEEN,
    ELSEWHERE,
    KEEP_IT,
    alike,
    near,
    shares,
    summed,
)
from gradcheck_cli.frameworks.jax.devices import spread, two
from gradcheck_cli.frameworks.jax.leaks import tracers
from gradcheck_cli.frameworks.seam import JIT, Slip, Way
from gradcheck_cli.frameworks.tracing import brief, cast, precision
from gradcheck_cli.reals.cost import by_flint
from gradcheck_cli.reals.precision import DEAR, enclose
from gradcheck_cli.reals.program import Program, build
from gradcheck_cli.reals.walk import NoRealMeaning, uncovered
from gradcheck_cli.words import Severity

if TYPE_CHECKING:
    from gradcheck_cli.frameworks.jax.subject import JaxSubject

Array = np.ndarray[Any, Any]
Numbers = Sequence[Array]
Result = tuple[Sequence[Array | None], Sequence[Array]]
Function = Callable[..., Any]

IMPURE, CONTEXT, SECOND = "impure-rule", "context-dependent-gradient", "wrong-second-derivative"
_LEAKS = (
    "the rule leaves a tracer in `{}`: under `jit` it is dead when the trace is over, and whoever "
    "uses it gets an UnexpectedTracerError"
)
_TWICE = "{}, the rule gives {}, autodiff through the primal gives {}"
_VMAP, _SCAN, _ONE_FOR_TWO = "under vmap", "inside scan", "with one array for two arguments"
_EACH_ARGUMENT = "differentiated in one argument at a time"
_EACH_OUTPUT = "with one output used at a time"
_TWO_DEVICES = "spread over two devices"
_AGAIN = "differentiated twice"
_BITS = 40


class _Silent(Exception):
    """It has no meaning over the reals, or would cost too much: this way says nothing."""


def ways(subject: JaxSubject) -> list[Way]:
    """Those that apply to this signature."""
    if subject.loops:
        return []  # reverse mode through what is bounded for it is not what user code has
    own = _Ways(subject)
    found = [
        Way(_VMAP, own.mapped),
        Way(_SCAN, own.in_scan),
        Way(_AGAIN, own.reverse_over_reverse, SECOND, Severity.NOTE, _TWICE),
        Way(_AGAIN, own.forward_over_reverse, SECOND, Severity.NOTE, _TWICE),
    ]
    if len(subject.leaves) > 1:  # the others are constants to it, or symbolic zeros
        found.append(Way(_EACH_ARGUMENT, own.each_argument))
    if len(subject.outputs) > 1:
        found.append(Way(_EACH_OUTPUT, own.each_output))
    if subject.gradient.kind != "custom_jvp":  # what has a forward and a backward may carry a state
        found.append(Way(BETWEEN, own.between, IMPURE, help=KEEP_IT))
    found.append(Way("traced", own.traced, IMPURE, Severity.WARNING, help=KEEP_IT))
    if alike(subject.leaves) is not None:
        found.append(Way(_ONE_FOR_TWO, own.one_for_two))
    if two() is not None:
        found.append(Way(_TWO_DEVICES, own.on_two_devices))
    return found


class _Ways:
    def __init__(self, subject: JaxSubject) -> None:
        self.subject = subject
        self.count = len(subject.avals)
        self.nothing: Result = (
            [None] * self.count, [np.zeros(leaf.shape) for leaf in subject.leaves],
        )  # fmt: skip
        self._programs: dict[str, Program] = {}

    # -- the ways -----------------------------------------------------------------------

    def mapped(self, point: Numbers, cotangent: Numbers) -> Result:
        """Two equal rows, as they come in a batch; of what the primal cannot do, nothing is asked."""
        pulled = self._pulled(self.subject.rule)

        def rows(*args: Any) -> Any:
            found = jax.vmap(pulled)(*(jnp.stack([a, a]) for a in args))
            return tuple(g[0] for g in found)

        if not self._maps():
            return self.nothing
        return self._beside(_VMAP, rows, point, cotangent, self._plain)

    def each_argument(self, point: Numbers, cotangent: Numbers) -> Result:
        """To a rule with symbolic zeros, the others are not perturbed."""

        def each(*args: Any) -> Any:
            xs, cts = args[: self.count], tuple(args[self.count :])

            def alone(i: int) -> Any:
                def one(x: Any) -> Any:
                    return self.subject.rule(*xs[:i], x, *xs[i + 1 :])

                return jax.vjp(one, xs[i])[1](cts)[0]

            return tuple(alone(i) for i in range(self.count))

        return self._beside(_EACH_ARGUMENT, each, point, cotangent, self._plain)

    def each_output(self, point: Numbers, cotangent: Numbers) -> Result:
        """The other cotangents are symbolic zeros; together they give the whole."""

        def each(*args: Any) -> Any:
            xs, cts = args[: self.count], args[self.count :]

            def alone(k: int) -> Any:
                def one(*xs: Any) -> Any:
                    return self.subject.rule(*xs)[k]

                return jax.vjp(one, *xs)[1](cts[k])

            parts = map(alone, range(len(cts)))
            return tuple(sum(found[1:], found[0]) for found in zip(*parts, strict=True))

        return self._beside(_EACH_OUTPUT, each, point, cotangent, self._plain)

    def traced(self, point: Numbers, cotangent: Numbers) -> Result:
        """A trace is over when it is over: nothing of it stays in the user's own variables."""
        functions = self.subject.gradient.rule_code()
        before = tracers(functions)
        try:
            self.subject.rule_program()
        except Exception:  # it says so itself
            return self.nothing
        new = [name for key, name in tracers(functions).items() if key not in before]
        if new:
            raise Slip(IMPURE, Severity.WARNING, _LEAKS.format(new[0]))
        return self.nothing

    def on_two_devices(self, point: Numbers, cotangent: Numbers) -> Result:
        """Compiled for both, beside what the plain batch gives.

        A program that is walked is pure: there only raising counts, as floats that differ are rounded
        differently, which at a step of the primal is quite another number.
        """
        with precision(self.subject.dtype):
            args = cast((*point, *cotangent), (*self.subject.avals, *self.subject.out_avals))
            if not self._maps():
                return self.nothing
            try:
                found = self._spread(*args)
            except Exception as error:
                told = f"{_TWO_DEVICES}, the rule raises {brief(error)}"
                raise Slip(CONTEXT, Severity.ERROR, told) from None
            program = self.subject.traces().rule
            if program is not None and not uncovered(program):
                return self.nothing
            rows = [np.asarray(a)[None] for a in (*point, *cotangent)]
            floats = self.subject.run(rows[: self.count], rows[self.count :], (JIT,))[JIT]
        return found, [g[0] for g in floats.custom or []]

    def in_scan(self, point: Numbers, cotangent: Numbers) -> Result:
        """Two steps of the same, differentiated as a whole."""

        def looped(*xs: Any) -> Any:
            stacked = tuple(jnp.stack([x, x]) for x in xs)
            return jax.lax.scan(lambda carry, row: (carry, self.subject.rule(*row)), 0.0, stacked)[1]  # fmt: skip

        def pulled(*args: Any) -> Any:
            xs, cts = args[: self.count], args[self.count :]
            both = tuple(jnp.stack([ct, ct]) for ct in cts)
            return tuple(g / 2 for g in jax.vjp(looped, *xs)[1](both))

        return self._beside(_SCAN, pulled, point, cotangent, self._plain)

    def one_for_two(self, point: Numbers, cotangent: Numbers) -> Result:
        """f(z, z): both paths count."""
        pair = alike(self.subject.leaves)
        assert pair is not None
        i, j = pair

        def shared(*xs: Any) -> Any:
            return self.subject.rule(*(xs[i] if k == j else x for k, x in enumerate(xs)))

        same = [point[i] if k == j else p for k, p in enumerate(point)]
        return self._beside(
            _ONE_FOR_TWO, self._pulled(shared), same, cotangent,
            lambda p, c: summed(self._plain(p, c), pair),
        )  # fmt: skip

    def between(self, point: Numbers, cotangent: Numbers) -> Result:
        """Two calls, and the first is pulled back last: what is kept between must be its own."""

        def crossed(*args: Any) -> Any:
            xs, cts = args[: self.count], args[self.count :]
            _, pull = jax.vjp(self.subject.rule, *xs)
            jax.vjp(self.subject.rule, *(ELSEWHERE * x for x in xs))
            return pull(tuple(cts))

        try:
            return self._walked(BETWEEN, crossed, point, cotangent), self._plain(point, cotangent)
        except (_Silent, NoRealMeaning):
            return self._between_eagerly(point, cotangent)
        except Exception as error:
            raise _impure(error) from None

    def _between_eagerly(self, point: Numbers, cotangent: Numbers) -> Result:
        """The same where there is no walk."""
        with precision(self.subject.dtype):
            leaves = cast(point, self.subject.avals)
            weights = tuple(cast(cotangent, self.subject.out_avals))
            try:
                plain = jax.vjp(self.subject.rule, *leaves)[1](weights)
                _, pull = jax.vjp(self.subject.rule, *leaves)
                jax.vjp(self.subject.rule, *(ELSEWHERE * x for x in leaves))
            except Exception:  # it says so itself, or it takes no such numbers
                return self.nothing
            try:
                found = pull(weights)
            except Exception as error:
                raise _impure(error) from None
        return [np.asarray(g, np.float64) for g in found], [np.asarray(g, np.float64) for g in plain]  # fmt: skip

    def reverse_over_reverse(self, point: Numbers, cotangent: Numbers) -> Result:
        """The gradient, weighed, pulled back again."""

        def weighed(pulled: Function, xs: Sequence[Any], cts: Sequence[Any]) -> Any:
            def total(*xs: Any) -> Any:
                parts = (g.reshape(-1) @ _weights(g).reshape(-1) for g in pulled(*xs, *cts))
                return sum(parts, jnp.zeros((), xs[0].dtype))

            return jax.grad(total, tuple(range(self.count)))(*xs)

        return self._twice("reverse", weighed, point, cotangent)

    def forward_over_reverse(self, point: Numbers, cotangent: Numbers) -> Result:
        """How the gradient changes along a direction, as a Hessian's product is made."""

        def along(pulled: Function, xs: Sequence[Any], cts: Sequence[Any]) -> Any:
            way = tuple(map(_weights, xs))
            return jax.jvp(lambda *xs: tuple(pulled(*xs, *cts)), tuple(xs), way)[1]

        return self._twice("forward", along, point, cotangent)

    # -- pieces ---------------------------------------------------------------------------

    def _beside(
        self, name: str, function: Function, point: Numbers, cotangent: Numbers,
        plain: Callable[[Numbers, Numbers], list[Array]],
    ) -> Result:  # fmt: skip
        try:
            return self._walked(name, function, point, cotangent), plain(point, cotangent)
        except (_Silent, NoRealMeaning):
            return self.nothing
        except Exception as error:
            told = f"{name}, the rule raises {brief(error)}"
            raise Slip(CONTEXT, Severity.ERROR, told) from None

    @functools.cached_property
    def _spread(self) -> Callable[..., list[Array]]:
        avals = (*self.subject.avals, *self.subject.out_avals)
        return spread(self._pulled(self.subject.rule), avals)

    def _maps(self) -> bool:
        """Does vmap go through the primal?"""
        rows = [jax.ShapeDtypeStruct((2, *a.shape), a.dtype) for a in self.subject.avals]
        try:
            with precision(self.subject.dtype):
                jax.eval_shape(jax.vmap(self.subject.primal), *rows)
        except Exception:
            return False
        return True

    def _plain(self, point: Numbers, cotangent: Numbers) -> list[Array]:
        return self._walked("plain", self._pulled(self.subject.rule), point, cotangent)

    def _pulled(self, function: Function) -> Function:
        return lambda *args: jax.vjp(function, *args[: self.count])[1](tuple(args[self.count :]))

    def _twice(
        self, name: str, again: Callable[[Function, Sequence[Any], Sequence[Any]], Any],
        point: Numbers, cotangent: Numbers,
    ) -> Result:  # fmt: skip
        """The rule's second derivative beside the primal's, where their first ones agree."""

        def both(function: Function) -> Function:
            pulled = self._pulled(function)

            def found(*args: Any) -> Any:
                xs, cts = args[: self.count], args[self.count :]
                return (*pulled(*args), *again(pulled, xs, cts))

            return found

        try:
            expected = self._walked(f"{name} primal", both(self.subject.primal), point, cotangent)
            got = self._walked(f"{name} rule", both(self.subject.rule), point, cotangent)
        except Exception:  # it says so itself, or has no meaning over the reals
            return self.nothing
        if not near(got[: self.count], expected[: self.count]):
            return self.nothing
        return got[self.count :], expected[self.count :]

    def _walked(
        self, name: str, function: Function, point: Numbers, cotangent: Numbers
    ) -> list[Array]:
        """The function's numbers at this row, over the reals; traced once."""
        if name not in self._programs:
            with precision(self.subject.dtype):
                avals = (*self.subject.avals, *self.subject.out_avals)
                self._programs[name] = build(jax.make_jaxpr(function)(*avals))
        program = self._programs[name]
        if uncovered(program) or by_flint(program) > DEAR:
            raise _Silent
        row = [np.asarray(a, np.float64)[None] for a in (*point, *cotangent)]
        outs = enclose(program, row, goal=_BITS).outs
        return [_middles(out[0]) for out in outs]


def _weights(x: Any) -> Any:
    return jnp.asarray(shares(x.size), x.dtype).reshape(x.shape)


def _impure(error: Exception) -> Slip:
    return Slip(IMPURE, Severity.ERROR, f"{BETWEEN}, the rule raises {brief(error)}")


def _middles(balls: Any) -> Array:
    """Midpoints, 0 for what may be 0; NaN where there is no number."""
    flat = np.asarray(balls, object).reshape(-1)
    numbers = [_number(ball) for ball in flat]
    return np.array(numbers, np.float64).reshape(np.shape(balls))


def _number(ball: arb) -> float:
    if not ball.is_finite():
        return float("nan")
    return 0.0 if ball.contains(0) else float(ball.mid())
