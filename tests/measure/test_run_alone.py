"""A row that is run again alone: new measurements, and the old ones stay what they were."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.inputs.cotangents import BASE
from gradcheck_cli.measure.grading import grades
from gradcheck_cli.measure.measurements import Measurements, Probe
from gradcheck_cli.measure.run_alone import Alone, again, with_reruns
from gradcheck_cli.subject.results import CUSTOM, EAGER
from tests.support import measured


@pytest.fixture
def lost_in_the_batch() -> Measurements:
    """NaN at 3 in the batch; alone, the right number."""

    def slope(x, weight):
        return 2 * x * weight

    def batch(x, weight):
        return np.where(x == 3.0, np.nan, slope(x, weight))

    alone = {CUSTOM: slope}
    return measured([1.0, 2.0, 3.0], np.square, slope, floats={CUSTOM: batch}, alone=alone)


def test_grades_are_those_of_the_new_numbers_and_the_old_ones_stay(lost_in_the_batch):
    m = lost_in_the_batch
    alone = Alone(m.row(Probe(2, BASE)), EAGER, CUSTOM)
    before = grades(m, EAGER, CUSTOM)
    assert before.severity[alone.row] == Severity.ERROR.rank
    single, whole = again(m, alone), with_reruns(m, [alone])
    assert (single.count, single.floats[EAGER].custom[0].tolist()) == (1, [6.0])
    assert grades(single, EAGER, CUSTOM).fine.all()
    assert whole.floats[EAGER].custom[0][alone.row] == 6.0
    assert grades(whole, EAGER, CUSTOM).severity[alone.row] == -1
    assert np.isnan(m.floats[EAGER].custom[0][alone.row])
    assert grades(m, EAGER, CUSTOM) is before


def test_what_is_measured_cannot_be_overwritten(lost_in_the_batch):
    m = lost_in_the_batch
    measured_arrays = (m.floats[EAGER].custom[0], m.truth.gradient_states[0], m.rule.gradients[0])
    for array in measured_arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
