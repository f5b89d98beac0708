"""JAX as a `Framework`: the seam's view of this folder."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

import jax

from gradcheck_cli.frameworks.jax import find as jax_find
from gradcheck_cli.frameworks.jax.hooks import recording, watching
from gradcheck_cli.frameworks.jax.writing import WRITING
from gradcheck_cli.frameworks.seam import CustomGradient, Found, Missing, Note, Own, Writing
from gradcheck_cli.inputs.infer.reading import read
from gradcheck_cli.inputs.spec import Hints


class Jax:
    """See `Framework` in the seam."""

    name = "jax"
    version = str(jax.__version__)

    @property
    def device(self) -> str:
        return "cpu" if jax.default_backend() == "cpu" else "gpu"

    @property
    def writing(self) -> Writing:
        return WRITING

    def recording(self) -> AbstractContextManager[list[Found]]:
        return recording()

    def watching(self, note: Note) -> AbstractContextManager[None]:
        return watching(note)

    def steady(self) -> AbstractContextManager[None]:
        return nullcontext()

    def find(
        self, module: ModuleType, path: str, recorded: list[Found], scopes: Sequence[str], own: Own
    ) -> tuple[Sequence[CustomGradient], Sequence[Missing]]:
        return jax_find.find(module, path, recorded, scopes, own)

    def named(self, module: ModuleType, name: str, path: str, own: Own) -> CustomGradient | None:
        return jax_find.named(module, name, path, own)

    def hints(self, gradient: Any) -> Hints:
        functions = [("jnp.tanh", jax.numpy.tanh), ("jnp.add", jax.numpy.add)]
        return read(gradient.primal, gradient.parameters(), functions, lambda: jax.random.key(0))


FRAMEWORK = Jax()
