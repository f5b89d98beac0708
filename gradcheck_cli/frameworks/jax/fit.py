"""A JAX gradient put together with a signature: its subject, and what is to be had of it otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp

from gradcheck_cli.frameworks.jax.gradient import FUNCTION, JaxGradient
from gradcheck_cli.frameworks.jax.library import LIBRARY
from gradcheck_cli.frameworks.jax.other_calls import other_calls
from gradcheck_cli.frameworks.jax.random import with_new_draws
from gradcheck_cli.frameworks.jax.subject import JaxSubject, flat, host
from gradcheck_cli.frameworks.jax.trace import without_own_rules
from gradcheck_cli.frameworks.shared.library import Library, Stable, offered
from gradcheck_cli.frameworks.shared.tracing import brief, lacks_a_kernel, precision
from gradcheck_cli.inputs.signature import Signature
from gradcheck_cli.reals.program import build
from gradcheck_cli.subject.other_calls import OtherCall
from gradcheck_cli.subject.protocol import LibraryFunction
from gradcheck_cli.subject.refusals import Rejected, RuleError
from gradcheck_cli.subject.results import Array, Place, Spelled
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code


def fit(gradient: JaxGradient, signature: Signature, dtype: str) -> FittedJax:
    """Try the signature abstractly; `Rejected` if the function refuses it, `RuleError` if its rule does."""
    leaves = signature.leaves
    if not leaves:
        raise Rejected("no differentiable argument")
    avals = tuple(jax.ShapeDtypeStruct(leaf.shape, jnp.dtype(dtype)) for leaf in leaves)
    with precision(dtype):
        primal = flat(gradient.called(gradient.primal), signature)
        rule = flat(gradient.called(gradient.rule), signature)
        try:
            with calling_user_code():
                shapes = jax.eval_shape(primal, *avals)
        except UserCodeError as raised:
            raise Rejected(brief(raised.error)) from None
        if not shapes:
            raise Rejected("it returns no float array")
        return FittedJax(gradient, signature, dtype, avals, tuple(shapes), primal, rule)


def of_function(
    function: Callable[..., Any], name: str, place: Place, own: Callable[[str], bool]
) -> JaxGradient:
    """A plain function: its value and its automatic gradient are judged."""
    return JaxGradient(
        name=name, kind=FUNCTION, place=place, rule=function, primal=function, own=own, fitter=fit
    )


@dataclass(slots=True)
class FittedJax(JaxSubject):
    """A JAX gradient at one signature, with its other calls, library functions, keys and dtypes."""

    def in_float64(self) -> FittedJax | None:
        """In float64, its primal free of the user's own rules."""
        try:
            wide = fit(self.gradient, self.signature, "float64")
            with precision("float64"):
                bare = without_own_rules(wide.primal, self.gradient.own, *wide.avals)
        except (Rejected, UserCodeError):  # it insists on its own dtype
            return None
        return replace(wide, primal=bare, rule=wide.rule if self.gradient.has_rule else bare)

    def refusal(self, dtype: str) -> RuleError | None:
        """By a trace: nothing is compiled for another dtype."""
        try:
            other = fit(self.gradient, self.signature, dtype)
            with precision(dtype):
                other._rule_jaxpr()
        except RuleError as error:
            return None if lacks_a_kernel(error.message) else error
        except Rejected:
            return None
        return None

    def with_new_draws(
        self, seeds: int, point: Sequence[Array], cotangent: Sequence[Array], ends: Sequence[Array]
    ) -> tuple[list[Array], list[Array]] | None:
        def keyed(signature: Signature) -> JaxSubject:
            return fit(self.gradient, signature, self.dtype)

        return with_new_draws(self, keyed, seeds, point, cotangent, ends)

    def other_calls(self) -> Sequence[OtherCall]:
        return other_calls(self)

    # -- library functions ------------------------------------------------------------

    def library_functions(self) -> Iterator[LibraryFunction]:
        """Stable library functions at this signature, spelled for its arguments."""

        def fitted(stable: Stable, plain: Signature) -> FittedJax:
            gradient = of_function(
                stable.function, stable.value, self.gradient.place, lambda path: False
            )
            return fit(gradient, plain, self.dtype)

        return offered(self._library.table, self.leaves, fitted, self._spelled)

    @property
    def _library(self) -> Library:
        return self.gradient.library or LIBRARY

    def _spelled(self, text: str) -> Spelled | None:
        """A derivative written as text: (leaves…, cotangents…) → (gradients…)."""
        names = [leaf.path for leaf in self.leaves]
        if not all(name.isidentifier() for name in names):
            return None
        try:
            written = eval(f"lambda {', '.join(names)}, ct: {text}", dict(self._library.scope))  # noqa: S307
            with precision(self.dtype), calling_user_code():
                jaxpr = jax.make_jaxpr(written)(*self.avals, *self.out_avals)
        except (UserCodeError, SyntaxError):  # it does not fit these arguments
            return None
        program = build(jaxpr)

        def run(points: Sequence[Array], cotangents: Sequence[Array]) -> list[Array]:
            rows = [
                a.astype(v.dtype)
                for a, v in zip((*points, *cotangents), (*self.avals, *self.out_avals), strict=True)
            ]
            with precision(self.dtype):
                outs = jax.jit(lambda *args: jax.lax.map(lambda row: written(*row), args))(*rows)
            return host(jax.tree.leaves(outs), len(rows[0]))

        return Spelled(program, run)
