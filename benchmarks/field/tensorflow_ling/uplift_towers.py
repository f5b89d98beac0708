"""Uplift towers for campaign targeting.

Shared-bottom network with one outcome tower per arm, a propensity head and the
losses we train it with:

``pseudo_outcome``
    augmented inverse-propensity score used as the regression target of the
    uplift head,
``soft_auuc``
    smooth area under the uplift curve, for fine tuning the ranking,
``arm_balance``
    pulls the (weighted) centroids of the arms together in the representation.

All three are called many times per step (once per tower and per slice of the
batch in the reporting job), therefore the hand-derived backward passes.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, List, Optional, Tuple

import numpy as np
import tensorflow as tf

PROPENSITY_FLOOR = 0.02
RANK_TEMPERATURE = 1.0
TINY_WEIGHT = 1e-6

Batch = Dict[str, tf.Tensor]


@dataclasses.dataclass
class TowerConfig:
    features: int = 16
    hidden: Tuple[int, ...] = (32, 16)
    arms: int = 2
    outcomes: int = 1
    propensity_floor: float = PROPENSITY_FLOOR
    rank_temperature: float = RANK_TEMPERATURE
    balance_weight: float = 0.1
    rank_weight: float = 0.5
    dtype: str = "float32"


# ---------------------------------------------------------------------------
# small layers
# ---------------------------------------------------------------------------


class Dense(tf.Module):
    def __init__(self, n_in: int, n_out: int, activation=None, dtype="float32", seed=0):
        super().__init__()
        rng = np.random.default_rng(seed)
        scale = np.sqrt(2.0 / (n_in + n_out))
        self.kernel = tf.Variable(scale * rng.standard_normal((n_in, n_out)), dtype=dtype)
        self.bias = tf.Variable(np.zeros(n_out), dtype=dtype)
        self.activation = activation

    def __call__(self, x):
        y = x @ self.kernel + self.bias
        return y if self.activation is None else self.activation(y)


class Stack(tf.Module):
    """Dense layers with an ELU between them."""

    def __init__(self, widths: List[int], dtype: str, seed: int, last=None):
        super().__init__()
        pairs = list(zip(widths[:-1], widths[1:]))
        self.layers = [
            Dense(a, b, tf.nn.elu if i + 1 < len(pairs) else last, dtype, seed + i)
            for i, (a, b) in enumerate(pairs)
        ]

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


# ---------------------------------------------------------------------------
# doubly robust target
# ---------------------------------------------------------------------------


def make_pseudo_outcome(floor: float = PROPENSITY_FLOOR):
    """Create the doubly robust score with propensities clipped to [floor, 1 - floor].

    Args:
        floor: smallest propensity that is divided by.  No gradient reaches a
            propensity outside of the interval.

    Returns:
        A function of ``(mu0, mu1, propensity, outcome, treated)``.
    """

    @tf.custom_gradient
    def pseudo_outcome(mu0, mu1, propensity, outcome, treated):
        """Per-unit effect score.

        mu0, mu1, outcome: [B, H] for H outcomes (visit, spend, ...)
        propensity: [B, 1], probability of treatment
        treated: [B, 1] int32 in {0, 1}
        """
        t = tf.cast(treated, mu0.dtype)
        e = tf.clip_by_value(propensity, floor, 1.0 - floor)
        miss1 = outcome - mu1
        miss0 = outcome - mu0
        a1 = t / e
        a0 = (1.0 - t) / (1.0 - e)
        score = mu1 - mu0 + a1 * miss1 - a0 * miss0

        def grad(upstream):
            inside = tf.logical_and(propensity > floor, propensity < 1.0 - floor)
            by_e = tf.reduce_sum(
                -upstream * (a1 / e * miss1 + a0 / (1.0 - e) * miss0),
                axis=-1,
                keepdims=True,
            )
            d_mu0 = upstream * (a0 - 1.0)
            d_mu1 = upstream * (1.0 - a1)
            d_propensity = tf.where(inside, by_e, tf.zeros_like(by_e))
            d_outcome = upstream * (a1 - a0)
            return d_mu0, d_mu1, d_propensity, d_outcome, None

        return score, grad

    return pseudo_outcome


# ---------------------------------------------------------------------------
# ranking
# ---------------------------------------------------------------------------


def arm_gains(outcome, treated):
    """Outcome contributions such that their sum is the difference in means."""
    t = tf.cast(treated, outcome.dtype)
    n1 = tf.maximum(tf.reduce_sum(t), 1.0)
    n0 = tf.maximum(tf.reduce_sum(1.0 - t), 1.0)
    return t / n1 - (1.0 - t) / n0


def make_soft_auuc(temperature: float = RANK_TEMPERATURE):
    """Smooth area under the uplift curve.

    The curve at depth d sums the gains of the d best scored units.  The area is
    therefore the sum of gains, each times the share of units scored below; that
    share is softened with a logistic of the given temperature.  Lower
    temperatures follow the true curve more closely.
    """

    @tf.custom_gradient
    def soft_auuc(score, outcome, treated):
        # score, outcome, treated: all [B]
        unit = arm_gains(outcome, treated)
        gain = unit * outcome
        above = tf.sigmoid((score[:, None] - score[None, :]) / temperature)
        share = tf.reduce_mean(above, axis=1)
        area = tf.reduce_sum(gain * share)

        def grad(upstream):
            n = tf.cast(tf.shape(score)[0], score.dtype)
            steep = above * (1.0 - above)
            own = gain * tf.reduce_sum(steep, axis=1)
            others = tf.linalg.matvec(steep, gain, transpose_a=True)
            d_score = upstream * (own - others) / n
            d_outcome = upstream * unit * share
            return d_score, d_outcome, None

        return area, grad

    return soft_auuc


def hard_auuc(score: np.ndarray, outcome: np.ndarray, treated: np.ndarray) -> float:
    """Area under the uplift curve, for reports only."""
    order = np.argsort(-score, kind="stable")
    y, t = outcome[order], treated[order]
    gain = y * (t / max(t.sum(), 1) - (1 - t) / max((1 - t).sum(), 1))
    return float(np.cumsum(gain).mean())


# ---------------------------------------------------------------------------
# representation balance
# ---------------------------------------------------------------------------


class ArmBalance(tf.Module):
    """Squared distance of each arm's centroid from the control centroid.

    Parameters
    ----------
    arms : int
        Number of arms, control included; control is arm 0.

    Notes
    -----
    ``gap(embedding, weight, arm)`` takes ``embedding`` [B, D], ``weight``
    [B] (non-negative overlap weights) and integer ``arm`` [B]; it returns a
    scalar.  Arms that are absent from the batch don't count.
    """

    def __init__(self, arms: int):
        super().__init__(name="arm_balance")
        if arms < 2:
            raise ValueError("need a control and at least one treatment")
        self.arms = arms
        self.gap = self._make()

    def _make(self):
        arms = self.arms

        @tf.custom_gradient
        def centroid_gap(embedding, weight, arm):
            mass = tf.math.unsorted_segment_sum(weight, arm, arms)
            present = tf.cast(mass > TINY_WEIGHT, embedding.dtype)
            safe = tf.maximum(mass, TINY_WEIGHT)
            total = tf.math.unsorted_segment_sum(weight[:, None] * embedding, arm, arms)
            centroid = total / safe[:, None]
            counted = (present[1:] * present[0])[:, None]
            apart = (centroid[1:] - centroid[:1]) * counted
            value = tf.reduce_sum(apart**2)

            def grad(upstream):
                pull = 2.0 * upstream * apart
                push = -tf.reduce_mean(pull, axis=0, keepdims=True)
                d_centroid = tf.concat([push, pull], axis=0)
                per_unit = tf.gather(d_centroid / safe[:, None], arm)
                d_embedding = weight[:, None] * per_unit
                offset = embedding - tf.gather(centroid, arm)
                d_weight = tf.reduce_sum(per_unit * offset, axis=1)
                return d_embedding, d_weight, None

            return value, grad

        return centroid_gap

    def __call__(self, embedding, weight, arm):
        return self.gap(embedding, weight, arm)


def overlap_weights(propensity, treated):
    """Weights of the overlap population; treated units get 1 - e."""
    t = tf.cast(treated, propensity.dtype)
    return t * (1.0 - propensity) + (1.0 - t) * propensity


# ---------------------------------------------------------------------------
# model
# ---------------------------------------------------------------------------


class UpliftTowers(tf.Module):
    def __init__(self, config: TowerConfig, seed: int = 0):
        super().__init__(name="uplift_towers")
        self.config = config
        width = config.hidden[-1]
        self.trunk = Stack([config.features, *config.hidden], config.dtype, seed, tf.nn.elu)
        self.towers = [
            Stack([width, width, config.outcomes], config.dtype, seed + 100 * (k + 1))
            for k in range(config.arms)
        ]
        self.propensity_head = Stack([width, 1], config.dtype, seed + 7, tf.sigmoid)
        self.effect_head = Stack([width, width, config.outcomes], config.dtype, seed + 8)
        self.pseudo_outcome = make_pseudo_outcome(config.propensity_floor)
        self.soft_auuc = make_soft_auuc(config.rank_temperature)
        self.balance = ArmBalance(config.arms)

    def __call__(self, features):
        rep = self.trunk(features)
        mus = [tower(rep) for tower in self.towers]
        return rep, mus, self.propensity_head(rep), self.effect_head(rep)

    def loss(self, batch: Batch, parts: Optional[dict] = None):
        rep, mus, e, effect = self(batch["features"])
        arm = batch["arm"]
        treated = tf.cast(arm > 0, tf.int32)[:, None]
        factual = tf.gather(tf.stack(mus, axis=1), arm, axis=1, batch_dims=1)
        outcome_loss = tf.reduce_mean((batch["outcome"] - factual) ** 2)

        t = tf.cast(treated, e.dtype)
        propensity_loss = -tf.reduce_mean(
            t * tf.math.log(e + 1e-6) + (1.0 - t) * tf.math.log(1.0 - e + 1e-6)
        )

        best = mus[1] if self.config.arms == 2 else tf.add_n(mus[1:]) / (len(mus) - 1)
        target = self.pseudo_outcome(mus[0], best, e, batch["outcome"], treated)
        effect_loss = tf.reduce_mean((effect - target) ** 2)

        area = self.soft_auuc(effect[:, 0], batch["outcome"][:, 0], treated[:, 0])
        weight = overlap_weights(e, treated)[:, 0]
        balance = self.balance(rep, weight, arm)
        if parts is not None:
            parts.update(outcome=outcome_loss, effect=effect_loss, area=area, balance=balance)
        return (
            outcome_loss
            + propensity_loss
            + effect_loss
            - self.config.rank_weight * area
            + self.config.balance_weight * balance
        )


def synthetic_campaign(config: TowerConfig, units: int = 256, seed: int = 3) -> Batch:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((units, config.features))
    arm = rng.integers(0, config.arms, units)
    lift = 0.6 * np.tanh(x[:, 0]) * arm
    y = x[:, 1:2] * 0.4 + lift[:, None] + 0.3 * rng.standard_normal((units, config.outcomes))
    return {
        "features": tf.constant(x, config.dtype),
        "arm": tf.constant(arm, tf.int32),
        "outcome": tf.constant(y, config.dtype),
    }


def fit(config: TowerConfig, steps: int = 20, rate: float = 0.02):
    model = UpliftTowers(config)
    batch = synthetic_campaign(config)
    for step in range(steps):
        parts = {}
        with tf.GradientTape() as tape:
            loss = model.loss(batch, parts)
        grads = tape.gradient(loss, model.trainable_variables)
        for v, g in zip(model.trainable_variables, grads):
            if g is not None:
                v.assign_sub(rate * g)
        if step % 5 == 0:
            print(step, float(loss), {k: round(float(p), 4) for k, p in parts.items()})
    return model, batch


if __name__ == "__main__":
    print("mail campaign, one offer")
    fit(TowerConfig())
    print("three offers, sharper ranking")
    settings = TowerConfig(arms=4, outcomes=2, rank_temperature=0.25)
    trained, data = fit(settings)
    effect_hat = trained(data["features"])[3][:, 0].numpy()
    print(
        "area",
        hard_auuc(
            effect_hat,
            data["outcome"][:, 0].numpy(),
            (data["arm"].numpy() > 0).astype(float),
        ),
    )
