"""Training and scoring head of an on-device wake word spotter.

The acoustic network emits one logit per word of the phrase and per frame.
At run time the posteriors are smoothed over the recent past, each word's best
smoothed frame is taken, and the geometric mean over the words of the phrase
is compared with a threshold.  In training the clip loss looks at the best
frame of a positive clip and at the most confusable frames of a negative one.

Shapes use B clips, T frames and W words.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import jax
import jax.numpy as jnp

FRAME_MS = 10
DEFAULT_WINDOW = 30       # frames of smoothing, 300 ms
DEFAULT_HARD_FRAMES = 16
CONFIDENCE_FLOOR = 1e-4
MASKED_LOGIT = -1e30

#: Phrases the product ships with, as columns of the word inventory.
PHRASES = {
    "hello_lamp": (1, 1, 0, 0),
    "lamp_off": (0, 1, 1, 0),
    "good_night_lamp": (0, 1, 0, 1),
}


@dataclass(frozen=True)
class SpotterConfig:
    window: int = DEFAULT_WINDOW
    hard_frames: int = DEFAULT_HARD_FRAMES
    threshold: float = 0.5
    floor: float = CONFIDENCE_FLOOR


def frame_mask(lengths, frames):
    """(B, T) mask of the frames inside each clip."""
    return jnp.arange(frames) < lengths[:, None]


# --- smoothing ----------------------------------------------------------------

def _window_counts(frames, window, dtype):
    return jnp.minimum(jnp.arange(1, frames + 1), window).astype(dtype)[:, None]


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def smoothed_posterior(posterior, window=DEFAULT_WINDOW):
    """Causal moving average of (B, T, W) posteriors.

    Frame t averages frames max(0, t - window + 1) .. t; the average at the
    start of a clip is over the frames there are.
    """
    frames = posterior.shape[1]
    sums = jnp.cumsum(posterior, axis=1)
    if frames > window:
        late = sums[:, window:] - sums[:, :-window]
        sums = jnp.concatenate([sums[:, :window], late], axis=1)
    return sums / _window_counts(frames, window, posterior.dtype)


def _smoothed_posterior_fwd(posterior, window):
    return smoothed_posterior(posterior, window), None


def _smoothed_posterior_bwd(window, _, g):
    frames = g.shape[1]
    per_frame = g / _window_counts(frames, window, g.dtype)
    ahead = jnp.cumsum(per_frame[:, ::-1], axis=1)[:, ::-1]
    if frames > window:
        beyond = ahead[:, window - 1:]
        ahead = ahead.at[:, : beyond.shape[1]].add(-beyond)
    return (ahead,)


smoothed_posterior.defvjp(_smoothed_posterior_fwd, _smoothed_posterior_bwd)


# --- phrase confidence --------------------------------------------------------

def make_phrase_confidence(words_in_phrase, floor=CONFIDENCE_FLOOR):
    """Confidence of one phrase from smoothed word posteriors.

    Args:
      words_in_phrase: sequence of 0/1 over the word inventory.
      floor: smallest value a word can contribute; a word that never rises
        above it passes no gradient.

    Returns:
      A function of a (B, T, W) array returning (B,) confidences.
    """
    chosen = np.asarray(words_in_phrase, dtype=bool)
    count = max(int(chosen.sum()), 1)

    @jax.custom_gradient
    def confidence(smoothed):
        """Geometric mean over words of each word's best frame.

        The earliest of equal best frames takes the credit.
        """
        where = smoothed.argmax(axis=1)
        best = jnp.take_along_axis(smoothed, where[:, None, :], axis=1)[:, 0]
        held = jnp.maximum(best, floor)
        log_mean = jnp.where(chosen, jnp.log(held), 0.0).sum(axis=-1) / count
        score = jnp.exp(log_mean)

        def vjp(g):
            share = jnp.where(chosen & (best > floor), 1.0 / held, 0.0) / count
            d_best = (g * score)[:, None] * share
            hit = jax.nn.one_hot(where, smoothed.shape[1], axis=1, dtype=smoothed.dtype)
            return (hit * d_best[:, None, :],)

        return score, vjp

    return confidence


# --- clip loss ----------------------------------------------------------------

def _frame_losses(logits, lengths):
    mask = frame_mask(lengths, logits.shape[1])
    return jnp.where(mask, logits, MASKED_LOGIT), mask


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def hard_frame_loss(logits, is_phrase, lengths, hard_frames=DEFAULT_HARD_FRAMES):
    """Max-pooled loss over clips of different lengths.

    Parameters
    ----------
    logits : (B, T) float
    is_phrase : (B,) bool
        Whether the clip contains the phrase.
    lengths : (B,) int
        Valid frames, at least one.
    hard_frames : int
        A clip without the phrase is charged for the mean of its `hard_frames`
        most confident frames, or of all its frames when it has fewer.

    Returns
    -------
    Mean over the batch, a scalar.
    """
    held, _ = _frame_losses(logits, lengths)
    positive = jax.nn.softplus(-held.max(axis=1))
    top, _ = jax.lax.top_k(held, min(hard_frames, held.shape[1]))
    taken = jnp.minimum(lengths, top.shape[1]).astype(logits.dtype)
    negative = jax.nn.softplus(top).sum(axis=1) / taken
    return jnp.where(is_phrase, positive, negative).mean()


def _hard_frame_loss_fwd(logits, is_phrase, lengths, hard_frames):
    loss = hard_frame_loss(logits, is_phrase, lengths, hard_frames)
    return loss, (logits, is_phrase, lengths)


def _hard_frame_loss_bwd(hard_frames, saved, g):
    logits, is_phrase, lengths = saved
    clips, frames = logits.shape
    held, mask = _frame_losses(logits, lengths)
    kept = min(hard_frames, frames)
    top, where = jax.lax.top_k(held, kept)

    rows = jnp.arange(clips)
    d_positive = jnp.zeros_like(logits)
    d_positive = d_positive.at[rows, where[:, 0]].set(-jax.nn.sigmoid(-top[:, 0]))
    d_negative = jnp.zeros_like(logits)
    d_negative = d_negative.at[rows[:, None], where].set(jax.nn.sigmoid(top) / kept)
    d_logits = jnp.where(is_phrase[:, None], d_positive, d_negative)
    return g * jnp.where(mask, d_logits, 0.0) / clips, None, None


hard_frame_loss.defvjp(_hard_frame_loss_fwd, _hard_frame_loss_bwd)


# --- model --------------------------------------------------------------------

def init_encoder(key, mel_bins, hidden, words):
    """Parameters of a two-layer frame classifier, as a nested dict."""
    k1, k2 = jax.random.split(key)
    return {
        "hidden": {
            "kernel": jax.random.normal(k1, (mel_bins, hidden)) / np.sqrt(mel_bins),
            "bias": jnp.zeros(hidden),
        },
        "words": {
            "kernel": jax.random.normal(k2, (hidden, words)) / np.sqrt(hidden),
            "bias": jnp.full((words,), -2.0),
        },
    }


def word_logits(params, mel):
    """(B, T, mel) to (B, T, W)."""
    hidden = jax.nn.relu(mel @ params["hidden"]["kernel"] + params["hidden"]["bias"])
    return hidden @ params["words"]["kernel"] + params["words"]["bias"]


class WakeWordSpotter:
    """Scores phrases and trains the encoder for one of them."""

    def __init__(self, phrase, config=SpotterConfig()):
        self.config = config
        self.words = PHRASES[phrase]
        self._confidence = make_phrase_confidence(self.words, config.floor)

    def score(self, params, mel):
        posterior = jax.nn.sigmoid(word_logits(params, mel))
        smooth = smoothed_posterior(posterior, self.config.window)
        return self._confidence(smooth)

    def fires(self, params, mel):
        return self.score(params, mel) > self.config.threshold

    def clip_loss(self, params, mel, is_phrase, lengths):
        """Sum of the clip losses of the words in the phrase."""
        logits = word_logits(params, mel)
        terms = [
            hard_frame_loss(logits[..., w], is_phrase, lengths, self.config.hard_frames)
            for w, used in enumerate(self.words)
            if used
        ]
        return sum(terms)

    def calibration_loss(self, params, mel, is_phrase):
        """Brier score of the run-time confidence."""
        return jnp.mean((self.score(params, mel) - is_phrase.astype(mel.dtype)) ** 2)

    def update(self, params, batch, rate=0.05, calibration=0.1):
        mel, is_phrase, lengths = batch

        def objective(p):
            return self.clip_loss(p, mel, is_phrase, lengths) + calibration * (
                self.calibration_loss(p, mel, is_phrase)
            )

        loss, grads = jax.value_and_grad(objective)(params)
        new = jax.tree_util.tree_map(lambda p, g: p - rate * g, params, grads)
        return new, loss


def false_alarms_per_hour(confidences, threshold, seconds):
    """Count of crossings of the threshold, scaled to an hour of audio."""
    above = np.asarray(confidences) > threshold
    crossings = np.count_nonzero(above[1:] & ~above[:-1]) + int(above[:1].any())
    return 3600.0 * crossings / seconds


if __name__ == "__main__":
    key = jax.random.PRNGKey(1)
    spotter = WakeWordSpotter("hello_lamp", SpotterConfig(window=12, hard_frames=8))
    params = init_encoder(key, mel_bins=20, hidden=24, words=4)
    mel = jax.random.normal(key, (6, 80, 20))
    batch = (mel, jnp.array([1, 0, 0, 1, 0, 0], bool), jnp.array([80, 80, 64, 72, 5, 80]))
    for _ in range(5):
        params, loss = spotter.update(params, batch)
        print("loss", float(loss))
    print("scores", spotter.score(params, mel))
