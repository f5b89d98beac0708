"""A newcomer who knows one framework's folder knows them all."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "gradcheck_cli/frameworks"
EVERYWHERE = {
    "adopt", "find", "framework", "hooks", "library", "private_api", "random", "script", "trace",
}  # fmt: skip
# Keras runs what its backend's folder runs.
OF_ITS_OWN_FLOATS = {"call", "fit", "gradient", "other_calls", "subject"}


@pytest.mark.parametrize("framework", ["jax", "torch", "tensorflow", "keras"])
def test_a_framework_has_the_files_that_the_others_have(framework: str) -> None:
    files = {file.stem for file in (FOLDER / framework).rglob("*.py")}
    assert files >= EVERYWHERE
    assert framework == "keras" or files >= OF_ITS_OWN_FLOATS
