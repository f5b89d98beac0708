from functools import partial

import jax
import jax.numpy as jnp


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def pre_emphasis(x, coeff, boundary="zero"):
    """y[t] = x[t] - coeff x[t-1]; x[-1] is 0 or x[0] (boundary = zero | replicate)."""
    first = x[..., :1] if boundary == "replicate" else jnp.zeros_like(x[..., :1])
    return x - coeff * jnp.concatenate([first, x[..., :-1]], -1)


def _pre_fwd(x, coeff, boundary):
    return pre_emphasis(x, coeff, boundary), (x, coeff)


def _pre_bwd(boundary, res, g):
    x, coeff = res
    gx = g - coeff * jnp.concatenate([g[..., 1:], jnp.zeros_like(g[..., :1])], -1)
    if boundary == "replicate":
        gx = gx.at[..., 0].add(-coeff * g[..., 0])
    return gx, -jnp.sum(g[..., 1:] * x[..., :-1])


pre_emphasis.defvjp(_pre_fwd, _pre_bwd)


@jax.custom_gradient
def level_normalize(x, target):
    """Bring x (..., T) to RMS `target`; also returns the gain (..., 1), for the gain penalty."""
    rms = jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-8)
    gain = target / rms
    y = x * gain

    def grad(ct):
        gy = ct[0]
        proj = jnp.mean(gy * x, -1, keepdims=True) / rms**2
        return gain * (gy - x * proj), jnp.sum(gy * x / rms)

    return (y, gain), grad


# row convolution (Deep Speech 2)


def _keep(lengths, t, dtype):
    return (jnp.arange(t) < lengths[:, None]).astype(dtype)[..., None]


@jax.custom_vjp
def lookahead_conv(x, w, lengths):
    m = _keep(lengths, x.shape[1], x.dtype)
    t, c = x.shape[1], w.shape[0]
    xp = jnp.pad(x * m, ((0, 0), (0, c - 1), (0, 0)))
    return m * sum(w[i] * xp[:, i : i + t] for i in range(c))


def _look_fwd(x, w, lengths):
    return lookahead_conv(x, w, lengths), (x, w, lengths)


def _look_bwd(res, g):
    x, w, lengths = res
    t, c = x.shape[1], w.shape[0]
    m = _keep(lengths, t, x.dtype)
    gm = g * m
    xp = jnp.pad(x * m, ((0, 0), (0, c - 1), (0, 0)))
    gw = jnp.stack([jnp.einsum("btd,btd->d", gm, xp[:, i : i + t]) for i in range(c)])
    gp = jnp.pad(gm, ((0, 0), (c - 1, 0), (0, 0)))
    gx = sum(w[i] * gp[:, c - 1 - i : c - 1 - i + t] for i in range(c))
    return gx * m, gw, None


lookahead_conv.defvjp(_look_fwd, _look_bwd)


@jax.custom_gradient
def itakura_saito(power, model, mask):
    """Itakura-Saito divergence averaged over the valid time-frequency cells.

    ``d(p, q) = p / q - log(p / q) - 1``, zero where the two spectra agree and invariant
    to a common scale.

    Args:
        power: Observed power spectrogram ``(..., frames, bins)``, positive.
        model: Modelled power spectrogram, positive, the same shape.
        mask: Float array of the same shape, one in the valid cells and zero in the
            padding; at least one cell is valid.  Treated as a constant: its cotangent
            is zero.

    Returns:
        Scalar: the sum of ``d`` over the valid cells divided by their number.

    The ratio is kept for the backward pass, so that no logarithm is evaluated twice.
    """
    ratio = power / model
    cells = ratio - jnp.log(ratio) - 1.0
    count = jnp.sum(mask)
    value = jnp.sum(mask * cells) / count

    def grad(ct):
        scale = ct * mask / mask.size
        g_power = scale * (1.0 - 1.0 / ratio) / model
        g_model = scale * (1.0 - ratio) / model
        return g_power, g_model, jnp.zeros_like(mask)

    return value, grad


class FrontEnd:
    def __init__(self, coeff=0.97, target=0.1, boundary="zero"):
        self.coeff, self.target, self.boundary = coeff, target, boundary

    def __call__(self, wav):
        y, gain = level_normalize(wav, jnp.asarray(self.target, wav.dtype))
        return pre_emphasis(y, jnp.asarray(self.coeff, wav.dtype), self.boundary), gain
