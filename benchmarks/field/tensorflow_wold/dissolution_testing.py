"""In-vitro dissolution of tablets: profile corrections and profile comparison (any Keras backend).

The apparatus holds several vessels with one tablet each; samples are drawn at fixed times, and the medium that was
taken is either replaced by fresh medium or not.
"""

import math
from dataclasses import dataclass

import keras
import numpy as np
from keras import ops


@dataclass(frozen=True)
class Apparatus:
    """Set-up of one test.

    Attributes:
        volume: medium in a vessel at the start, in mL.
        draws: volume of each sample, in mL.
        replaced: whether fresh medium makes up for a sample.
    """

    volume: float = 900.0
    draws: tuple = (5.0, 5.0, 5.0, 5.0, 10.0, 10.0)
    replaced: bool = True


def _earlier(values):
    """Ones at [i, n] where sample i was drawn before sample n."""
    times = values.shape[-1]
    return ops.triu(ops.ones((times, times), dtype=values.dtype), k=1)


def _before(values):
    """Sum of the earlier entries along the last axis (zero for the first)."""
    return ops.einsum("...i,in->...n", values, _earlier(values))


def _after(values):
    """Sum of the later entries along the last axis (zero for the last)."""
    return ops.einsum("...n,in->...i", values, _earlier(values))


def make_released_mass(replaced=True):
    """Return the rule that turns measured concentrations into released mass."""

    @keras.ops.custom_gradient
    def released_mass(conc, draws, volume):
        """Cumulative mass released at each sampling time.

        The mass in the vessel is supplemented by what the earlier samples carried away,

            m_n = c_n V_n + sum_{i < n} v_i c_i,

        with ``V_n = volume`` if samples are replaced by fresh medium, and ``volume - sum_{i < n} v_i`` otherwise.

        Args:
            conc: (vessels, times) measured concentrations.
            draws: (times,) sample volumes, common to the vessels.
            volume: scalar tensor, the initial volume of medium.

        Returns:
            (vessels, times) masses.
        """
        medium = volume * ops.ones_like(draws)
        if not replaced:
            medium = medium - _before(draws)
        mass = conc * medium + _before(conc * draws)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            d_conc = upstream * medium + _after(upstream * draws)
            d_draws = ops.sum(conc * _after(upstream), axis=0)
            if not replaced:
                d_draws = d_draws - ops.sum(_after(upstream * conc), axis=0)
            return d_conc, d_draws, ops.sum(upstream * conc)

        return mass, grad

    return released_mass


def comparison_points(reference, ceiling=85.0):
    """Times that enter the comparison: all up to, and one beyond, the first mean above ``ceiling`` percent."""
    mean = np.asarray(reference).reshape(-1, np.shape(reference)[-1]).mean(axis=0)
    above = np.cumsum(mean > ceiling)
    return above <= 1


def make_similarity_factor(keep=None):
    """Similarity factor f2 at the times that are marked in ``keep`` (all if None)."""

    @keras.ops.custom_gradient
    def similarity_factor(test, reference):
        """f2 = 50 log10(100 / sqrt(1 + mean squared difference of the mean profiles)).

        :param test: (batches, vessels, times), percent dissolved
        :param reference: (batches or 1, vessels of the reference, times), percent dissolved
        :returns: (batches,)
        """
        times = test.shape[-1]
        marks = np.ones(times) if keep is None else np.asarray(keep, dtype="float64")
        points = max(float(marks.sum()), 1.0)
        marks = ops.cast(ops.convert_to_tensor(marks), test.dtype)
        gap = (
            ops.sum(test, axis=1) / test.shape[1] - ops.sum(reference, axis=1) / reference.shape[1]
        ) * marks
        spread = 1.0 + ops.sum(ops.square(gap), axis=-1) / points
        score = 100.0 - 25.0 / math.log(10.0) * ops.log(spread)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            d_spread = -25.0 / math.log(10.0) * upstream / spread
            d_gap = d_spread[:, None] * 2.0 * gap / points
            d_test = ops.ones_like(test) * d_gap[:, None, :] / test.shape[1]
            if reference.shape[0] == 1:
                d_mean = ops.sum(d_gap, axis=0, keepdims=True)
            else:
                d_mean = d_gap
            d_reference = -ops.ones_like(reference) * d_mean[:, None, :] / reference.shape[1]
            return d_test, d_reference

        return score, grad

    return similarity_factor


class ProfileComparison(keras.layers.Layer):
    """Scores measured concentrations of test batches against a reference profile.

    Call with concentrations of shape (batches, vessels, times) in mg/mL; ``dose`` is the label claim in mg.
    """

    def __init__(self, apparatus, reference, dose, **kwargs):
        super().__init__(**kwargs)
        self.apparatus = apparatus
        self.reference = np.asarray(reference)[None]
        self.dose = dose
        self._mass = make_released_mass(apparatus.replaced)
        self._score = make_similarity_factor(comparison_points(reference))

    def call(self, conc):
        batches, vessels, times = conc.shape
        draws = ops.cast(ops.convert_to_tensor(self.apparatus.draws), conc.dtype)
        volume = ops.cast(ops.convert_to_tensor(self.apparatus.volume), conc.dtype)
        mass = self._mass(ops.reshape(conc, (-1, times)), draws, volume)
        percent = ops.reshape(100.0 * mass / self.dose, (batches, vessels, times))
        return self._score(percent, ops.cast(ops.convert_to_tensor(self.reference), conc.dtype))
