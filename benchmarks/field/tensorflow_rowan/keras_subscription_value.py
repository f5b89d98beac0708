"""Heads for predicting what a customer is worth (Keras 3, backend neutral).

Two heads are used by the marketing models:

* a spend head trained with the zero-inflated log-normal loss of Wang, Liu and
  Miao (2019), for shops where most customers never come back;
* a contract head which turns a row of monthly churn logits into the present
  value of a subscription.

The losses are evaluated over whole customer bases, so both have explicit
gradients in terms of `keras.ops` rather than whatever autodiff keeps around.
"""

from __future__ import annotations

import dataclasses
import math

import keras
import numpy as np
from keras import ops

#: smallest log-normal scale the spend head may predict
SCALE_FLOOR = 1e-3
HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
MONTHS_PER_YEAR = 12.0
DEFAULT_HURDLE_RATE = 0.10


@dataclasses.dataclass(frozen=True)
class BillingTerms:
    """How a plan is billed.

    Attributes:
        period_months: months between two invoices.
        in_advance: True if the invoice falls at the start of the period it
            covers (streaming, insurance), False if at its end (utilities).
        horizon: number of invoices looked at.
    """

    period_months: float = 1.0
    in_advance: bool = False
    horizon: int = 24


# ----------------------------------------------------------------------------
# spend
# ----------------------------------------------------------------------------
@ops.custom_gradient
def ziln_loss(raw, spend):
    """Zero-inflated log-normal negative log likelihood.

    raw: (B, 3) with the purchase logit, the log-normal location and the raw
    (pre-softplus) scale; spend: (B,), zero for customers who did not return.
    Returns one loss per customer, (B,).
    """
    logit, location, raw_scale = raw[:, 0], raw[:, 1], raw[:, 2]
    bought = spend > 0
    scale = ops.softplus(raw_scale) + SCALE_FLOOR
    log_spend = ops.log(ops.where(bought, spend, ops.ones_like(spend)))
    z = (log_spend - location) / scale
    density = log_spend + ops.log(scale) + HALF_LOG_TWO_PI + 0.5 * z * z
    loss = ops.where(bought, ops.softplus(-logit) + density, ops.softplus(logit))

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        hit = ops.cast(bought, raw.dtype)
        logit_bar = upstream * (ops.sigmoid(logit) - hit)
        location_bar = -upstream * hit * z / scale
        scale_bar = upstream * hit * (1.0 - z * z) / scale
        raw_bar = ops.stack(
            [logit_bar, location_bar, scale_bar * ops.sigmoid(raw_scale)], axis=1
        )
        safe = ops.where(bought, spend, ops.ones_like(spend))
        spend_bar = upstream * hit * (1.0 + z / scale) / safe
        return raw_bar, spend_bar

    return loss, grad


def expected_spend(raw):
    """Mean of the zero-inflated log-normal, (B,)."""
    scale = ops.softplus(raw[:, 2]) + SCALE_FLOOR
    return ops.sigmoid(raw[:, 0]) * ops.exp(raw[:, 1] + 0.5 * scale**2)


def normalised_gini(labels, predictions):
    """Gini of the labels ordered by prediction over that of the perfect order."""

    def gini(order):
        ordered = labels[order]
        shares = np.cumsum(ordered) / np.maximum(ordered.sum(), 1e-12)
        return shares.mean()

    labels, predictions = np.asarray(labels), np.asarray(predictions)
    perfect = gini(np.argsort(-labels, kind="stable")) - 0.5
    return (gini(np.argsort(-predictions, kind="stable")) - 0.5) / max(perfect, 1e-12)


class SpendHead(keras.layers.Layer):
    """Dense layer to the three parameters of the log-normal mixture."""

    def __init__(self, start_location=3.0, **kwargs):
        super().__init__(**kwargs)
        self.start_location = start_location
        self.dense = keras.layers.Dense(3)

    def build(self, input_shape):
        self.dense.build(input_shape)
        self.dense.bias.assign(np.array([0.0, self.start_location, 0.5], "float32"))
        self.built = True

    def call(self, features):
        return self.dense(features)

    def compute_output_shape(self, input_shape):
        return tuple(input_shape[:-1]) + (3,)

    def get_config(self):
        config = super().get_config()
        config["start_location"] = self.start_location
        return config


class ZILNLoss(keras.losses.Loss):
    """`ziln_loss` as a Keras loss; `y_true` is `(B, 1)` or `(B,)`."""

    def call(self, y_true, y_pred):
        spend = ops.reshape(ops.cast(y_true, y_pred.dtype), (-1,))
        return ziln_loss(y_pred, spend)


# ----------------------------------------------------------------------------
# contracts
# ----------------------------------------------------------------------------
def _exclusive(survival):
    """Survival at the start of each period from survival at its end."""
    return ops.concatenate([ops.ones_like(survival[:, :1]), survival[:, :-1]], axis=1)


def _tail_sum(values):
    """Sum over this and all later columns."""
    return ops.flip(ops.cumsum(ops.flip(values, axis=1), axis=1), axis=1)


def make_contract_value(terms: BillingTerms = BillingTerms()):
    """Present value of a subscription under given billing terms.

    Returns
    -------
    callable
        ``contract_value(churn_logits, margins, rate) -> (B,)`` where
        ``churn_logits`` (B, T) are logits of leaving in each period given that
        the customer was there at its start, ``margins`` (T,) is the margin of
        the plan per invoice and ``rate`` (B,) the yearly discount rate of the
        customer's segment.  An invoice sent at the end of a period is paid by
        those who are still there, one sent at its start by those who entered
        the period; it is discounted over the time up to the invoice.
    """
    first = 0 if terms.in_advance else 1
    years = np.arange(first, first + terms.horizon) * terms.period_months / MONTHS_PER_YEAR

    @ops.custom_gradient
    def contract_value(churn_logits, margins, rate):
        due = ops.cast(years, churn_logits.dtype)
        survival = ops.exp(-ops.cumsum(ops.softplus(churn_logits), axis=1))
        payers = _exclusive(survival) if terms.in_advance else survival
        growth = 1.0 + rate[:, None]
        discount = growth ** (-due)
        present = margins * payers * discount

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            weight = upstream[:, None]
            hazard = ops.sigmoid(churn_logits)
            logits_bar = -weight * hazard * _tail_sum(present)
            margins_bar = ops.sum(weight * payers * discount, axis=0)
            rate_bar = -upstream * ops.sum(due * present / growth, axis=1)
            return logits_bar, margins_bar, rate_bar

        return ops.sum(present, axis=1), grad

    return contract_value


def expected_tenure(churn_logits):
    """Expected number of completed periods within the horizon, (B,)."""
    return ops.sum(ops.exp(-ops.cumsum(ops.softplus(churn_logits), axis=1)), axis=1)


class ContractHead(keras.layers.Layer):
    """Churn logits by period and the value that follows from them.

    Args:
        terms: BillingTerms of the plan.
        margin: margin per invoice at the start of training.
        hurdle_rate: yearly discount rate, one for all customers.
    """

    def __init__(self, terms=BillingTerms(), margin=12.0, hurdle_rate=DEFAULT_HURDLE_RATE, **kwargs):
        super().__init__(**kwargs)
        self.terms = terms
        self.margin = margin
        self.hurdle_rate = hurdle_rate
        self.logits = keras.layers.Dense(terms.horizon, bias_initializer=keras.initializers.Constant(-3.0))
        self.value_of = make_contract_value(terms)

    def build(self, input_shape):
        self.logits.build(input_shape)
        self.margins = self.add_weight(
            shape=(self.terms.horizon,),
            initializer=keras.initializers.Constant(self.margin),
            name="margins",
        )
        self.built = True

    def call(self, features):
        churn = self.logits(features)
        rate = ops.full_like(churn[:, 0], self.hurdle_rate)
        return self.value_of(churn, ops.multiply(self.margins, 1.0), rate)


def retention_budget(values, uplift, cost):
    """Customers for whom an offer pays: boolean mask."""
    return ops.convert_to_numpy(values) * uplift > cost


def main():
    rng = np.random.default_rng(2)
    features = rng.normal(size=(64, 6)).astype("float32")
    spend = np.where(rng.random(64) < 0.4, np.exp(rng.normal(3.0, 0.8, 64)), 0.0)

    model = keras.Sequential([keras.layers.Dense(8, activation="relu"), SpendHead()])
    model.compile(optimizer=keras.optimizers.Adam(1e-2), loss=ZILNLoss())
    history = model.fit(features, spend.astype("float32"), epochs=4, verbose=0)
    print("loss", history.history["loss"])
    predicted = ops.convert_to_numpy(expected_spend(model(features)))
    print("gini", normalised_gini(spend, predicted))

    for terms in (BillingTerms(), BillingTerms(3.0, True, 8)):
        head = ContractHead(terms)
        values = head(ops.convert_to_tensor(features))
        print(terms, ops.convert_to_numpy(values)[:4].round(2))
        print("worth an offer:", int(retention_budget(values, 0.05, 6.0).sum()))


if __name__ == "__main__":
    main()
