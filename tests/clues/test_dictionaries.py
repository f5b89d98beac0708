"""Dictionaries of arrays whose keys nothing reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import check_json

TABLES = '''from __future__ import annotations

from typing import Dict

import jax
import jax.numpy as jnp


@jax.custom_vjp
def embed(tables: Dict[str, jax.Array], codes: Dict[str, jax.Array]) -> jax.Array:
    """Sums the rows of all fields; row 0 of each stands for what is not known, and is left out.

    Args:
        tables: One table a field ("hour", "day", ...), each of shape (entries, width).
        codes: Rows of each field, integers of shape (batch, length).
    """
    return sum(t[codes[name]] * (codes[name] > 0)[..., None] for name, t in tables.items())


def fwd(tables, codes):
    return embed(tables, codes), (tables, codes)


def bwd(kept, g):
    tables, codes = kept
    return {n: jnp.zeros_like(t).at[codes[n]].add(GIVEN) for n, t in tables.items()}, None


embed.defvjp(fwd, bwd)
'''


@pytest.mark.parametrize(
    ("given", "verdict"), [("g * (codes[n] > 0)[..., None]", "correct"), ("g", "wrong")]
)
def test_the_keys_are_those_that_a_text_quotes(project: Path, given: str, verdict: str) -> None:
    (project / "a.py").write_text(TABLES.replace("GIVEN", given))
    gradient = check_json("a.py", cwd=project).gradient("embed")
    assert gradient["verdict"] == verdict
    paths = {item["path"] for item in gradient["inputs"]}
    assert paths == {"tables['hour']", "tables['day']", "codes['hour']", "codes['day']"}
