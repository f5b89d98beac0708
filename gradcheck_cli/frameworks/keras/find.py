"""All Keras custom gradients of one module: the backend's own, and on PyTorch Keras's class."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from gradcheck_cli.discover.factories import attributes, enter_all
from gradcheck_cli.discover.outer import outer_functions, with_wholes
from gradcheck_cli.discover.same_definition import distinct
from gradcheck_cli.frameworks.keras import backend
from gradcheck_cli.frameworks.keras.hooks import KIND, source
from gradcheck_cli.frameworks.keras.library import LIBRARY, STAND_IN
from gradcheck_cli.frameworks.keras.private_api import custom_gradient_on_torch
from gradcheck_cli.frameworks.keras.trace import on_traced_device
from gradcheck_cli.subject.protocol import CustomGradient, Own
from gradcheck_cli.subject.results import Found, Missing


def find(
    module: ModuleType, path: str, recorded: list[Found], scopes: Sequence[str], own: Own
) -> tuple[Sequence[CustomGradient], Sequence[Missing]]:
    """The module's own custom gradients, in the order of their lines."""
    gradients: Sequence[Any]
    missing: Sequence[Missing]
    if backend.name() == "torch":
        gradients, missing = _find_on_torch(module, path, recorded, scopes, own)
    else:
        gradients, missing = backend.framework().find(module, path, recorded, scopes, own)
    return [_of_keras(gradient) for gradient in gradients], missing


def named(module: ModuleType, name: str, path: str, own: Own) -> CustomGradient | None:
    """One function by name, as the backend sees it."""
    gradient = backend.framework().named(module, name, path, own)
    return None if gradient is None else _of_keras(gradient)


def _of_keras(gradient: Any) -> CustomGradient:
    """A gradient of the backend, under the name and with the library of Keras."""
    placed = {"surroundings": on_traced_device} if backend.name() == "torch" else {}
    adopted: CustomGradient = dataclasses.replace(
        gradient, framework="keras", backend=backend.name(), library=LIBRARY, **placed
    )
    return adopted


def _find_on_torch(
    module: ModuleType, path: str, recorded: list[Found], scopes: Sequence[str], own: Own
) -> tuple[Sequence[Any], list[Missing]]:

    from gradcheck_cli.frameworks.keras.adopt import adopted_from
    from gradcheck_cli.frameworks.keras.outer import whole

    cls = custom_gradient_on_torch()
    listed = {id(each.thing) for each in recorded}
    for _, value in attributes(module):
        if isinstance(value, cls) and id(value) not in listed:
            recorded.append(Found(value, KIND, *source(value.forward_fn)))
    made = {each.line for each in recorded if each.path == path}
    outer = outer_functions(module, scopes, [STAND_IN])
    factories = [scope for scope in scopes if scope not in outer]
    missing = enter_all(module, path, factories, [STAND_IN], recorded, made).missing
    adopted = [(each.thing, adopted_from(each)) for each in recorded if each.path == path]
    gradients, more = distinct(adopted, module)
    every = [each for of_scope in outer.values() for each in of_scope]
    return with_wholes(gradients, [whole(each) for each in every], every), [*missing, *more]
