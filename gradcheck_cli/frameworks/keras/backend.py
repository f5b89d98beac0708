"""The backend that this process runs Keras on, chosen when Keras was imported."""

from __future__ import annotations

import keras

from gradcheck_cli.frameworks.load import load
from gradcheck_cli.subject.protocol import Framework


def name() -> str:
    """`jax`, `tensorflow` or `torch`."""
    return str(keras.backend.backend())


def framework() -> Framework:
    """The backend as a framework of ours."""
    return load(name())
