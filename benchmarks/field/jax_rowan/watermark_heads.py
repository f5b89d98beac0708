"""Training losses for watermarked language models.

A green-list watermark splits the vocabulary for every position into a green and
a red part, keyed on the preceding tokens, and favours green tokens when sampling.
To distil the watermark into the weights, or to tune its strength, three
quantities are used as losses:

* ``expected_zscore``   detection statistic under the model's own distribution
* ``tilt_divergence``   how far the favoured distribution is from the original
* ``make_span_detector`` detection within spans, for text that was pasted into
  other text

Shapes: ``B`` sequences, ``T`` positions, ``V`` tokens.
"""

from dataclasses import dataclass
from functools import partial
from typing import Callable, Dict, Optional

import jax
import jax.numpy as jnp
import numpy as np

HASH_PRIME = 15485863
GREEN_SHARE = 0.25
NEGATIVE = -1e30


@dataclass(frozen=True)
class WatermarkConfig:
    """Static settings.

    Attributes:
        vocab: size of the vocabulary.
        share: part of the vocabulary that is green.
        key: secret integer.
        temperature: sampling temperature at which the watermark is applied.
        span: number of tokens in a detection span.
    """

    vocab: int
    share: float = GREEN_SHARE
    key: int = 7
    temperature: float = 1.0
    span: int = 16


def green_table(config: WatermarkConfig) -> np.ndarray:
    """Boolean ``[V, V]``: row = previous token, column = candidate."""
    size = int(round(config.share * config.vocab))
    table = np.zeros((config.vocab, config.vocab), dtype=bool)
    for previous in range(config.vocab):
        rng = np.random.default_rng((config.key * HASH_PRIME + previous) % 2**32)
        table[previous, rng.permutation(config.vocab)[:size]] = True
    return table


def green_for(tokens, table):
    """Green sets ``[B, T, V]`` of the positions that follow ``tokens [B, T]``."""
    return jnp.asarray(table)[tokens]


def length_mask(lengths, steps: int):
    return jnp.arange(steps)[None, :] < lengths[:, None]


# ---------------------------------------------------------------------------
# expected z-score
# ---------------------------------------------------------------------------


def _spread(count, share):
    """Standard deviation of the number of green tokens in unmarked text."""
    return jnp.sqrt(jnp.maximum(count, 1.0) * share * (1.0 - share))


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def expected_zscore(logits, green, valid, share=GREEN_SHARE):
    """Expected detection statistic of every sequence.

    Parameters
    ----------
    logits : float (B, T, V)
    green : bool (B, T, V)
    valid : bool (B, T)
        Positions that count.  A sequence without any gets zero.
    share : float
        Green share of unmarked text, static.

    Returns
    -------
    float (B,)
        ``(sum of green probability - share * n) / sqrt(n share (1 - share))``
    """
    probs = jax.nn.softmax(logits, axis=-1)
    mass = jnp.sum(jnp.where(green, probs, 0.0), axis=-1)
    count = jnp.sum(valid, axis=-1).astype(logits.dtype)
    hits = jnp.sum(jnp.where(valid, mass, 0.0), axis=-1)
    return (hits - share * count) / _spread(count, share)


def _expected_zscore_fwd(logits, green, valid, share):
    probs = jax.nn.softmax(logits, axis=-1)
    mass = jnp.sum(jnp.where(green, probs, 0.0), axis=-1)
    count = jnp.sum(valid, axis=-1).astype(logits.dtype)
    hits = jnp.sum(jnp.where(valid, mass, 0.0), axis=-1)
    spread = _spread(count, share)
    return (hits - share * count) / spread, (probs, mass, green, valid, spread)


def _expected_zscore_bwd(share, saved, ct):
    probs, mass, green, valid, spread = saved
    per_token = jnp.where(valid, (ct / spread)[:, None], 0.0)
    centred = green.astype(probs.dtype) - mass[..., None]
    return per_token[..., None] * probs * centred, None, None


expected_zscore.defvjp(_expected_zscore_fwd, _expected_zscore_bwd)


# ---------------------------------------------------------------------------
# divergence caused by the tilt
# ---------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def tilt_divergence(logits, green, delta, temperature=1.0):
    """KL divergence of the favoured from the original next-token distribution.

    Args:
        logits: ``[..., V]``.
        green: bool ``[..., V]``.
        delta: scalar added to the logits of green tokens.
        temperature: sampling temperature, both distributions are taken at it.

    Returns:
        ``KL(softmax((logits + delta * green) / t) || softmax(logits / t))``,
        shape ``[...]``.
    """
    return _tilt(logits, green, delta, temperature)[0]


def _tilt(logits, green, delta, temperature):
    gate = green.astype(logits.dtype)
    plain = logits / temperature
    lifted = (logits + delta * gate) / temperature
    p = jax.nn.softmax(plain, axis=-1)
    q = jax.nn.softmax(lifted, axis=-1)
    share = jnp.sum(q * gate, axis=-1)
    value = (
        delta / temperature * share
        - jax.nn.logsumexp(lifted, axis=-1)
        + jax.nn.logsumexp(plain, axis=-1)
    )
    return value, p, q, gate, share


def _tilt_divergence_fwd(logits, green, delta, temperature):
    value, p, q, gate, share = _tilt(logits, green, delta, temperature)
    return value, (p, q, gate, share, delta)


def _tilt_divergence_bwd(temperature, saved, ct):
    p, q, gate, share, delta = saved
    strength = delta / temperature
    ct_logits = ct[..., None] * (strength * q * (gate - share[..., None]) + p - q)
    ct_delta = jnp.sum(ct * share * (1.0 - share)) * strength / temperature
    return ct_logits, None, ct_delta


tilt_divergence.defvjp(_tilt_divergence_fwd, _tilt_divergence_bwd)


# ---------------------------------------------------------------------------
# spans
# ---------------------------------------------------------------------------


def make_span_detector(span: int, share: float = GREEN_SHARE) -> Callable:
    """Detector for watermarked spans inside longer texts.

    The returned ``span_score(hits, lengths, sharpness)`` takes soft green
    indicators ``[B, T]``, the integer lengths ``[B]`` and a scalar, and returns a
    soft maximum ``[B]`` of the z-scores of all spans of ``span`` tokens:
    ``log(mean(exp(sharpness * z))) / sharpness``.  Texts shorter than the span are
    one span; empty texts score zero.
    """

    def evaluate(hits, lengths, sharpness):
        steps = hits.shape[1]
        width = jnp.minimum(span, lengths)[:, None]                # [B, 1]
        start = jnp.arange(steps)[None, :]
        inside = start <= lengths[:, None] - width                  # spans that fit
        total = jnp.cumsum(length_mask(lengths, steps) * hits, axis=1)
        total = jnp.pad(total, ((0, 0), (1, 0)))
        stop = jnp.minimum(start + width, steps)
        green = jnp.take_along_axis(total, stop, axis=1) - total[:, :-1]
        spread = jnp.sqrt(jnp.maximum(width, 1) * share * (1.0 - share))
        z = (green - share * width) / spread
        scaled = jnp.where(inside, sharpness * z, NEGATIVE)
        logs = jax.nn.logsumexp(scaled, axis=1) - jnp.log(jnp.sum(inside, axis=1))
        return logs / sharpness, (width, inside, z, scaled, spread, logs)

    @jax.custom_vjp
    def span_score(hits, lengths, sharpness):
        return evaluate(hits, lengths, sharpness)[0]

    def forward(hits, lengths, sharpness):
        score, parts = evaluate(hits, lengths, sharpness)
        return score, (lengths, sharpness, parts)

    def backward(saved, ct):
        lengths, sharpness, (width, inside, z, scaled, spread, logs) = saved
        steps = z.shape[1]
        weight = jax.nn.softmax(scaled, axis=1)
        # a token belongs to the spans that start in (t - width, t]
        running = jnp.pad(jnp.cumsum(weight, axis=1), ((0, 0), (1, 0)))
        position = jnp.arange(steps)[None, :]
        first = jnp.maximum(position + 1 - width, 0)
        covered = running[:, 1:] - jnp.take_along_axis(running, first, axis=1)
        covered = jnp.where(length_mask(lengths, steps), covered, 0.0)
        ct_hits = ct[:, None] * covered / spread
        mean_z = jnp.sum(jnp.where(inside, weight * z, 0.0), axis=1)
        ct_sharpness = jnp.sum(ct * (mean_z - logs / sharpness)) / sharpness
        return ct_hits, None, ct_sharpness

    span_score.defvjp(forward, backward)
    return span_score


# ---------------------------------------------------------------------------
# model head
# ---------------------------------------------------------------------------


class WatermarkHead:
    """Output projection with the losses of the watermark."""

    def __init__(self, config: WatermarkConfig, table: Optional[np.ndarray] = None):
        self.config = config
        self.table = green_table(config) if table is None else table
        self.span_score = make_span_detector(config.span, config.share)

    def init(self, key, width: int) -> Dict[str, jax.Array]:
        return {
            "proj": jax.random.normal(key, (width, self.config.vocab)) / np.sqrt(width),
            "bias": jnp.zeros((self.config.vocab,)),
            "delta": jnp.asarray(2.0),
            "sharpness": jnp.asarray(1.0),
        }

    def losses(self, params, hidden, tokens, lengths):
        cfg = self.config
        logits = hidden @ params["proj"] + params["bias"]
        green = green_for(tokens, self.table)
        valid = length_mask(lengths, tokens.shape[1])
        tilted = logits + params["delta"] * green
        z = expected_zscore(tilted / cfg.temperature, green, valid, cfg.share)
        cost = tilt_divergence(logits, green, params["delta"], cfg.temperature)
        mass = jnp.sum(jax.nn.softmax(tilted, axis=-1) * green, axis=-1)
        spans = self.span_score(mass, lengths, params["sharpness"])
        return {
            "detect": -jnp.mean(z),
            "distort": jnp.sum(cost * valid) / jnp.maximum(jnp.sum(valid), 1),
            "span": -jnp.mean(spans),
        }

    def total(self, params, hidden, tokens, lengths, weights=(1.0, 5.0, 0.5)):
        parts = self.losses(params, hidden, tokens, lengths)
        return sum(w * v for w, v in zip(weights, parts.values()))


if __name__ == "__main__":
    head = WatermarkHead(WatermarkConfig(vocab=32, temperature=0.7, span=6))
    k1, k2, k3 = jax.random.split(jax.random.PRNGKey(1), 3)
    params = head.init(k1, 12)
    hidden = jax.random.normal(k2, (3, 20, 12))
    tokens = jax.random.randint(k3, (3, 20), 0, 32)
    lengths = jnp.array([20, 9, 4])
    print(head.losses(params, hidden, tokens, lengths))
    grads = jax.grad(head.total)(params, hidden, tokens, lengths)
    print({name: float(jnp.linalg.norm(g)) for name, g in grads.items()})
