"""The inputs of a subject as the report lists them: shape, range of the values, where they come from."""

from __future__ import annotations

from gradcheck_cli.contract.report import Input
from gradcheck_cli.inputs.lattice import Points
from gradcheck_cli.inputs.signature import Fixed
from gradcheck_cli.subject.protocol import Shaped


def listed_inputs(subject: Shaped, points: Points | None) -> tuple[Input, ...]:
    """Fixed arguments first, then arrays with their range, or with their domain if there are no points."""
    return (*_fixed(subject), *_arrays(subject, points))


def _fixed(subject: Shaped) -> list[Input]:
    return [
        Input(
            path=name,
            dtype="fixed",
            shape=list(getattr(value.value, "shape", ())),
            domain=value.text,
            source=value.source,
        )
        for name, value in subject.signature.arguments
        if isinstance(value, Fixed)
    ]


def _arrays(subject: Shaped, points: Points | None) -> list[Input]:
    arrays = points.leaves if points is not None else [None] * len(subject.leaves)
    inputs = []
    for leaf, array in zip(subject.leaves, arrays, strict=True):
        domain = leaf.domain.text if leaf.domain is not None else ""
        if array is not None and array.size:
            domain = f"[{float(array.min()):g}, {float(array.max()):g}]"
        inputs.append(
            Input(
                path=leaf.path,
                dtype=subject.dtype,
                shape=list(leaf.shape),
                domain=domain,
                source=leaf.source,
            )
        )
    return inputs
