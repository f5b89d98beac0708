"""Size advice for an online clothes shop.

A small two-stage model.  The first stage turns a customer's habits into a
latent size and predicts the outcome of an order (came back *too small*,
*kept*, came back *too large*) with cut points per brand.  The second stage
ranks the sizes on offer, restricted to stock, and corrects for how the
garment's measurements sit on the body.

Everything is batched over order lines.  Brand and size identifiers are
integers; charts are tables of chest girth in centimetres, one ascending row
per brand.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.nn import log_sigmoid, sigmoid

TOO_SMALL, KEPT, TOO_LARGE = 0, 1, 2
NEG_INF = -1e30

#: Measurements compared by the ease penalty, in column order.
MEASURES = ("chest", "waist", "hip", "shoulder", "sleeve")


class FitParams(NamedTuple):
    customer: jax.Array    # (customers,)
    article: jax.Array     # (articles,)
    first_cut: jax.Array   # (brands,)
    raw_gap: jax.Array     # (brands,)


class OrderLines(NamedTuple):
    customer: jax.Array
    article: jax.Array
    brand: jax.Array
    outcome: jax.Array
    weight: jax.Array      # zero for lines still in transit


def cut_points(first_cut, raw_gap):
    """Ordered cut points, (brands, 2)."""
    return jnp.stack([first_cut, first_cut + jax.nn.softplus(raw_gap)], axis=-1)


# ---------------------------------------------------------------------------
# Order outcomes
# ---------------------------------------------------------------------------

def _outcome_nll(score, cuts, outcome):
    low, high = cuts[:, 0], cuts[:, 1]
    small = log_sigmoid(low - score)
    large = log_sigmoid(score - high)
    kept = (
        log_sigmoid(high - score)
        + log_sigmoid(score - low)
        + jnp.log1p(-jnp.exp(low - high))
    )
    return -jnp.choose(outcome, [small, kept, large], mode="clip")


@jax.custom_vjp
def fit_nll(score, cuts, brand, outcome, weight):
    """Weighted mean negative log likelihood of order outcomes.

    Args:
      score: (lines,) article size minus customer size; large means roomy.
      cuts: (brands, 2) ordered cut points.
      brand: (lines,) integer row of `cuts`.
      outcome: (lines,) one of TOO_SMALL, KEPT, TOO_LARGE.
      weight: (lines,) non-negative; the mean runs over the total weight, and
        a batch without weight scores zero.
    """
    nll = _outcome_nll(score, cuts[brand], outcome)
    total = weight.sum()
    return jnp.where(total > 0, (weight * nll).sum() / jnp.where(total > 0, total, 1.0), 0.0)


def _fit_nll_fwd(score, cuts, brand, outcome, weight):
    loss = fit_nll(score, cuts, brand, outcome, weight)
    return loss, (score, cuts, brand, outcome, weight, loss)


def _fit_nll_bwd(saved, g):
    score, cuts, brand, outcome, weight, loss = saved
    low, high = cuts[brand, 0], cuts[brand, 1]
    total = weight.sum()
    scale = jnp.where(total > 0, g / jnp.where(total > 0, total, 1.0), 0.0)

    crowd = 1.0 / jnp.expm1(high - low)
    zero = jnp.zeros_like(score)
    d_low = jnp.choose(
        outcome, [sigmoid(score - low), -sigmoid(low - score) - crowd, zero], mode="clip"
    )
    d_high = jnp.choose(
        outcome, [zero, sigmoid(score - high) + crowd, -sigmoid(high - score)], mode="clip"
    )
    d_score = jnp.choose(
        outcome,
        [
            -sigmoid(score - low),
            sigmoid(low - score) - sigmoid(score - high),
            sigmoid(high - score),
        ],
        mode="clip",
    )
    line = -scale * weight
    d_cuts = jnp.zeros_like(cuts).at[brand].add(
        line[:, None] * jnp.stack([d_low, d_high], axis=-1)
    )
    nll = _outcome_nll(score, cuts[brand], outcome)
    return line * d_score, d_cuts, None, None, scale * (nll - loss)


fit_nll.defvjp(_fit_nll_fwd, _fit_nll_bwd)


# ---------------------------------------------------------------------------
# Sizes in stock
# ---------------------------------------------------------------------------

def _stock_probs(logits, in_stock):
    shifted = jnp.where(in_stock, logits, NEG_INF)
    shifted = shifted - jax.lax.stop_gradient(shifted.max(axis=-1, keepdims=True))
    weights = jnp.where(in_stock, jnp.exp(shifted), 0.0)
    total = weights.sum(axis=-1, keepdims=True)
    return weights / jnp.where(total > 0, total, 1.0)


@jax.custom_jvp
def size_expectation(logits, sizes, in_stock):
    """Expected size label under a softmax over the sizes in stock.

    logits and in_stock are (lines, sizes); sizes is the (sizes,) vector of
    numeric labels.  For an article that is sold out altogether the advice is
    given over the whole run, as if everything were in stock.
    """
    anything = in_stock.any(axis=-1, keepdims=True)
    probs = _stock_probs(logits, in_stock | ~anything)
    return probs @ sizes


@size_expectation.defjvp
def _size_expectation_jvp(primals, tangents):
    logits, sizes, in_stock = primals
    d_logits, d_sizes, _ = tangents
    expected = size_expectation(logits, sizes, in_stock)
    probs = _stock_probs(logits, in_stock)
    centred = sizes - expected[:, None]
    dot = (probs * centred * d_logits).sum(axis=-1) + probs @ d_sizes
    return expected, dot


# ---------------------------------------------------------------------------
# Size charts
# ---------------------------------------------------------------------------

def _chart_girth(size, chart, src):
    top = chart.shape[1] - 1
    held = jnp.clip(size, 0.0, top)
    i = jnp.clip(jnp.floor(held).astype(jnp.int32), 0, top - 1)
    w = held - i
    return (1.0 - w) * chart[src, i] + w * chart[src, i + 1], i, w


def _chart_place(girth, chart, dst):
    rows = chart[dst]
    j = jnp.sum(rows[:, 1:-1] <= girth[:, None], axis=1)
    left = jnp.take_along_axis(rows, j[:, None], axis=1)[:, 0]
    right = jnp.take_along_axis(rows, j[:, None] + 1, axis=1)[:, 0]
    inside = (girth > rows[:, 0]) & (girth < rows[:, -1])
    u = jnp.clip((girth - left) / (right - left), 0.0, 1.0)
    return j, u, right - left, inside


@jax.custom_vjp
def convert_size(size, chart, src, dst):
    """Translate fractional sizes of brand `src` into sizes of brand `dst`.

    The girth is read off the source row by linear interpolation and looked up
    in the destination row.  Sizes off the chart are held at its ends.
    """
    girth, _, _ = _chart_girth(size, chart, src)
    j, u, _, _ = _chart_place(girth, chart, dst)
    return j + u


def _convert_size_fwd(size, chart, src, dst):
    return convert_size(size, chart, src, dst), (size, chart, src, dst)


def _convert_size_bwd(saved, g):
    size, chart, src, dst = saved
    girth, i, w = _chart_girth(size, chart, src)
    j, u, width, inside = _chart_place(girth, chart, dst)
    d_girth = jnp.where(inside, g / width, 0.0)

    step = chart[src, i + 1] - chart[src, i]
    on_chart = (size >= 0.0) & (size <= chart.shape[1] - 1)
    d_size = jnp.where(on_chart, d_girth * step, 0.0)

    d_chart = jnp.zeros_like(chart)
    d_chart = d_chart.at[src, i].add(d_girth * (1.0 - w))
    d_chart = d_chart.at[src, i + 1].add(d_girth * w)
    d_chart = d_chart.at[dst, j].add(-d_girth * (1.0 - u))
    d_chart = d_chart.at[dst, j + 1].add(-d_girth * u)
    return d_size, d_chart, None, None


convert_size.defvjp(_convert_size_fwd, _convert_size_bwd)


# ---------------------------------------------------------------------------
# Ease on the body
# ---------------------------------------------------------------------------

def make_ease_penalty(tight=1.0, loose=0.15):
    """Penalty for how a garment sits, with separate prices for tight and loose.

    Parameters
    ----------
    tight, loose : float
        Prices per square centimetre.

    Returns
    -------
    callable
        ``ease_penalty(body, garment, stretch, importance)`` with body and
        garment (lines, measures), stretch (lines, 1) the elastic extension of
        the fabric as a fraction, importance (measures,).
    """

    @jax.custom_gradient
    def ease_penalty(body, garment, stretch, importance):
        short = jnp.maximum(body - garment * (1.0 + stretch), 0.0)
        room = jnp.maximum(garment - body, 0.0)
        per_measure = tight * short**2 + loose * room**2
        out = per_measure @ importance

        def grad(g):
            weighted = g[:, None] * importance
            d_short = 2.0 * tight * short * weighted
            d_room = 2.0 * loose * room * weighted
            d_stretch = -(d_short * garment).sum(axis=1, keepdims=True)
            return (
                d_short - d_room,
                d_room - d_short * (1.0 + stretch),
                d_stretch,
                g @ per_measure,
            )

        return out, grad

    return ease_penalty


# ---------------------------------------------------------------------------
# Model
# ---------------------------------------------------------------------------

class SizeAdvisor:
    """Bundles the losses; parameters stay outside."""

    def __init__(self, customers, articles, brands, tight=1.0, loose=0.15):
        self.shape = (customers, articles, brands)
        self.ease = make_ease_penalty(tight, loose)

    def init(self, key):
        customers, articles, brands = self.shape
        k1, k2 = jax.random.split(key)
        return FitParams(
            customer=0.1 * jax.random.normal(k1, (customers,)),
            article=0.1 * jax.random.normal(k2, (articles,)),
            first_cut=-jnp.ones(brands),
            raw_gap=jnp.ones(brands),
        )

    def outcome_loss(self, params, lines: OrderLines):
        score = params.article[lines.article] - params.customer[lines.customer]
        cuts = cut_points(params.first_cut, params.raw_gap)
        return fit_nll(score, cuts, lines.brand, lines.outcome, lines.weight)

    def advice(self, params, lines, sizes, in_stock, body, garments, stretch, importance):
        """Expected size label for each line.

        `garments` is (lines, sizes, measures).
        """
        per_size = jax.vmap(self.ease, in_axes=(None, 1, None, None), out_axes=1)
        penalty = per_size(body, garments, stretch, importance)
        latent = params.customer[lines.customer][:, None]
        return size_expectation(latent * sizes - penalty, sizes, in_stock)


def advice_loss(logits, sizes, in_stock, kept_size):
    return jnp.mean((size_expectation(logits, sizes, in_stock) - kept_size) ** 2)


if __name__ == "__main__":
    advisor = SizeAdvisor(customers=6, articles=4, brands=2)
    params = advisor.init(jax.random.PRNGKey(0))
    lines = OrderLines(
        customer=jnp.array([0, 1, 1, 5, 3]),
        article=jnp.array([2, 2, 0, 3, 1]),
        brand=jnp.array([0, 0, 1, 1, 0]),
        outcome=jnp.array([KEPT, TOO_SMALL, KEPT, TOO_LARGE, KEPT]),
        weight=jnp.array([1.0, 1.0, 0.5, 1.0, 0.0]),
    )
    print(jax.value_and_grad(advisor.outcome_loss)(params, lines))
    chart = jnp.array([[84.0, 90.0, 97.0, 104.0], [82.0, 91.0, 95.0, 108.0]])
    print(convert_size(jnp.array([0.5, 2.25]), chart, jnp.array([0, 1]), jnp.array([1, 0])))
