"""A tally of one subject's trial: what it adds to the outcome before any law is asked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradcheck_cli.check.left_out import left_out
from gradcheck_cli.check.listed_inputs import listed_inputs
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.trial import SubjectTrial
from gradcheck_cli.inputs.signature import Parameter
from gradcheck_cli.measure.components import GRADIENTS, VALUES
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.states import KINK, LIMIT, REGULAR, UNDECIDED
from gradcheck_cli.measure.valued import valued
from gradcheck_cli.reals.program import alive


def lies_inside(m: Measurements) -> bool:
    """Is there a row at which there is a gradient to judge, by autodiff or by the function's own change?"""
    derived = np.isin(m.reference.states(GRADIENTS), (REGULAR, LIMIT, KINK)).any()
    return bool(derived or valued(m).any())


def _moves(m: Measurements) -> bool:
    """Does it give different values anywhere, or a gradient that is not zero? Else a rule of zeros shows nothing.

    What is the same by its own text, whatever the inputs are, is right to have none.
    """
    if not _rests_on_inputs(m):
        return True
    values = (value for run in m.floats.values() for value in (*run.value, *run.rule_value))
    gradients = (g for run in m.floats.values() for g in (*(run.custom or ()), *(run.auto or ())))
    return any((v != v[:1]).any() for v in values) or any((g != 0).any() for g in gradients)


def _rests_on_inputs(m: Measurements) -> bool:
    """Does any value rest on an argument, so far as the program says?"""
    program = m.subject.traces().primal
    if program is None:
        return True
    values = program.outputs[: len(m.components(VALUES))]
    used = {slot for step in alive(program.steps, values) for slot in step.ins} | set(values)
    return not used.isdisjoint(program.inputs)


def tried(trial: SubjectTrial, parameters: Sequence[Parameter]) -> GradientOutcome:
    """The gradient is checked: with these inputs, in this dtype, in part or whole."""
    m = trial.measurements
    return GradientOutcome(
        checked=True,
        moves=_moves(m),
        in_part=m.in_part,
        weaker=m.sources.reason,
        dtypes=(m.subject.dtype,),
        inputs=(listed_inputs(m.subject, parameters, trial.points),),
        left_out=(*trial.left_out, *left_out(m)),
        kernels=tuple(m.subject.kernels),
    )


def counted(m: Measurements) -> GradientOutcome:
    """How many probes there are, and at how many the truth is not known."""
    states = [m.reference.states(VALUES), m.reference.states(GRADIENTS)]
    undecided = (np.concatenate(states, axis=1) == UNDECIDED).any(axis=1)
    return GradientOutcome(points=m.count, undecided=int(undecided.sum()))
