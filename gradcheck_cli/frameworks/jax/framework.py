"""JAX as a `Framework`, by the modules of this folder."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import jax

from gradcheck_cli.clues.call_sites import calls_of
from gradcheck_cli.clues.reading import read
from gradcheck_cli.frameworks.jax.find import find, named
from gradcheck_cli.frameworks.jax.hooks import recording, watching
from gradcheck_cli.frameworks.jax.kernels import with_kernels
from gradcheck_cli.frameworks.jax.leaks import tracers
from gradcheck_cli.frameworks.jax.script import WRITING
from gradcheck_cli.frameworks.shared.user_source import plain_functions
from gradcheck_cli.inputs.signature import Hints


class Jax:
    """`Framework` of the protocol."""

    name = "jax"
    version = str(jax.__version__)
    writing = WRITING
    recording, watching = staticmethod(recording), staticmethod(watching)
    find, named = staticmethod(with_kernels(find)), staticmethod(with_kernels(named))

    @property
    def device(self) -> str:
        return "cpu" if jax.default_backend() == "cpu" else "gpu"

    def steady(self) -> AbstractContextManager[None]:
        return nullcontext()

    def hints(self, gradient: Any) -> Hints:
        functions = [("jnp.tanh", jax.numpy.tanh), ("jnp.add", jax.numpy.add)]
        hints = read(
            gradient.primal,
            gradient.parameters(),
            functions,
            lambda: jax.random.key(0),
            rule=gradient.rule_code(),
            called=calls_of(gradient),
        )
        return replace(hints, obstacle=_of_another_trace(gradient))


def _of_another_trace(gradient: Any) -> str:
    """Why a gradient that was made while JAX traced the function around it cannot be called alone."""
    held = tracers(plain_functions(gradient.primal, *gradient.rule_code()))
    names = " and ".join(f"`{name}`" for name in dict.fromkeys(held.values()))
    if not names:
        return ""
    return f"it was made while JAX traced the function around it, and holds {names} of that: check that function, or make it outside of `jit`, `grad` and `vmap`"


FRAMEWORK = Jax()
