"""TensorFlow as a `Framework`, by the modules of this folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

import tensorflow as tf

from gradcheck_cli.clues.call_sites import calls_of
from gradcheck_cli.clues.reading import read
from gradcheck_cli.frameworks.tensorflow.find import find, named
from gradcheck_cli.frameworks.tensorflow.gradient import TfGradient
from gradcheck_cli.frameworks.tensorflow.hooks import recording, watching
from gradcheck_cli.frameworks.tensorflow.random import Draws
from gradcheck_cli.frameworks.tensorflow.script import WRITING
from gradcheck_cli.inputs.signature import Hints
from gradcheck_cli.project.input_specs import ArraySpec, Spec
from gradcheck_cli.subject.protocol import Own
from gradcheck_cli.subject.results import Found, Missing


class TensorFlow:
    """`Framework` of the protocol."""

    name = "tensorflow"
    version = str(tf.__version__)
    writing = WRITING
    recording, watching = staticmethod(recording), staticmethod(watching)

    def __init__(self) -> None:
        self._draws = Draws()

    def find(
        self, module: ModuleType, path: str, recorded: list[Found], scopes: Sequence[str], own: Own
    ) -> tuple[list[TfGradient], list[Missing]]:
        gradients, missing = find(module, path, recorded, scopes, own)
        return [dataclasses.replace(each, draws=self._draws) for each in gradients], missing

    def named(self, module: ModuleType, name: str, path: str, own: Own) -> TfGradient | None:
        gradient = named(module, name, path, own)
        return None if gradient is None else dataclasses.replace(gradient, draws=self._draws)

    @property
    def device(self) -> str:
        return "gpu" if tf.config.list_logical_devices("GPU") else "cpu"

    def steady(self) -> AbstractContextManager[None]:
        return nullcontext()

    def hints(self, gradient: Any) -> Hints:
        specs: dict[str, Spec] = {
            p.name: _spec(spec)
            for p, spec in zip(gradient.parameters(), gradient.specs, strict=False)
        }
        functions = [("tf.tanh", tf.tanh), ("tf.add", tf.add)]
        hints = read(
            gradient.primal,
            gradient.parameters(),
            functions,
            rule=gradient.rule_code(),
            called=calls_of(gradient),
        )
        source = "the input signature of its tf.function"
        return dataclasses.replace(
            hints,
            specs=specs,
            spec_source=source,
        )


def _spec(spec: Any) -> ArraySpec:
    """A `TensorSpec` as an argument; dimensions that are left open differ."""
    dims = spec.shape.as_list() if spec.shape.rank is not None else [None]
    open_sizes = iter(_OPEN)
    shape = tuple(next(open_sizes) if size is None else size for size in dims)
    return ArraySpec(_kind(spec.dtype), shape, None, f"{spec.dtype.name}{list(shape)}")


def _kind(dtype: Any) -> str:
    """The kind of number, as the comments write it."""
    kinds = {"float": dtype.is_floating, "complex": dtype.is_complex, "int": dtype.is_integer}
    return next((kind for kind, is_one in kinds.items() if is_one), "bool")


_OPEN = (3, 4, 5, 2, 6, 7)

FRAMEWORK = TensorFlow()
