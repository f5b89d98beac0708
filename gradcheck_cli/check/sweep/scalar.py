"""A gradient at plain numbers, which is what can be swept."""

from __future__ import annotations

from gradcheck_cli.contract.report import NotCovered
from gradcheck_cli.infer.probing import probe
from gradcheck_cli.inputs.signature import Hints, Leaf
from gradcheck_cli.subject.protocol import CustomGradient, Shaped, Subject


def scalar_subject(
    gradient: CustomGradient, dtype: str, hints: Hints
) -> tuple[Subject | None, str]:
    """The gradient at plain numbers, which is what can be swept; or why there is none."""
    probed = probe(gradient, dtype, hints)
    for subject in probed.subjects:
        numbers = all(not leaf.shape for leaf in subject.leaves)
        if numbers and all(shape == () for shape in subject.outputs):
            return subject, ""
    if probed.broken is not None:
        return None, probed.broken[1].message
    if not probed.subjects and probed.reason:
        return None, probed.reason
    shapes = ", ".join(_shaped(leaf) for s in probed.subjects[-1:] for leaf in s.leaves)
    return (
        None,
        f"it takes arrays{shapes and f', as in {shapes}'}; a sweep is of plain numbers: of a function of these that calls it",
    )


def _shaped(leaf: Leaf) -> str:
    return f"{leaf.path}[{' '.join(map(str, leaf.shape))}]"


def results(subject: Shaped) -> list[str]:
    """The columns of a map: values, then gradients."""
    count = len(subject.outputs)
    values = ["value"] if count == 1 else [f"value[{k}]" for k in range(count)]
    if len(subject.leaves) == 1:
        return [*values, "gradient"]
    return [*values, *(f"gradient of {leaf.path}" for leaf in subject.leaves)]


def not_swept(gradient: CustomGradient, why: str) -> NotCovered:
    """What is said of a gradient that takes no plain number."""
    add = "declare its arguments as numbers: `# cgcheck: x=f32[]`"
    return NotCovered.whole(gradient.place.qualname, why, add)
