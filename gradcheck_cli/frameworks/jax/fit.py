"""A JAX gradient put together with a signature: a subject that has other calls, keys and dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from gradcheck_cli.frameworks.jax.call import flat
from gradcheck_cli.frameworks.jax.devices import floats_on_device
from gradcheck_cli.frameworks.jax.gradient import JaxGradient
from gradcheck_cli.frameworks.jax.other_calls import other_calls
from gradcheck_cli.frameworks.jax.random import with_new_draws
from gradcheck_cli.frameworks.jax.subject import JaxSubject
from gradcheck_cli.frameworks.shared.tracing import precision, refused
from gradcheck_cli.inputs.signature import Signature
from gradcheck_cli.subject.other_calls import OtherCall
from gradcheck_cli.subject.refusals import TO_THE_END, Rejected
from gradcheck_cli.subject.results import Array
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
                if gradient.makes_weights:
                    primal(*(jnp.ones(aval.shape, aval.dtype) for aval in avals))
                shapes = jax.eval_shape(primal, *avals)
        except UserCodeError as raised:
            raise refused(raised.error, gradient) from None
        if not shapes:
            raise Rejected("it returns no float array", progress=TO_THE_END)
        return FittedJax(
            gradient=gradient, signature=signature, dtype=dtype,
            avals=avals, out_avals=tuple(shapes), primal=primal, rule=rule,
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class FittedJax(JaxSubject):
    """A JAX gradient at one signature, with its other calls, keys and dtypes."""

    def in_dtype(self, dtype: str) -> FittedJax:
        return fit(self.gradient, self.signature, dtype)

    def placed(self) -> AbstractContextManager[None]:
        return nullcontext() if self.stays_on_cpu else floats_on_device()

    def with_new_draws(
        self, seeds: int, point: Sequence[Array], cotangent: Sequence[Array], ends: Sequence[Array]
    ) -> tuple[list[Array], list[Array]] | None:
        def keyed(signature: Signature) -> JaxSubject:
            return fit(self.gradient, signature, self.dtype)

        return with_new_draws(self, keyed, seeds, point, cotangent, ends)

    def other_calls(self) -> Sequence[OtherCall]:
        return other_calls(self)
