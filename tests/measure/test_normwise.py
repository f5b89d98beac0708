"""Where a matrix is factored, floats are exact for a matrix nearby, beside its largest element."""

from __future__ import annotations

import pytest

from tests.conftest import check_json

pytestmark = pytest.mark.slow  # each is a whole run


@pytest.mark.parametrize("name", ["inv", "solve"])
def test_what_a_singular_matrix_gives_is_forgiven(name: str) -> None:
    assert check_json(f"jax.numpy.linalg:{name}").gradient(name)["verdict"] == "correct"


def test_an_orthonormal_basis_of_columns_of_very_different_sizes_is_fine() -> None:
    run = check_json("fixtures/right/arrays.py")
    assert run.gradient("orthonormal")["verdict"] == "correct"
