"""Keras as a `Framework`: the custom gradients of the one backend that this process runs on.

A grad function of `keras.ops.custom_gradient` is the backend's own kind of custom gradient, so each
backend's folder finds and runs it; only PyTorch's form is Keras's own.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

import keras

from gradcheck_cli.frameworks.keras.library import LIBRARY
from gradcheck_cli.frameworks.keras.random import steady
from gradcheck_cli.frameworks.load import load
from gradcheck_cli.infer.reading import read
from gradcheck_cli.inputs.signature import Hints
from gradcheck_cli.subject.protocol import CustomGradient, Framework, Note, Own
from gradcheck_cli.subject.results import Found, Missing
from gradcheck_cli.subject.script_style import ScriptStyle


class Keras:
    """See `Framework` in the seam."""

    name = "keras"
    version = str(keras.__version__)

    @property
    def backend(self) -> str:
        return str(keras.backend.backend())

    @property
    def _under(self) -> Framework:
        return load(self.backend)

    @property
    def device(self) -> str:
        return self._under.device

    @property
    def writing(self) -> ScriptStyle:
        """The backend's, with Keras on it."""
        first = ("import os", "", f'os.environ["KERAS_BACKEND"] = "{self.backend}"', "import keras")
        under = self._under.writing
        known = under.known | {"ops.tanh": "keras.ops.tanh", "ops.add": "keras.ops.add"}
        return dataclasses.replace(under, imports=(*first, *under.imports), known=known)

    def recording(self) -> AbstractContextManager[list[Found]]:
        return self._on_torch().recording() if self.backend == "torch" else self._under.recording()

    def watching(self, note: Note) -> AbstractContextManager[None]:
        return self._under.watching(note)

    def steady(self) -> AbstractContextManager[None]:
        return steady()

    def find(
        self, module: ModuleType, path: str, recorded: list[Found], scopes: Sequence[str], own: Own
    ) -> tuple[Sequence[CustomGradient], Sequence[Missing]]:
        gradients: Sequence[Any]
        if self.backend == "torch":
            gradients, missing = self._on_torch().find(module, path, recorded, scopes)
        else:
            gradients, missing = self._under.find(module, path, recorded, scopes, own)
        return [self._mine(g) for g in gradients], missing

    def named(self, module: ModuleType, name: str, path: str, own: Own) -> CustomGradient | None:
        found: Any = self._under.named(module, name, path, own)
        return None if found is None else self._mine(found)

    def hints(self, gradient: Any) -> Hints:
        functions = [("ops.tanh", keras.ops.tanh), ("ops.add", keras.ops.add)]
        return read(gradient.primal, gradient.parameters(), functions)

    def _mine(self, gradient: Any) -> CustomGradient:
        made: CustomGradient = dataclasses.replace(
            gradient, framework=self.name, backend=self.backend, library=LIBRARY
        )
        return made

    def _on_torch(self) -> Any:
        return importlib.import_module("gradcheck_cli.frameworks.keras.on_torch")


FRAMEWORK = Keras()
