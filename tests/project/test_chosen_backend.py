"""A file that sets `KERAS_BACKEND` for itself is for that backend; what is set sometimes is no choice."""

from __future__ import annotations

import pytest

from gradcheck_cli.project.chosen_backend import chosen_backend


@pytest.mark.parametrize(
    ("source", "backend"),
    [
        ('os.environ["KERAS_BACKEND"] = "jax"', "jax"),
        ('os.environ.setdefault("KERAS_BACKEND", "tensorflow")', None),
        ('import keras\nos.environ["KERAS_BACKEND"] = "jax"', None),
        ('import os\nos.environ["KERAS_BACKEND"] = "jax"\nimport keras', "jax"),
        ('os.environ["KERAS_BACKEND"] = "jax"\nos.environ.update(KERAS_BACKEND="torch")', None),
        ('os.environ["KERAS_BACKEND"] = "jax"\nkeras.config.set_backend("torch")', None),
        ('os.environ["KERAS_BACKEND"] = "jax"\nprint(os.environ.get("KERAS_BACKEND"))', "jax"),
        ('os.environ["KERAS_BACKEND"] = "torch"\nplt.set_backend("agg")', "torch"),
        ('from tensorflow import keras\nos.environ["KERAS_BACKEND"] = "jax"', None),
        ('import keras_hub\nos.environ["KERAS_BACKEND"] = "jax"', None),
        ('import os as _os\n_os.environ["KERAS_BACKEND"] = "jax"', "jax"),
        ('self.environ["KERAS_BACKEND"] = "jax"', None),
        ("from os import environ\nenviron['KERAS_BACKEND'] = 'torch'", "torch"),
        ('os.environ["KERAS_BACKEND"] = "jax"\nos.environ["KERAS_BACKEND"] = "torch"', None),
        ('if gpu:\n    os.environ["KERAS_BACKEND"] = "jax"', None),
        ('def use():\n    os.environ["KERAS_BACKEND"] = "jax"', None),
        ('os.environ["KERAS_BACKEND"] = name', None),
        ('os.environ["KERAS_BACKEND"] = "openvino"', None),
        ('"""Set os.environ["KERAS_BACKEND"] = \'jax\'."""', None),
        ('other["KERAS_BACKEND"] = "jax"', None),
        ('os.environ["OTHER"] = "jax"  # KERAS_BACKEND', None),
        ('os.environ["KERAS_BACKEND"] = ', None),
        ("import keras", None),
    ],
)
def test_only_what_is_set_always_and_to_one_name_is_a_choice(
    source: str, backend: str | None
) -> None:
    assert chosen_backend(source) == backend
