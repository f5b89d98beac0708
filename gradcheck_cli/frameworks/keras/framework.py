"""Keras as a `Framework`: the custom gradients of the one backend that this process runs on.

A grad function of `keras.ops.custom_gradient` is the backend's own kind of custom gradient, so each
backend's folder finds and runs it; only PyTorch's form is Keras's own.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import keras

from gradcheck_cli.clues.call_sites import calls_of
from gradcheck_cli.clues.reading import read
from gradcheck_cli.frameworks.keras import backend
from gradcheck_cli.frameworks.keras.find import find, named
from gradcheck_cli.frameworks.keras.hooks import recording
from gradcheck_cli.frameworks.keras.random import steady
from gradcheck_cli.frameworks.keras.script import writing
from gradcheck_cli.inputs.signature import Hints
from gradcheck_cli.subject.protocol import Note
from gradcheck_cli.subject.script_style import ScriptStyle


class Keras:
    """`Framework` of the protocol, by the modules of this folder and the backend's."""

    name = "keras"
    version = str(keras.__version__)
    recording, steady = staticmethod(recording), staticmethod(steady)
    find, named = staticmethod(find), staticmethod(named)

    @property
    def device(self) -> str:
        return backend.framework().device

    @property
    def writing(self) -> ScriptStyle:
        return writing()

    def watching(self, note: Note) -> AbstractContextManager[None]:
        return backend.framework().watching(note)

    def hints(self, gradient: Any) -> Hints:
        functions = [("ops.tanh", keras.ops.tanh), ("ops.add", keras.ops.add)]
        return read(
            gradient.primal,
            gradient.parameters(),
            functions,
            rule=gradient.rule_code(),
            called=calls_of(gradient),
        )


FRAMEWORK = Keras()
