"""Where Keras puts tensors while a function of them is traced on PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gradcheck_cli.frameworks.keras.private_api import global_state


@contextmanager
def on_traced_device() -> Iterator[None]:
    """While active, Keras moves tensors to the device on which they are traced, and not to its own."""
    import torch

    from gradcheck_cli.frameworks.torch.bridge.traced_device import NAME

    before = global_state.get_global_attribute("torch_device", None)
    global_state.set_global_attribute("torch_device", torch.device(NAME, 0))
    try:
        yield
    finally:
        global_state.set_global_attribute("torch_device", before)
