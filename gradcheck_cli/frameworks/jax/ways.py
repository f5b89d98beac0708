"""Other ways to make a JAX call: one array for two arguments, inside scan, again, twice.

Batches run under vmap and inside a map already, jitted and op by op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from gradcheck_cli.frameworks.compared import alike, near, shares, summed
from gradcheck_cli.frameworks.seam import Slip, Way
from gradcheck_cli.frameworks.tracing import brief, precision
from gradcheck_cli.words import Severity

if TYPE_CHECKING:
    from gradcheck_cli.frameworks.jax.subject import JaxSubject

Array = np.ndarray[Any, Any]
Numbers = Sequence[Array]
Result = tuple[Sequence[Array | None], Sequence[Array]]

CONTEXT, SECOND = "context-dependent-gradient", "wrong-second-derivative"
_TWICE = "{}, the rule gives {}, autodiff through the primal gives {}"


def ways(subject: JaxSubject) -> list[Way]:
    """Those that apply to this signature."""
    if subject.loops:
        return []  # reverse mode through what is bounded for it is not what user code has
    own = _Ways(subject)
    found = [
        Way("inside scan", own.in_scan),
        Way("differentiated twice", own.second, SECOND, Severity.NOTE, _TWICE),
    ]
    if alike(subject.leaves) is not None:
        found.append(Way("with one array for two arguments", own.one_for_two))
    return found


class _Ways:
    def __init__(self, subject: JaxSubject) -> None:
        self.subject = subject

    def arrays(self, point: Numbers, cotangent: Numbers) -> tuple[list[Any], list[Any]]:
        avals = (*self.subject.avals, *self.subject.out_avals)
        made = [
            jnp.asarray(np.asarray(a), aval.dtype)
            for a, aval in zip((*point, *cotangent), avals, strict=True)
        ]
        return made[: len(point)], made[len(point) :]

    def plain(self, leaves: Sequence[Any], cts: Sequence[Any]) -> list[Array]:
        return _host(jax.vjp(self.subject.rule, *leaves)[1](tuple(cts)))

    def other(self, name: str, make: Callable[[], list[Array]]) -> list[Array]:
        """The other way; raising there is a slip of its own."""
        try:
            return make()
        except Exception as error:
            told = f"{name}, the rule raises {brief(error)}"
            raise Slip(CONTEXT, Severity.ERROR, told) from None

    def in_scan(self, point: Numbers, cotangent: Numbers) -> Result:
        """Two steps of the same, differentiated as a whole."""
        with precision(self.subject.dtype):
            leaves, cts = self.arrays(point, cotangent)

            def looped(*xs: Any) -> Any:
                stacked = tuple(jnp.stack([x, x]) for x in xs)
                step = lambda carry, row: (carry, self.subject.rule(*row))  # noqa: E731
                return jax.lax.scan(step, 0.0, stacked)[1]

            def made() -> list[Array]:
                both = tuple(jnp.stack([ct, ct]) for ct in cts)
                return [g / 2 for g in _host(jax.vjp(looped, *leaves)[1](both))]

            return self.other("inside scan", made), self.plain(leaves, cts)

    def one_for_two(self, point: Numbers, cotangent: Numbers) -> Result:
        """f(z, z): both paths count."""
        pair = alike(self.subject.leaves)
        assert pair is not None
        i, j = pair
        with precision(self.subject.dtype):
            leaves, cts = self.arrays(point, cotangent)
            leaves[j] = leaves[i]

            def shared(*xs: Any) -> Any:
                return self.subject.rule(*(xs[i] if k == j else x for k, x in enumerate(xs)))

            def made() -> list[Array]:
                return _host(jax.vjp(shared, *leaves)[1](tuple(cts)))

            name = "with one array for two arguments"
            return self.other(name, made), summed(self.plain(leaves, cts), pair)

    def second(self, point: Numbers, cotangent: Numbers) -> Result:
        """The rule differentiated again, against autodiff twice through the primal."""
        nothing: Result = [None] * len(point), [np.zeros(np.shape(p)) for p in point]
        with precision(self.subject.dtype):
            leaves, cts = self.arrays(point, cotangent)
            expected = self._second(self.subject.primal, leaves, cts)
            got = self._second(self.subject.rule, leaves, cts)
        if expected is None or got is None or not near(got[0], expected[0]):
            return nothing
        return got[1], expected[1]

    def _second(
        self, function: Callable[..., Any], leaves: Sequence[Any], cts: Sequence[Any]
    ) -> tuple[list[Array], list[Array]] | None:
        """First and second derivatives; None if it raises, as rules that cannot be do."""

        def weighed(*xs: Any) -> tuple[Any, Any]:
            first = jax.vjp(function, *xs)[1](tuple(cts))
            total = sum(jnp.sum(g.reshape(-1) * jnp.asarray(shares(g.size), g.dtype)) for g in first)  # fmt: skip
            return total, first

        try:
            places = tuple(range(len(leaves)))
            (_, first), second = jax.value_and_grad(weighed, places, has_aux=True)(*leaves)
            return _host(first), _host(second)
        except Exception:
            return None


def _host(arrays: Sequence[Any]) -> list[Array]:
    return [np.asarray(a).astype(np.float64) for a in arrays]
