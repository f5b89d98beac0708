"""Variants of a signature, for each argument that selects, scales or may be left out: faults hide there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gradcheck_cli.inputs.names import fixed_by_name
from gradcheck_cli.inputs.signature import OMITTED, Fixed, Leaf, Parameter, Signature
from gradcheck_cli.subject.protocol import CustomGradient, Subject
from gradcheck_cli.subject.refusals import Rejected, RuleError

_MOST = 4

Broken = tuple[Signature, RuleError]


def varied(
    gradient: CustomGradient,
    parameters: Sequence[Parameter],
    fitting: Sequence[Signature],
    dtype: str,
) -> tuple[list[Subject], Broken | None]:
    """The first signature again with each flag the other way, with what was left out, with numbers moved.

    Instead of all, the first that the function takes and its rule certainly not: the rest follows.
    """
    trial = _Trial(gradient, dtype)
    signature = fitting[0]
    arguments = dict(signature.arguments)
    shapes = list(dict.fromkeys(leaf.shape for leaf in signature.leaves))
    left_out = [
        p.name
        for p in parameters
        if arguments[p.name] is OMITTED and p.default is None and p.differentiable
    ]
    if len(left_out) > 1:  # what is left out together may be needed together
        for other in fitting:
            first = other.leaves[0].shape
            trial.fit(other, _leaves(left_out, [first, *[()] * (len(left_out) - 1)]))
            trial.fit(other, _leaves(left_out, [first] * len(left_out)))
    for parameter in parameters:
        for other in _others(parameter, arguments[parameter.name], shapes):
            if trial.fit(signature, {parameter.name: other}):
                break
    return ([], trial.broken) if trial.broken else (trial.fitting[:_MOST], None)


def _leaves(names: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> dict[str, Any]:
    pairs = zip(names, shapes, strict=True)
    return {name: Leaf(name, shape, "given, not left out") for name, shape in pairs}


@dataclass(slots=True)
class _Trial:
    """A trial of signatures: the subjects that fit, and the first signature at which the rule is certainly broken."""

    gradient: CustomGradient
    dtype: str
    fitting: list[Subject] = field(default_factory=list)
    broken: Broken | None = None

    def fit(self, signature: Signature, changed: dict[str, Any]) -> bool:
        """The signature with these arguments, if function and rule take it."""
        arguments = tuple((n, changed.get(n, v)) for n, v in signature.arguments)
        tried = Signature(arguments, signature.keywords)
        try:
            subject = self.gradient.fit(tried, self.dtype)
            subject.traces()
        except Rejected:
            return False
        except RuleError as error:
            if error.certain and self.broken is None:
                self.broken = (tried, error)
            return False
        self.fitting.append(subject)
        return True


def _others(parameter: Parameter, here: Any, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """Other values of the argument, likeliest first."""
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
