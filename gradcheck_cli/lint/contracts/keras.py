"""Keras: a grad function is called in one way on JAX and TensorFlow, and in another on PyTorch."""

from __future__ import annotations

from collections.abc import Iterator

from gradcheck_cli.lint.contracts.functions import (
    Broken,
    Module,
    is_open,
    least,
    miscounted,
    parameters,
)
from gradcheck_cli.lint.contracts.tensorflow import with_grads
from gradcheck_cli.project.chosen_backend import chosen_in
from gradcheck_cli.project.framework_marks import Backend

_DECORATORS = ("keras.ops.custom_gradient", "keras.src.ops.custom_gradient", "tensorflow.keras.ops.custom_gradient")  # fmt: skip


def broken(module: Module) -> Iterator[Broken]:
    meets_torch = chosen_in(module.tree) in (None, Backend.TORCH)
    for function, grad in with_grads(module, _DECORATORS):
        if meets_torch and not is_open(grad) and len(parameters(grad)) == 1:
            name = parameters(grad)[0].arg
            text = f"`{grad.name}({name})` raises on PyTorch, which gives the cotangent by name: write `{grad.name}(*args, upstream=None)`"
            yield Broken("signature-of-one-backend", grad, text)
        if not is_open(function):
            yield from miscounted(grad, least(function), len(parameters(function)))
