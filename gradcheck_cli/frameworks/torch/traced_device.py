"""The device on which tensors are while they are traced.

torchax gives torch's spare device the name `jax`. From then on torch takes that for the machine's
accelerator, and computes no gradient on a GPU any more; so here it keeps the name that it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch

NAME = "privateuseone"


@contextmanager
def keeping_its_name() -> Iterator[None]:
    """While torchax is imported: nothing is renamed, and its module is registered under that name."""
    torch_itself: Any = torch
    register = torch_itself._register_device_module

    def under_its_name(_: str, module: Any) -> None:
        register(NAME, module)

    with (
        mock.patch.object(torch_itself.utils, "rename_privateuse1_backend", return_value=None),
        mock.patch.object(torch_itself, "_register_device_module", under_its_name),
    ):
        yield


def say_where(*classes: Any) -> None:
    """Tensors of these classes say that they are on that device."""
    device = torch.device(NAME, 0)
    for cls in classes:
        cls.device = property(lambda self: device)
