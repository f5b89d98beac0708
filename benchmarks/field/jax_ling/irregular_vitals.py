"""Layers for irregularly sampled bedside series.

Vital signs and laboratory values arrive at odd times and most cells of the
patient x time x channel array are empty.  Four operations recur in our
encoders:

``decay_fill``       fill empty cells by the last value, relaxing to a channel mean
``event_trace``      exponentially forgotten sum over unequal gaps
``kernel_readout``   values at reference times from a Gaussian kernel in time
``alarm_penalty``    cost of predictions out of the alarm limits

Arrays are patient major.  Masks are floats, 1 where a value was charted.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

HOURS = 1.0
DEFAULT_PRIOR_WEIGHT = 0.1
CHANNELS = ("heart_rate", "map", "resp_rate", "spo2", "temp")


def time_since_seen(times, mask):
    """Hours since the previous charted value, per channel.

    times: (patients, steps); mask: (patients, steps, channels).
    """
    gaps = jnp.diff(times, axis=1, prepend=times[:, :1])

    def step(age, inputs):
        gap, seen_before = inputs
        age = gap[:, None] + jnp.where(seen_before > 0, 0.0, age)
        return age, age

    before = jnp.concatenate([jnp.zeros_like(mask[:, :1]), mask[:, :-1]], axis=1)
    start = jnp.zeros_like(mask[:, 0])
    _, ages = lax.scan(step, start, (gaps.T, jnp.swapaxes(before, 0, 1)))
    return jnp.swapaxes(ages, 0, 1)


# --------------------------------------------------------------------------------
# imputation
# --------------------------------------------------------------------------------


def _last_seen(x, mask, mean):
    """Last charted value strictly before each step; the mean if there is none."""

    def step(last, inputs):
        value, seen = inputs
        return jnp.where(seen > 0, value, last), last

    start = jnp.broadcast_to(mean, x[:, 0].shape)
    _, lasts = lax.scan(step, start, (jnp.swapaxes(x, 0, 1), jnp.swapaxes(mask, 0, 1)))
    return jnp.swapaxes(lasts, 0, 1)


@jax.custom_vjp
def decay_fill(x, mask, age, mean, weight, bias):
    """Decay imputation.

    Args:
        x: float[patients, steps, channels]; content of empty cells is ignored.
        mask: float[patients, steps, channels].
        age: float[patients, steps, channels], hours since the last value.
        mean: float[channels].
        weight: float[channels].
        bias: float[channels].

    Returns:
        float[patients, steps, channels]

    The trust in the last value is exp(-relu(weight * age + bias)).
    """
    trust = jnp.exp(-jnp.maximum(weight * age + bias, 0.0))
    last = _last_seen(x, mask, mean)
    return jnp.where(mask > 0, x, trust * last + (1.0 - trust) * mean)


def _decay_fill_fwd(x, mask, age, mean, weight, bias):
    rate = weight * age + bias
    trust = jnp.exp(-jnp.maximum(rate, 0.0))
    last = _last_seen(x, mask, mean)
    out = jnp.where(mask > 0, x, trust * last + (1.0 - trust) * mean)
    return out, (mask, age, mean, weight, rate, trust, last)


def _decay_fill_bwd(saved, out_bar):
    mask, age, mean, weight, rate, trust, last = saved
    empty_bar = jnp.where(mask > 0, 0.0, out_bar)
    last_bar = empty_bar * trust
    trust_bar = empty_bar * (last - mean)
    rate_bar = jnp.where(rate > 0.0, -trust * trust_bar, 0.0)

    def step(pending, inputs):
        need, seen = inputs
        taken = jnp.where(seen > 0, pending, 0.0)
        return jnp.where(seen > 0, 0.0, pending) + need, taken

    unmet, taken = lax.scan(
        step,
        jnp.zeros_like(last[:, 0]),
        (jnp.swapaxes(last_bar, 0, 1), jnp.swapaxes(mask, 0, 1)),
        reverse=True,
    )
    x_bar = jnp.where(mask > 0, out_bar, 0.0) + jnp.swapaxes(taken, 0, 1)
    mean_bar = jnp.sum(empty_bar * (1.0 - trust), axis=(0, 1)) + jnp.sum(unmet, axis=0)
    weight_bar = jnp.sum(rate_bar * age, axis=(0, 1))
    bias_bar = jnp.sum(rate_bar, axis=(0, 1))
    return x_bar, jnp.zeros_like(mask), rate_bar * weight, mean_bar, weight_bar, bias_bar


decay_fill.defvjp(_decay_fill_fwd, _decay_fill_bwd)


# --------------------------------------------------------------------------------
# forgotten sums
# --------------------------------------------------------------------------------


@jax.custom_vjp
def event_trace(events, gaps, rate):
    """h[t] = exp(-rate * gaps[t]) * h[t-1] + events[t], from h = 0.

    events (steps, features), gaps (steps,) hours since the previous step,
    rate (features,).
    """

    def step(h, inputs):
        event, gap = inputs
        h = jnp.exp(-rate * gap) * h + event
        return h, h

    _, trace = lax.scan(step, jnp.zeros_like(events[0]), (events, gaps))
    return trace


def _event_trace_fwd(events, gaps, rate):
    trace = event_trace(events, gaps, rate)
    return trace, (trace, gaps, rate)


def _event_trace_bwd(saved, trace_bar):
    trace, gaps, rate = saved
    keep = jnp.exp(-gaps[:, None] * rate)

    def step(later, inputs):
        here, kept = inputs
        total = here + kept * later
        return total, total

    _, events_bar = lax.scan(
        step, jnp.zeros_like(trace[0]), (trace_bar, keep), reverse=True
    )
    before = jnp.concatenate([jnp.zeros_like(trace[:1]), trace[:-1]])
    exponent_bar = -events_bar * keep * before
    gaps_bar = jnp.sum(exponent_bar * rate, axis=1)
    rate_bar = jnp.sum(exponent_bar * gaps[:, None], axis=0)
    return events_bar, gaps_bar, rate_bar


event_trace.defvjp(_event_trace_fwd, _event_trace_bwd)


# --------------------------------------------------------------------------------
# reference times
# --------------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(6,))
def kernel_readout(ref, times, values, mask, log_width, prior, prior_weight):
    """Kernel regression on reference times.

    Parameters
    ----------
    ref : (refs,)
    times : (patients, steps)
    values, mask : (patients, steps, channels)
    log_width : (channels,)
        Log of the kernel width in hours.
    prior : (channels,)
        Value to fall back to where little was charted.
    prior_weight : float
        Pseudo-count of the prior.

    Returns
    -------
    (patients, refs, channels)
    """
    return _readout(ref, times, values, mask, log_width, prior, prior_weight)[0]


def _readout(ref, times, values, mask, log_width, prior, prior_weight):
    lag = ref[None, :, None] - times[:, None, :]  # patients, refs, steps
    scaled = lag[..., None] * jnp.exp(-log_width)
    bell = jnp.exp(-0.5 * scaled**2)
    w = mask[:, None] * bell
    mass = jnp.sum(w, axis=2) + prior_weight
    est = (jnp.einsum("prsc,psc->prc", w, values) + prior_weight * prior) / mass
    return est, bell, scaled, mass


def _kernel_readout_fwd(ref, times, values, mask, log_width, prior, prior_weight):
    est, bell, scaled, mass = _readout(ref, times, values, mask, log_width, prior, prior_weight)
    return est, (values, log_width, est, bell, scaled, mass, mask)


def _kernel_readout_bwd(prior_weight, saved, est_bar):
    values, log_width, est, bell, scaled, mass, mask = saved
    unit = est_bar / mass
    w = mask[:, None] * bell
    values_bar = jnp.einsum("prc,prsc->psc", unit, w)
    prior_bar = prior_weight * jnp.sum(unit, axis=(0, 1))

    w_bar = unit[:, :, None] * (values[:, None] - est[:, :, None])
    mask_bar = jnp.sum(w_bar * bell, axis=1)
    log_w_bar = w_bar * w
    lag_bar = jnp.sum(-log_w_bar * scaled * jnp.exp(-log_width), axis=-1)
    ref_bar = jnp.sum(lag_bar, axis=(0, 2))
    times_bar = -jnp.sum(lag_bar, axis=1)
    log_width_bar = jnp.sum(log_w_bar * scaled**2, axis=(0, 1, 2))
    return ref_bar, times_bar, values_bar, mask_bar, log_width_bar, prior_bar


kernel_readout.defvjp(_kernel_readout_fwd, _kernel_readout_bwd)


# --------------------------------------------------------------------------------
# alarms
# --------------------------------------------------------------------------------


@jax.custom_jvp
def alarm_penalty(pred, low, high, width):
    """Cost of leaving the alarm limits: quadratic within `width`, then linear."""
    excess = jnp.maximum(jnp.maximum(low - pred, pred - high), 0.0)
    return jnp.where(excess < width, 0.5 * excess**2 / width, excess - 0.5 * width)


@alarm_penalty.defjvp
def _alarm_penalty_jvp(primals, tangents):
    pred, low, high, width = primals
    d_pred, d_low, d_high, d_width = tangents
    under = low - pred
    over = pred - high
    excess = jnp.maximum(jnp.maximum(under, over), 0.0)
    d_excess = jnp.where(over > under, d_pred - d_high, d_low - d_pred)

    near = excess < width
    value = jnp.where(near, 0.5 * excess**2 / width, excess - 0.5 * width)
    slope = jnp.where(near, excess / width, 1.0)
    width_slope = jnp.where(near, -0.5 * (excess / width) ** 2, 0.0)
    return value, slope * d_excess + width_slope * d_width


# --------------------------------------------------------------------------------
# model
# --------------------------------------------------------------------------------


class VitalsEncoder:
    """Imputation, traces and a readout on hourly reference times."""

    def __init__(self, channels: int, refs: int, prior_weight=DEFAULT_PRIOR_WEIGHT):
        self.channels = channels
        self.refs = refs
        self.prior_weight = prior_weight

    def init(self, key):
        c = self.channels
        k1, k2 = jax.random.split(key)
        return {
            "fill": {
                "mean": jnp.zeros(c),
                "weight": 0.3 + 0.1 * jax.random.uniform(k1, (c,)),
                "bias": jnp.full((c,), -0.05),
            },
            "log_rate": jnp.full((c,), -1.0),
            "readout": {"log_width": jnp.zeros(c), "prior": jnp.zeros(c)},
            "head": 0.1 * jax.random.normal(k2, (3 * c, c)),
            "log_alarm_width": jnp.zeros(c),
        }

    def __call__(self, params, times, x, mask):
        age = time_since_seen(times, mask)
        fill = params["fill"]
        filled = decay_fill(x, mask, age, fill["mean"], fill["weight"], fill["bias"])
        gaps = jnp.diff(times, axis=1, prepend=times[:, :1])
        rate = jnp.exp(params["log_rate"])
        traces = jax.vmap(event_trace, in_axes=(0, 0, None))(mask, gaps, rate)
        ref = jnp.linspace(0.0, self.refs - 1.0, self.refs) * HOURS
        read = kernel_readout(
            ref,
            times,
            x * mask,
            mask,
            params["readout"]["log_width"],
            params["readout"]["prior"],
            self.prior_weight,
        )
        pooled = jnp.concatenate(
            [filled[:, -1], jnp.log1p(traces[:, -1]), jnp.mean(read, axis=1)], axis=-1
        )
        return pooled @ params["head"]

    def loss(self, params, batch, limits):
        pred = self(params, batch["times"], batch["x"], batch["mask"])
        low, high = limits
        width = jnp.exp(params["log_alarm_width"])
        alarm = alarm_penalty(pred, low, high, width)
        return jnp.mean((pred - batch["target"]) ** 2) + 0.05 * jnp.mean(alarm)


def synthetic_batch(key, patients=4, steps=9, channels=len(CHANNELS)):
    k1, k2, k3, k4 = jax.random.split(key, 4)
    return {
        "times": jnp.cumsum(jax.random.exponential(k1, (patients, steps)), axis=1),
        "x": jax.random.normal(k2, (patients, steps, channels)),
        "mask": (jax.random.uniform(k3, (patients, steps, channels)) < 0.4).astype(float),
        "target": 2.0 * jax.random.normal(k4, (patients, channels)),
    }


if __name__ == "__main__":
    encoder = VitalsEncoder(len(CHANNELS), refs=6)
    weights = encoder.init(jax.random.PRNGKey(0))
    data = synthetic_batch(jax.random.PRNGKey(1))
    bounds = (jnp.full((len(CHANNELS),), -0.2), jnp.full((len(CHANNELS),), 0.2))
    for it in range(5):
        loss, grads = jax.value_and_grad(encoder.loss)(weights, data, bounds)
        weights = jax.tree.map(lambda p, g: p - 0.1 * g, weights, grads)
        print(it, float(loss))
