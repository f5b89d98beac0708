"""Matching applicants to vacancies, written on ``keras.ops``.

A two-sided model: applicants and vacancies are bags of weighted skills plus an
ordinal seniority.  A score is a soft overlap of skills less a penalty for the
seniority gap, and it is trained on the shortlists recruiters made.

Runs on whichever backend Keras is set to.
"""

import json
from typing import Callable, Dict, List, Optional, Sequence

import keras
import numpy as np
from keras import ops

OVERLAP_EPS = 1e-6

# Seniority ladder (years of scope rather than years of age).
LADDER = {"trainee": 0.0, "junior": 1.0, "mid": 2.5, "senior": 4.0, "lead": 5.5, "head": 7.5}

UNDER_KNOT = 1.5
OVER_SLACK = 1.0
OVER_RATE = 0.35

DEFAULT_CONFIG = {
    "skills": 64,
    "temperature": 1.0,
    "gap_weight": 0.5,
    "learn_importance": True,
}


def load_config(text: Optional[str] = None) -> Dict:
    """Defaults overlaid with a JSON string."""
    config = dict(DEFAULT_CONFIG)
    if text:
        config.update(json.loads(text))
    return config


def ladder_levels(titles: Sequence[str]) -> np.ndarray:
    return np.asarray([LADDER[title] for title in titles], dtype="float32")


def bag_of_skills(rows: Sequence[Dict[int, float]], skills: int) -> np.ndarray:
    """Dense rows from sparse ``{skill: proficiency}`` dictionaries."""
    out = np.zeros((len(rows), skills), dtype="float32")
    for place, row in enumerate(rows):
        for skill, amount in row.items():
            out[place, skill] += amount
    return out


# ---------------------------------------------------------------------------
# Skills
# ---------------------------------------------------------------------------


@ops.custom_gradient
def skill_overlap(applicants, vacancies, importance):
    """Weighted Tanimoto overlap of every applicant with every vacancy.

    Args:
        applicants: proficiencies, shape ``(N, S)``.
        vacancies: requirements, shape ``(M, S)``.
        importance: how much each skill counts, shape ``(S,)``, positive.

    Returns:
        Overlap in ``[0, 1]`` for non-negative bags, shape ``(N, M)``.
    """
    weighted = applicants * importance
    both = ops.matmul(weighted, ops.transpose(vacancies))
    mine = ops.sum(weighted * applicants, axis=1, keepdims=True)
    theirs = ops.expand_dims(ops.sum(importance * ops.square(vacancies), axis=1), 0)
    union = mine + theirs - both + OVERLAP_EPS
    overlap = both / union

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        d_both = upstream * (1.0 + overlap) / union
        d_union = upstream * overlap / union
        d_mine = -ops.sum(d_union, axis=1, keepdims=True)
        d_theirs = -ops.expand_dims(ops.sum(d_union, axis=0), 1)
        across = ops.matmul(d_both, vacancies)
        d_applicants = importance * (across + 2.0 * applicants * d_mine)
        d_vacancies = importance * (
            ops.matmul(ops.transpose(d_both), applicants) + 2.0 * vacancies * d_theirs
        )
        d_importance = (
            ops.sum(applicants * across, axis=0)
            + ops.sum(ops.square(applicants) * d_mine, axis=0)
            + ops.sum(ops.square(vacancies) * d_theirs, axis=0)
        )
        return d_applicants, d_vacancies, d_importance

    return overlap, grad


# ---------------------------------------------------------------------------
# Seniority
# ---------------------------------------------------------------------------


@ops.custom_gradient
def seniority_gap(offered, required):
    """Penalty for a mismatch of ladder levels.

    Below the requirement the penalty is quadratic and, from `UNDER_KNOT` on,
    linear.  Above it nothing happens within `OVER_SLACK`; past that, a shallow
    quadratic.  `offered` has a row per applicant; `required` has one entry per
    vacancy, and the result is a matrix of the two.
    """
    gap = ops.expand_dims(offered, 1) - ops.expand_dims(required, 0)
    short = ops.maximum(-gap, 0.0)
    near = ops.minimum(short, UNDER_KNOT)
    beyond = ops.maximum(gap - OVER_SLACK, 0.0)
    under = near * (short - 0.5 * near)
    penalty = under + 0.5 * OVER_RATE * ops.square(beyond)

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        d_gap = upstream * (OVER_RATE * beyond - near)
        return ops.sum(d_gap, axis=1), -ops.sum(d_gap, axis=0)

    return penalty, grad


# ---------------------------------------------------------------------------
# Shortlist loss
# ---------------------------------------------------------------------------


def make_fit_loss(temperature: float = 1.0) -> Callable:
    """Build the listwise shortlist loss.

    Parameters
    ----------
    temperature : float
        Divides the scores before the softmax.  1 for calibrated scores;
        0.05 to 0.5 where the scores are overlaps and the list is long.

    Returns
    -------
    callable
        ``fit_loss(scores, shortlisted)`` with both arrays of shape
        (vacancies, applicants).  ``shortlisted`` holds non-negative weights.
        One value per vacancy; a vacancy nobody was shortlisted for gives 0.
    """

    @ops.custom_gradient
    def fit_loss(scores, shortlisted):
        log_share = ops.log_softmax(scores / temperature, axis=-1)
        total = ops.sum(shortlisted, axis=-1, keepdims=True)
        some = ops.cast(total > 0, scores.dtype)
        safe = ops.where(total > 0, total, ops.ones_like(total))
        target = shortlisted / safe
        loss = -ops.sum(target * log_share, axis=-1, keepdims=True)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            row = ops.expand_dims(upstream, -1) * some
            d_scores = row * (ops.exp(log_share) - target)
            d_shortlisted = -row * (log_share + loss) / safe
            return d_scores, d_shortlisted

        return ops.squeeze(loss, -1), grad

    return fit_loss


# ---------------------------------------------------------------------------
# Model
# ---------------------------------------------------------------------------


class ApplicantMatcher(keras.layers.Layer):
    """Scores applicants against vacancies.

    Inputs are a dict::

        {"applicants": {"skills": (N, S), "level": (N,)},
         "vacancies":  {"skills": (M, S), "level": (M,)}}

    and the output is ``(M, N)``, ready for the shortlist loss.
    """

    def __init__(self, skills: int, gap_weight: float = 0.5, learn_importance=True, **kwargs):
        super().__init__(**kwargs)
        self.skills = skills
        self.gap_weight = gap_weight
        self.learn_importance = learn_importance

    def build(self, input_shape=None):
        self.importance_raw = self.add_weight(
            shape=(self.skills,),
            initializer=keras.initializers.Constant(0.54),
            trainable=self.learn_importance,
            name="importance_raw",
        )
        self.level_shift = self.add_weight(
            shape=(1,), initializer="zeros", trainable=True, name="level_shift"
        )
        self.built = True

    def importance(self):
        return ops.softplus(ops.convert_to_tensor(self.importance_raw))

    def call(self, inputs):
        applicants, vacancies = inputs["applicants"], inputs["vacancies"]
        overlap = skill_overlap(applicants["skills"], vacancies["skills"], self.importance())
        shifted = applicants["level"] + ops.convert_to_tensor(self.level_shift)
        gap = seniority_gap(shifted, vacancies["level"])
        return ops.transpose(overlap - self.gap_weight * gap)

    def get_config(self):
        return {
            **super().get_config(),
            "skills": self.skills,
            "gap_weight": self.gap_weight,
            "learn_importance": self.learn_importance,
        }


class ShortlistObjective:
    """Mean listwise loss over the vacancies, with optional vacancy weights."""

    def __init__(self, temperature: float = 1.0, weights: Optional[np.ndarray] = None):
        self.fit_loss = make_fit_loss(temperature)
        self.weights = weights

    def __call__(self, shortlisted, scores):
        losses = self.fit_loss(scores, shortlisted)
        if self.weights is None:
            return ops.mean(losses)
        weights = ops.convert_to_tensor(self.weights)
        return ops.sum(losses * weights) / ops.sum(weights)


def rank_of_hired(scores: np.ndarray, hired: Sequence[int]) -> List[int]:
    """1-based place of the hired applicant in each vacancy's list."""
    order = np.argsort(-np.asarray(scores), axis=1)
    return [int(np.where(row == who)[0][0]) + 1 for row, who in zip(order, hired)]


def toy_market(applicants: int, vacancies: int, skills: int, seed: int = 11) -> Dict:
    rng = np.random.default_rng(seed)
    titles = list(LADDER)

    def side(count: int, density: float) -> Dict:
        rows = [
            {
                int(skill): float(rng.uniform(0.2, 1.0))
                for skill in np.flatnonzero(rng.random(skills) < density)
            }
            for _ in range(count)
        ]
        return {
            "skills": ops.convert_to_tensor(bag_of_skills(rows, skills)),
            "level": ops.convert_to_tensor(ladder_levels(rng.choice(titles, count))),
        }

    return {"applicants": side(applicants, 0.3), "vacancies": side(vacancies, 0.2)}


if __name__ == "__main__":
    settings = load_config('{"skills": 24}')
    market = toy_market(9, 4, settings["skills"])
    matcher = ApplicantMatcher(
        settings["skills"], settings["gap_weight"], settings["learn_importance"]
    )
    matcher.build()
    table = matcher(market)
    marks = np.zeros((4, 9), "float32")
    marks[0, [1, 4]] = 1.0
    marks[2, 7] = 2.0
    objective = ShortlistObjective(settings["temperature"])
    print("loss", float(objective(ops.convert_to_tensor(marks), table)))
    print("ranks", rank_of_hired(ops.convert_to_numpy(table), [1, 0, 7, 3]))
