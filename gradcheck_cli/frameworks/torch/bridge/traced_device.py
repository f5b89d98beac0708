"""The device on which tensors are while they are traced.

torchax gives torch's spare device the name `jax`. From then on torch takes that for the machine's
accelerator, and computes no gradient on a GPU any more; so here it keeps the name that it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

NAME = "privateuseone"


@contextmanager
def keeping_its_name() -> Iterator[None]:
    """While torchax is imported: nothing is renamed, and its module is registered under that name."""
    torch_itself: Any = torch
    rename, register = torch_itself.utils.rename_privateuse1_backend, torch_itself._register_device_module  # fmt: skip
    torch_itself.utils.rename_privateuse1_backend = lambda name: None
    torch_itself._register_device_module = lambda name, module: register(NAME, module)
    try:
        yield
    finally:
        torch_itself.utils.rename_privateuse1_backend = rename
        torch_itself._register_device_module = register


def say_where(*classes: Any) -> None:
    """Tensors of these classes say that they are on that device."""
    device = torch.device(NAME, 0)
    for cls in classes:
        cls.device = property(lambda self: device)
