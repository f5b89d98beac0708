"""Dicts that are written out in prose."""

from __future__ import annotations

import pytest

from gradcheck_cli.clues.prose.literal_trees import literal_tree
from gradcheck_cli.clues.prose.trees import tree


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ('{"gate": (D, F), "down": (F, D)}.', "{gate: f32[D F], down: f32[F D]}"),
        ("{'a': {'w': (n, k), 'b': (k,)}, 'c': (k,)}", "{a: {w: f32[n k], b: f32[k]}, c: f32[k]}"),
        ("dict {w: array of shape (n, k), b: (k,)}", "{w: f32[n k], b: f32[k]}"),
        (
            '{"w": (n, k)}, optionally with "bias": {"w": (k,)}.',
            "{w: f32[n k], bias: {w: f32[k]}}",
        ),
        ('{"w": (n, k), "rest": whatever}', ""),
        ("{0, 1} labels", ""),
        ('{"w": (n, k)', ""),
    ],
)
def test_what_a_dict_holds(text: str, spec: str) -> None:
    assert literal_tree(text) == spec


def test_the_keys_before_the_shapes_are_meant_where_keys_stand_on_both_sides() -> None:
    said = '{"gate": (D, F), "up": (D, F), "down": (F, D)}'
    assert tree(said) == "{gate: f32[D F], up: f32[D F], down: f32[F D]}"
