"""Annotations that say a shape, as specs."""

from __future__ import annotations

import pytest

from gradcheck_cli.infer.annotations import annotated
from gradcheck_cli.inputs.signature import Parameter


@pytest.mark.parametrize(
    ("annotation", "spec"),
    [
        ('Float[Array, "b n"]', "f32[b n]"),
        ("jaxtyping.Int32[jax.Array, 'b']", "i32[b]"),
        ("Bool[Tensor, 'n n']", "bool[n n]"),
        ("Float[Array, '*batch 3 #d']", "f32[3 d]"),
        ("Float[Array, '']", "f32[]"),
        ("Optional[Float[Array, 'n']]", "f32[n]"),
        ("Float[Array, 'n+1']", ""),
        ("int", "3"),
        ("jax.Array", ""),
        ("dict[str, 'x']", ""),
    ],
)
def test_annotations_that_say_a_shape(annotation: str, spec: str) -> None:
    parameter = Parameter("x", 0, True, False, annotation=annotation)
    assert annotated([parameter]).get("x", "") == spec
