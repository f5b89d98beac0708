"""What is used of Keras that is not public. Tried with keras 3.15.1."""

from __future__ import annotations

from typing import Any

from keras.src.backend import convert_to_tensor, random_seed_dtype
from keras.src.backend.common import global_state
from keras.src.random.seed_generator import SeedGenerator

__all__ = ["SeedGenerator", "convert_to_tensor", "global_state", "random_seed_dtype"]


def custom_gradient_on_torch() -> Any:
    """The class of `keras.ops.custom_gradient`, where PyTorch is the backend."""
    from keras.src.backend.torch.core import custom_gradient

    return custom_gradient
