"""How a script in Keras is written: as one for the backend, with Keras on it."""

from __future__ import annotations

import dataclasses

from gradcheck_cli.frameworks.keras import backend
from gradcheck_cli.subject.script_style import ScriptStyle


def writing() -> ScriptStyle:
    """The backend's style, with Keras imported first."""
    choice = f'os.environ["KERAS_BACKEND"] = "{backend.name()}"'
    style = backend.framework().writing
    return dataclasses.replace(
        style,
        imports=("import os", "", choice, "import keras", *style.imports),
        spellings=style.spellings | {"ops.tanh": "keras.ops.tanh", "ops.add": "keras.ops.add"},
    )
