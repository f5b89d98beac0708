"""Discrimination tests of a tasting panel: triangle, tetrad, duo-trio, 2-AFC.

A panelist gets samples of which one is odd (or asked for).  The share of correct answers climbs from the guessing rate to
one minus the rate of lapses.  Strong samples linger on the palate, so what is perceived depends on what was
tasted before in the same session.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from keras import ops

GUESSING = {"triangle": 1 / 3, "tetrad": 1 / 3, "duo-trio": 1 / 2, "2-afc": 1 / 2}


@dataclass
class Panel:
    protocol: str = "triangle"
    lapse: float = 0.0
    sessions: tuple[int, ...] = ()

    @property
    def guess(self) -> float:
        return GUESSING[self.protocol]


def make_correct_rate(guess: float, lapse: float = 0.0):
    """Psychometric function of a protocol.

    ``correct_rate(strength, threshold, log_slope)``: strength (panelists, samples), threshold (panelists, 1), log_slope
    scalar; gives the probability of a correct answer, (panelists, samples).
    """

    @ops.custom_gradient
    def correct_rate(strength, threshold, log_slope):
        slope = ops.exp(log_slope)
        above = strength - threshold
        p = guess + (1.0 - guess - lapse) * ops.sigmoid(slope * above)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            dz = upstream * (p - guess) * (1.0 - p) / (1.0 - guess)
            d_strength = slope * dz
            d_threshold = -ops.sum(d_strength, axis=1, keepdims=True)
            return d_strength, d_threshold, ops.sum(dz * slope * above)

        return p, grad

    return correct_rate


def lingering(sessions):
    """Builds ``perceived(strength, stay, dulling)`` for a fixed order of serving.

    sessions : int sequence (servings,)
        Session of each serving.  The palate is rested between two sessions; a session need not be contiguous (a late
        serving of an earlier session meets that session's aftertaste, one step old).
    strength : (panelists, servings)
    stay : scalar in [0, 1), share of the aftertaste that survives a serving; 0 means that only the serving just before is felt
    dulling : (panelists, 1) or scalar, loss of perceived strength per unit of aftertaste
    """
    sessions = np.asarray(sessions)
    order = np.zeros(len(sessions), dtype=int)
    for s in np.unique(sessions):
        hit = sessions == s
        order[hit] = np.arange(hit.sum())
    lag = order[:, None] - order[None, :] - 1  # servings in between, row after column
    linked = (sessions[:, None] == sessions[None, :]) & (lag >= 0)
    lag = np.where(linked, lag, 0)

    @ops.custom_gradient
    def perceived(strength, stay, dulling):
        dtype = strength.dtype
        age = ops.convert_to_tensor(lag, dtype=dtype)
        link = ops.convert_to_tensor(linked, dtype=dtype)
        weight = link * ops.power(stay, age)
        after = ops.einsum("pj,ij->pi", strength, weight)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            pulled = upstream * dulling
            d_strength = upstream - ops.einsum("pi,ij->pj", pulled, weight)
            slope = link * age * ops.power(stay, ops.maximum(age - 1.0, 0.0))
            d_stay = -ops.sum(pulled * ops.einsum("pj,ij->pi", strength, slope))
            d_dulling = -upstream * after
            if len(dulling.shape) == 0:
                d_dulling = ops.sum(d_dulling)
            else:
                d_dulling = ops.sum(d_dulling, axis=1, keepdims=True)
            return d_strength, d_stay, d_dulling

        return strength - dulling * after, grad

    return perceived


def panel_log_likelihood(panel: Panel, strength, stay, dulling, threshold, log_slope, correct):
    """Bernoulli log-likelihood of a panel's answers (correct is 0/1, panelists by servings)."""
    felt = lingering(panel.sessions)(strength, stay, dulling)
    p = make_correct_rate(panel.guess, panel.lapse)(felt, threshold, log_slope)
    p = ops.clip(p, 1e-6, 1.0 - 1e-6)
    return ops.sum(correct * ops.log(p) + (1.0 - correct) * ops.log(1.0 - p))
