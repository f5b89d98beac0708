"""A small language model that writes wine tasting notes.

Notes are packed: many short notes stand one after the other in a row of the
batch, and ``opens`` marks the first token of each.
"""
import jax
import jax.numpy as jnp
import numpy as np


@jax.custom_vjp
def palate_memory(x, keep, opens):
    """Leaky average of the token features, empty at the start of each note.

    x, keep: [batch, time, width], keep in (0, 1); opens: [batch, time] bool.
    memory[t] = keep[t] * memory[t-1] + (1 - keep[t]) * x[t], where memory[t-1]
    counts as zero if a note opens at t (and before the row).
    """
    return _memory_fwd(x, keep, opens)[0]


def _time_first(*arrays):
    return tuple(jnp.swapaxes(a, 0, 1) for a in arrays)


def _memory_fwd(x, keep, opens):
    xs, ks, os = _time_first(x, keep, opens)

    def token(m, item):
        xt, kt, ot = item
        new = kt * jnp.where(ot[:, None], 0, m) + (1 - kt) * xt
        return new, (new, m)

    _, (out, prev) = jax.lax.scan(token, jnp.zeros_like(xs[0]), (xs, ks, os))
    return jnp.swapaxes(out, 0, 1), (xs, ks, os, prev)


def _memory_bwd(res, g):
    xs, ks, os, prev = res

    def token(lam, item):
        gt, xt, kt, ot, m = item
        lam = lam + gt
        d_x = lam * (1 - kt)
        d_k = lam * (m - xt)
        return jnp.where(ot[:, None], 0, lam * kt), (d_x, d_k)

    gs = jnp.swapaxes(g, 0, 1)
    _, grads = jax.lax.scan(token, jnp.zeros_like(gs[0]), (gs, xs, ks, os, prev),
                            reverse=True)
    d_x, d_k = _time_first(*grads)
    return d_x, d_k, None


palate_memory.defvjp(_memory_fwd, _memory_bwd)


def make_word_scores(ceiling=None):
    """Scores of the words from the hidden state with the embedding table as the
    output matrix.  With a ``ceiling`` the scores are bent into
    (-ceiling, ceiling)."""

    @jax.custom_vjp
    def word_scores(params, hidden):
        # params: {"embed": words x width, "bias": words}; hidden: ... x width
        return fwd(params, hidden)[0]

    def fwd(params, hidden):
        z = hidden @ params["embed"].T + params["bias"]
        if ceiling is not None:
            z = ceiling * jnp.tanh(z / ceiling)
        return z, (params["embed"], hidden, z)

    def bwd(res, g):
        embed, hidden, z = res
        if ceiling is not None:
            g = g * (1 - (z / ceiling) ** 2)
        flat_g = g.reshape(-1, g.shape[-1])
        flat_h = hidden.reshape(-1, hidden.shape[-1])
        return {"embed": flat_g.T @ flat_h, "bias": flat_g.sum(axis=0)}, g @ embed

    word_scores.defvjp(fwd, bwd)
    return word_scores


@jax.custom_vjp
def soft_word(scores, warmth, noise):
    """Relaxed draw of a word: softmax of the perturbed scores.

    scores: [batch, words].  warmth: one positive number for each row, [batch].
    noise: [batch, words], standard Gumbel while training, zeros in evaluation.
    """
    return jax.nn.softmax((scores + noise) / warmth[:, None], axis=-1)


def _soft_word_fwd(scores, warmth, noise):
    p = soft_word(scores, warmth, noise)
    return p, (p, scores, warmth)


def _soft_word_bwd(res, g):
    p, scores, warmth = res
    d_z = p * (g - (g * p).sum(axis=-1, keepdims=True))
    d_scores = d_z / warmth[:, None]
    d_warmth = -(d_scores * scores).sum(axis=-1) / warmth
    return d_scores, d_warmth, d_scores


soft_word.defvjp(_soft_word_fwd, _soft_word_bwd)


class BlendedHead:
    """Mixture of several softmaxes for the next word.

    Args:
      average: "rows" divides the summed loss by the number of rows, "words" by
        the number of rows that have a word.
    """

    skip = -100

    def __init__(self, average="words"):
        if average not in ("rows", "words"):
            raise ValueError(average)
        self.average = average
        self.loss = self._build()

    def _build(self):
        average, skip = self.average, self.skip

        @jax.custom_vjp
        def blended_nll(gate, scores, words):
            # gate: rows x parts; scores: rows x parts x vocabulary; words: rows
            return fwd(gate, scores, words)[0]

        def fwd(gate, scores, words):
            has = words != skip
            at = jnp.where(has, words, 0)
            lp = jax.nn.log_softmax(scores, axis=-1)
            picked = jnp.take_along_axis(lp, at[:, None, None], axis=-1)[..., 0]
            joint = jax.nn.log_softmax(gate, axis=-1) + picked
            total = jax.nn.logsumexp(joint, axis=-1)
            count = jnp.maximum(has.sum(), 1) if average == "words" else has.shape[0]
            posterior = jnp.exp(joint - total[:, None])
            loss = -jnp.where(has, total, 0).sum() / count
            return loss, (gate, lp, posterior, has, at, count)

        def bwd(res, g):
            gate, lp, posterior, has, at, count = res
            each = jnp.where(has, g / count, 0)[:, None]
            d_gate = each * (jax.nn.softmax(gate, axis=-1) - posterior)
            pull = each * posterior
            d_scores = pull[..., None] * jnp.exp(lp)
            d_scores = d_scores.at[jnp.arange(at.shape[0]), :, at].add(-pull)
            return d_gate, d_scores, None

        blended_nll.defvjp(fwd, bwd)
        return blended_nll


def main(seed=0):
    rng = np.random.default_rng(seed)
    params = {"embed": jnp.asarray(rng.normal(size=(12, 5))), "bias": jnp.zeros(12)}
    x = jnp.asarray(rng.normal(size=(2, 6, 5)))
    opens = jnp.asarray(rng.random((2, 6)) < 0.3)
    memory = palate_memory(x, jax.nn.sigmoid(x), opens)
    print(make_word_scores(30.0)(params, memory).shape)


if __name__ == "__main__":
    main()
