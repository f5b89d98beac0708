"""Other ways to make a JAX call: one array for two arguments, inside scan, differentiated twice.

Batches run under vmap and inside a map already, jitted and op by op. These are traced and walked over
the reals: nothing is compiled for two rows, and there is no rounding between two ways.
"""

from __future__ import annotations

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
from gradcheck_cli.frameworks.seam import Slip, Way
from gradcheck_cli.frameworks.tracing import brief, cast, precision
from gradcheck_cli.reals.cost import by_flint
from gradcheck_cli.reals.precision import DEAR, enclose
from gradcheck_cli.reals.program import Program, build
from gradcheck_cli.reals.walk import NotCovered, uncovered
from gradcheck_cli.words import Severity

if TYPE_CHECKING:
    from gradcheck_cli.frameworks.jax.subject import JaxSubject

Array = np.ndarray[Any, Any]
Numbers = Sequence[Array]
Result = tuple[Sequence[Array | None], Sequence[Array]]
Function = Callable[..., Any]

IMPURE, CONTEXT, SECOND = "impure-rule", "context-dependent-gradient", "wrong-second-derivative"
_TWICE = "{}, the rule gives {}, autodiff through the primal gives {}"
_BITS = 40


class _Silent(Exception):
    """It has no meaning over the reals, or would cost too much: this way says nothing."""


def ways(subject: JaxSubject) -> list[Way]:
    """Those that apply to this signature."""
    if subject.loops:
        return []  # reverse mode through what is bounded for it is not what user code has
    own = _Ways(subject)
    found = [
        Way("inside scan", own.in_scan),
        Way("differentiated twice", own.second, SECOND, Severity.NOTE, _TWICE),
    ]
    if subject.gradient.kind != "custom_jvp":  # what has a forward and a backward may carry a state
        found.append(Way(BETWEEN, own.between, IMPURE, help=KEEP_IT))
    if alike(subject.leaves) is not None:
        found.append(Way("with one array for two arguments", own.one_for_two))
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

    def in_scan(self, point: Numbers, cotangent: Numbers) -> Result:
        """Two steps of the same, differentiated as a whole."""

        def looped(*xs: Any) -> Any:
            stacked = tuple(jnp.stack([x, x]) for x in xs)
            return jax.lax.scan(lambda carry, row: (carry, self.subject.rule(*row)), 0.0, stacked)[1]  # fmt: skip

        def pulled(*args: Any) -> Any:
            xs, cts = args[: self.count], args[self.count :]
            both = tuple(jnp.stack([ct, ct]) for ct in cts)
            return tuple(g / 2 for g in jax.vjp(looped, *xs)[1](both))

        return self._beside("inside scan", pulled, point, cotangent, self._plain)

    def one_for_two(self, point: Numbers, cotangent: Numbers) -> Result:
        """f(z, z): both paths count."""
        pair = alike(self.subject.leaves)
        assert pair is not None
        i, j = pair

        def shared(*xs: Any) -> Any:
            return self.subject.rule(*(xs[i] if k == j else x for k, x in enumerate(xs)))

        same = [point[i] if k == j else p for k, p in enumerate(point)]
        return self._beside(
            "with one array for two arguments", self._pulled(shared), same, cotangent,
            lambda p, c: summed(self._plain(p, c), pair),
        )  # fmt: skip

    def between(self, point: Numbers, cotangent: Numbers) -> Result:
        """Two calls, and the first is pulled back last: what is kept between must be its own."""
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
                told = f"{BETWEEN}, the rule raises {brief(error)}"
                raise Slip(IMPURE, Severity.ERROR, told) from None
        return [np.asarray(g, np.float64) for g in found], [np.asarray(g, np.float64) for g in plain]  # fmt: skip

    def second(self, point: Numbers, cotangent: Numbers) -> Result:
        """The rule differentiated again, against autodiff twice through the primal."""
        try:
            expected = self._twice("primal", self.subject.primal, point, cotangent)
            got = self._twice("rule", self.subject.rule, point, cotangent)
        except Exception:  # it says so itself, or has no meaning over the reals
            return self.nothing
        if not near(got[: self.count], expected[: self.count]):
            return self.nothing
        return got[self.count :], expected[self.count :]

    # -- pieces ---------------------------------------------------------------------------

    def _beside(
        self, name: str, function: Function, point: Numbers, cotangent: Numbers,
        plain: Callable[[Numbers, Numbers], list[Array]],
    ) -> Result:  # fmt: skip
        try:
            return self._walked(name, function, point, cotangent), plain(point, cotangent)
        except (_Silent, NotCovered):
            return self.nothing
        except Exception as error:
            told = f"{name}, the rule raises {brief(error)}"
            raise Slip(CONTEXT, Severity.ERROR, told) from None

    def _plain(self, point: Numbers, cotangent: Numbers) -> list[Array]:
        return self._walked("plain", self._pulled(self.subject.rule), point, cotangent)

    def _pulled(self, function: Function) -> Function:
        return lambda *args: jax.vjp(function, *args[: self.count])[1](tuple(args[self.count :]))

    def _twice(
        self, name: str, function: Function, point: Numbers, cotangent: Numbers
    ) -> list[Array]:
        """First and second derivatives."""
        pulled = self._pulled(function)

        def both(*args: Any) -> Any:
            def weighed(*xs: Any) -> tuple[Any, Any]:
                first = pulled(*xs, *args[self.count :])
                parts = (g.reshape(-1) @ jnp.asarray(shares(g.size), g.dtype) for g in first)
                return sum(parts, jnp.zeros((), first[0].dtype)), first

            places = tuple(range(self.count))
            (_, first), second = jax.value_and_grad(weighed, places, has_aux=True)(
                *args[: self.count]
            )
            return (*first, *second)

        return self._walked(f"twice {name}", both, point, cotangent)

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


def _middles(balls: Any) -> Array:
    """Midpoints, 0 for what may be 0; NaN where there is no number."""
    flat = np.asarray(balls, object).reshape(-1)
    numbers = [_number(ball) for ball in flat]
    return np.array(numbers, np.float64).reshape(np.shape(balls))


def _number(ball: arb) -> float:
    if not ball.is_finite():
        return float("nan")
    return 0.0 if ball.contains(0) else float(ball.mid())
