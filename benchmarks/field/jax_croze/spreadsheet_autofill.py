"""A small model that proposes the next cells of a spreadsheet column."""
import functools

import jax
import jax.numpy as jnp
import numpy as np


def row_distances(rows):
    """How many rows above the current cell each earlier cell lies; negative = below."""
    r = np.arange(rows)
    return r[:, None] - r[None, :]


def make_column_copy(distances):
    """Attention by which a cell copies from cells of its column that are not below it.

    ``distances`` is an integer (Tq, Tk) table as ``row_distances`` gives it; each row of
    it must have an entry that is zero or more.  The returned function takes

      q       batch x head x Tq x d
      k       batch x Tk x d          (one set of keys for all the heads)
      v       batch x Tk x e
      slopes  head                    (penalty per row of distance)

    and returns the context, batch x head x Tq x e, and the copy weights averaged over
    the heads, batch x Tq x Tk, which the UI uses to draw the arrows.
    """
    distances = np.asarray(distances)
    visible = distances >= 0

    @jax.custom_gradient
    def column_copy(q, k, v, slopes):
        root = np.sqrt(q.shape[-1])
        heads = q.shape[1]
        dist = jnp.asarray(distances, q.dtype)
        s = jnp.einsum("bhqd,bkd->bhqk", q, k) / root - slopes[:, None, None] * dist
        p = jax.nn.softmax(jnp.where(visible, s, -jnp.inf), axis=-1)
        context = jnp.einsum("bhqk,bke->bhqe", p, v)

        def grad(cotangents):
            g_context, g_arrows = cotangents
            gp = jnp.einsum("bhqe,bke->bhqk", g_context, v) + g_arrows[:, None] / heads
            gs = p * (gp - (p * gp).sum(-1, keepdims=True))
            return (
                jnp.einsum("bhqk,bkd->bhqd", gs, k) / root,
                jnp.einsum("bhqk,bhqd->bkd", gs, q) / root,
                jnp.einsum("bhqk,bhqe->bke", p, g_context),
                -(gs * dist).sum(axis=(0, 2, 3)),
            )

        return (context, p.mean(axis=1)), grad

    return column_copy


_ACTIVATIONS = {
    "silu": jax.nn.silu,
    "relu": jax.nn.relu,
    "gelu": jax.nn.gelu,
    "tanh": jnp.tanh,
}


def _slope(name, z):
    if name == "silu":
        s = jax.nn.sigmoid(z)
        return s * (1 + z * (1 - s))
    if name == "relu":
        return (z > 0).astype(z.dtype)
    if name == "gelu":
        s = jax.nn.sigmoid(1.702 * z)
        return s * (1 + 1.702 * z * (1 - s))
    return 1 - jnp.tanh(z) ** 2


def make_cell_gate(activation="silu"):
    """Gated projection of cell embeddings.

    The result maps ``(params, x)`` to ``act(x @ gate + bias) * (x @ up)``, where params
    is a dict with "gate" (D, F), "bias" (F,) and "up" (D, F) and x has any leading axes
    before D.  activation is one of "silu", "relu", "gelu" and "tanh".
    """
    act = _ACTIVATIONS[activation]

    @jax.custom_vjp
    def cell_gate(params, x):
        return act(x @ params["gate"] + params["bias"]) * (x @ params["up"])

    def fwd(params, x):
        z = x @ params["gate"] + params["bias"]
        u = x @ params["up"]
        return act(z) * u, (params, x, z, u)

    def bwd(res, g):
        params, x, z, u = res
        gz = g * u * _slope(activation, z)
        gu = g * act(z)
        flat = x.reshape(-1, x.shape[-1])
        gz2, gu2 = gz.reshape(-1, gz.shape[-1]), gu.reshape(-1, gu.shape[-1])
        grads = {"gate": flat.T @ gz2, "bias": gz2.sum(0), "up": flat.T @ gu2}
        return grads, gz @ params["gate"].T + gu @ params["up"].T

    cell_gate.defvjp(fwd, bwd)
    return cell_gate


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def snap_to_grid(x, step, limits):
    """Round proposed numbers to the cell's display step, held within ``limits``.

    This is a straight-through rule on purpose: rounding has no useful derivative, so the
    backward pass treats the rounding as the identity where x lies within the limits
    (both ends included), and as a constant outside of them.
    """
    lo, hi = limits
    return jnp.clip(jnp.round(x / step) * step, lo, hi)


def _snap_fwd(x, step, limits):
    return snap_to_grid(x, step, limits), x


def _snap_bwd(step, limits, x, g):
    lo, hi = limits
    return (jnp.where((x >= lo) & (x <= hi), g, 0.0),)


snap_to_grid.defvjp(_snap_fwd, _snap_bwd)


class AutofillBlock:
    """One block: copy from the column, then the gate. Holds no state but its options."""

    def __init__(self, rows, activation="silu"):
        self.copy = make_column_copy(row_distances(rows))
        self.gate = make_cell_gate(activation)

    def __call__(self, params, x):
        q = jnp.einsum("btd,hde->bhte", x, params["wq"])
        context, arrows = self.copy(q, x @ params["wk"], x @ params["wv"], params["slopes"])
        mixed = context.swapaxes(1, 2).reshape(x.shape[0], x.shape[1], -1)
        return self.gate(params["gate"], mixed), arrows


def main():
    rng = np.random.default_rng(0)
    d = 6
    params = {
        "wq": jnp.asarray(rng.normal(size=(2, d, 4))),
        "wk": jnp.asarray(rng.normal(size=(d, 4))),
        "wv": jnp.asarray(rng.normal(size=(d, 3))),
        "slopes": jnp.asarray([0.5, 0.06]),
        "gate": {"gate": jnp.asarray(rng.normal(size=(6, 5))), "bias": jnp.zeros(5),
                 "up": jnp.asarray(rng.normal(size=(6, 5)))},
    }
    y, arrows = AutofillBlock(7)(params, jnp.asarray(rng.normal(size=(2, 7, d))))
    print(y.shape, arrows.shape, snap_to_grid(y[0, 0], 0.05, (-2.0, 2.0)))


if __name__ == "__main__":
    main()
