"""Doorbell that knows the regular visitors, on a microcontroller.

The camera gives a sequence of feature frames, which are pooled in time, sent
through a soft staircase (the training stand-in for the 3-bit ADC of the
device) and embedded; embeddings are trained with a margin on visitor ids.
"""
import jax
import jax.numpy as jnp
from functools import partial


def _window_counts(length, window, stride):
    starts = list(range(0, max(length - 1, 0) + 1, stride))
    return [(s, min(s + window, length)) for s in starts]


@partial(jax.custom_vjp, nondiff_argnums=(1, 2, 3))
def frame_lp_pool(x, window=4, stride=4, p=2.0):
    """Power-mean pooling along time.

    x: (batch, time, channels).  Windows begin at 0, stride, 2*stride, ... as long
    as there are frames; a window which runs over the end holds only the frames
    that exist, and is the power mean (sum |x|^p / frames)^(1/p) of those.
    """
    return _lp(x, window, stride, p)


def _lp(x, window, stride, p):
    cols = []
    for lo, hi in _window_counts(x.shape[1], window, stride):
        cols.append((jnp.abs(x[:, lo:hi]) ** p).mean(1) ** (1.0 / p))
    return jnp.stack(cols, 1)


def _lp_fwd(x, window, stride, p):
    y = _lp(x, window, stride, p)
    return y, (x, y)


def _lp_bwd(window, stride, p, res, g):
    x, y = res
    scale = jnp.where(y > 0, g * jnp.where(y > 0, y, 1.0) ** (1.0 - p), 0.0) / window
    dx = jnp.zeros_like(x)
    for i, (lo, hi) in enumerate(_window_counts(x.shape[1], window, stride)):
        seg = x[:, lo:hi]
        dx = dx.at[:, lo:hi].add(
            scale[:, i:i + 1] * jnp.sign(seg) * jnp.abs(seg) ** (p - 1.0))
    return (dx,)


frame_lp_pool.defvjp(_lp_fwd, _lp_bwd)


@jax.custom_jvp
def sigmoid_staircase(x, edges, rises, steepness):
    """Smooth staircase: sum over steps of rise * sigmoid(steepness * (x - edge)).

    x: (..., C).  edges and rises: (J,) for all channels or (C, J) for each.
    steepness: a scalar or (C,).
    """
    s = jax.nn.sigmoid(jnp.asarray(steepness)[..., None] * (x[..., None] - edges))
    return (rises * s).sum(-1)


@sigmoid_staircase.defjvp
def _staircase_jvp(primals, tangents):
    x, edges, rises, steepness = primals
    dx, dedges, drises, dsteep = tangents
    k = jnp.asarray(steepness)[..., None]
    off = x[..., None] - edges
    s = jax.nn.sigmoid(k * off)
    doff = dx[..., None] - dedges
    dz = jnp.asarray(dsteep)[..., None] * off + k * doff
    return (rises * s).sum(-1), (drises * s + rises * s * (1 - s) * dz).sum(-1)


def uniform_edges(bits, lo=-1.0, hi=1.0):
    """Edges and rises of the ideal converter."""
    n = 2 ** bits
    step = (hi - lo) / n
    return lo + step * jnp.arange(1, n), jnp.full((n - 1,), step)


def make_visitor_loss(visitor, margin=0.5, average="active"):
    """Loss over all (anchor, positive, negative) triples of a batch.

    Args:
      visitor: int (n,), who is at the door.
      margin: by how much the negative has to be farther (squared distance).
      average: "active" - mean over the triples which violate the margin;
        "all" - mean over all valid triples.

    Returns:
      f(emb) for emb (n, d); 0 when there is no such triple.
    """
    if average not in ("active", "all"):
        raise ValueError(f"unknown average {average!r}")
    visitor = jnp.asarray(visitor)
    same = visitor[:, None] == visitor[None, :]
    pos = same & ~jnp.eye(visitor.shape[0], dtype=bool)
    valid = pos[:, :, None] & ~same[:, None, :]

    @jax.custom_gradient
    def visitor_margin(emb):
        sq = ((emb[:, None] - emb[None]) ** 2).sum(-1)
        gap = sq[:, :, None] - sq[:, None, :] + margin
        active = valid & (gap > 0)
        n_active = jnp.maximum(active.sum(), 1)
        n = n_active if average == "active" else jnp.maximum(valid.sum(), 1)
        loss = jnp.where(active, gap, 0.0).sum() / n

        def pull(g):
            w = active.astype(emb.dtype) * (g / n_active)
            dsq = w.sum(2) - w.sum(1)
            sym = dsq + dsq.T
            return 2 * (sym.sum(1, keepdims=True) * emb - sym @ emb)

        return loss, pull

    return visitor_margin


class Doorbell:
    def __init__(self, channels, bits=3, steepness=12.0):
        self.edges, self.rises = uniform_edges(bits)
        self.steepness = jnp.full((channels,), steepness)

    def __call__(self, frames, project):
        pooled = frame_lp_pool(frames, 4, 4, 2.0)
        coded = sigmoid_staircase(pooled, self.edges, self.rises, self.steepness)
        return coded.reshape(frames.shape[0], -1) @ project


def main():
    key = jax.random.PRNGKey(0)
    frames = jax.random.normal(key, (6, 16, 3))
    emb = Doorbell(3)(frames, jnp.ones((12, 5)))
    print(make_visitor_loss([0, 0, 1, 1, 2, 2])(emb))


if __name__ == "__main__":
    main()
