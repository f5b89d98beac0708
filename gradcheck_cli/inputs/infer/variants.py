"""One more way to call, for each argument that selects, scales or may be left out: faults hide there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradcheck_cli.frameworks.seam import CustomGradient, Rejected, RuleError, Subject
from gradcheck_cli.inputs.infer.names import fixed_by_name
from gradcheck_cli.inputs.spec import OMITTED, Fixed, Leaf, Parameter, Signature

_MOST = 4


def varied(
    gradient: CustomGradient, parameters: Sequence[Parameter], signature: Signature, dtype: str
) -> list[Subject]:
    """The signature again with each flag the other way, with what was left out, with numbers moved."""
    found: list[Subject] = []
    given = dict(signature.arguments)
    shapes = list(dict.fromkeys(leaf.shape for leaf in signature.leaves))
    together = {
        p.name: Leaf(p.name, shapes[0], "given, not left out")
        for p in parameters
        if given[p.name] is OMITTED and p.default is None and p.differentiable
    }
    if len(together) > 1:  # what is left out together may be needed together
        found += _fitting(gradient, signature, together, dtype)
    for parameter in parameters:
        for other in _others(parameter, given[parameter.name], shapes):
            fitting = _fitting(gradient, signature, {parameter.name: other}, dtype)
            found += fitting
            if fitting:
                break
    return found[:_MOST]


def _fitting(
    gradient: CustomGradient, signature: Signature, changed: dict[str, Any], dtype: str
) -> list[Subject]:
    """The signature with these arguments, if function and rule take it."""
    arguments = tuple((n, changed.get(n, v)) for n, v in signature.arguments)
    try:
        subject = gradient.fit(Signature(arguments, signature.keywords), dtype)
        subject.traces()
    except (Rejected, RuleError):
        return []
    return [subject]


def _others(parameter: Parameter, here: Any, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """What else this argument may be, likeliest first."""
    if here is OMITTED and parameter.default is None and parameter.differentiable:
        named = fixed_by_name(parameter.name, shapes[0], None)
        leaves = [Leaf(parameter.name, shape, "given, not left out") for shape in (*shapes, ())]
        return [*named, *leaves]
    value = here.value if isinstance(here, Fixed) else parameter.default
    if isinstance(value, bool):
        return [Fixed(not value, str(not value), "the flag the other way")]
    if here is not OMITTED or not isinstance(value, (int, float)) or not value:
        return []
    named = [f for f in fixed_by_name(parameter.name, shapes[0], None) if f.value != value]
    moved = value * 2 if isinstance(value, float) else value + 1
    return [*named, Fixed(moved, str(moved), "off its default")]
