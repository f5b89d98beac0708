"""A single number in place of an array: what a function takes by broadcasting, and its rule may not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gradcheck_cli.infer.fitted import fitted
from gradcheck_cli.inputs.signature import Hints, Leaf, Signature
from gradcheck_cli.project.input_specs import ArraySpec
from gradcheck_cli.subject.protocol import CustomGradient, Subject
from gradcheck_cli.subject.refusals import Rejected, RuleError


def broadcast_refused(
    gradient: CustomGradient, subjects: Sequence[Subject], dtype: str, hints: Hints
) -> tuple[Signature, RuleError] | None:
    """A single number for one argument beside arrays, where nobody says that it has axes: does the function take it, and its rule not?"""
    said = hints.specs | {name: spec for name, (spec, _) in hints.guesses.items()}
    with_axes = {name for name, spec in said.items() if isinstance(spec, ArraySpec) and spec.shape}
    arrays = [s for s in subjects if len(s.leaves) > 1 and any(leaf.shape for leaf in s.leaves)]
    for subject in arrays[:1]:
        for name, value in subject.signature.arguments:
            if not isinstance(value, Leaf) or not value.shape or name in with_axes:
                continue
            single = replace(value, shape=(), recorded=None)
            narrow = subject.signature.with_argument(name, single)
            try:
                fitted(gradient, narrow, dtype).traces()
            except Rejected:
                continue
            except RuleError as error:
                return narrow, error
    return None
