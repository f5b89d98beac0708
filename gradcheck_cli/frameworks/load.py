"""Frameworks by name, each imported only for files that use it."""

from __future__ import annotations

import importlib

from gradcheck_cli.frameworks.seam import Framework

_MODULES = {
    "jax": "gradcheck_cli.frameworks.jax.framework",
    "keras": "gradcheck_cli.frameworks.keras.framework",
    "tensorflow": "gradcheck_cli.frameworks.tensorflow.framework",
    "torch": "gradcheck_cli.frameworks.torch.framework",
}


def load(name: str) -> Framework:
    framework: Framework = importlib.import_module(_MODULES[name]).FRAMEWORK
    return framework
