from dataclasses import dataclass
from functools import partial
from typing import Optional

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr, ndtri
from jax.scipy.stats import norm


def _basel_corr(pd):
    w = -jnp.expm1(-50.0 * pd) / -jnp.expm1(-50.0)
    return 0.12 * w + 0.24 * (1.0 - w)


def _rho(pd, corr):
    return _basel_corr(pd) if corr is None else jnp.full_like(pd, corr)


@partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def irb_capital(pd, lgd, corr: Optional[float] = None, q: float = 0.999):
    """Unexpected loss per unit of exposure; corr=None uses the corporate formula."""
    rho = _rho(pd, corr)
    z = (ndtri(pd) + jnp.sqrt(rho) * ndtri(q)) / jnp.sqrt(1.0 - rho)
    return lgd * (ndtr(z) - pd)


@irb_capital.defjvp
def _irb_capital_jvp(corr, q, primals, tangents):
    pd, lgd = primals
    dpd, dlgd = tangents
    rho = _rho(pd, corr)
    x = ndtri(pd)
    z = (x + jnp.sqrt(rho) * ndtri(q)) / jnp.sqrt(1.0 - rho)
    ul = ndtr(z) - pd
    # pdf(z) / pdf(x) in the log domain, pd can be tiny
    ratio = jnp.exp(0.5 * (x**2 - z**2))
    return lgd * ul, dlgd * ul + lgd * (ratio / jnp.sqrt(1.0 - rho) - 1.0) * dpd


def _make_tranche(normalise):
    @jax.custom_gradient
    def tranche(loss, attach, detach):
        x = loss[..., None]
        width = detach - attach
        below, above = x < attach, x > detach
        inside = ~(below | above)
        paid = jnp.where(below, 0.0, jnp.where(above, width, x - attach))
        out = paid / width if normalise else paid

        def vjp(g):
            h = g / width if normalise else g
            lead = tuple(range(g.ndim - 1))
            g_loss = jnp.where(inside, h, 0.0).sum(-1)
            g_attach = -jnp.where(below, 0.0, h)
            g_detach = jnp.where(above, h, 0.0)
            if normalise:
                share = h * paid / width
                g_attach = g_attach + share
                g_detach = g_detach - share
            return g_loss, g_attach.sum(lead), g_detach.sum(lead)

        return out, vjp

    return tranche


# loss (...,), attach (K,), detach (K,) -> (..., K)
tranche_loss = _make_tranche(normalise=True)


@dataclass(frozen=True)
class MigrationModel:
    grades: int
    reduction: str = "mean"

    def fit(self, logits, src, dst, weight, lr=0.5, steps=100):
        def body(_, p):
            return p - lr * jax.grad(lambda q: migration_nll(self, q, src, dst, weight))(p)

        return jax.lax.fori_loop(0, steps, body, logits)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def migration_nll(model: MigrationModel, logits, src, dst, weight):
    """logits (G, G); src, dst int (N,), dst < 0 = withdrawn; weight (N,) exposures.

    reduction "sum", or "mean" = exposure-weighted average over the live names.
    """
    return _migration_fwd(model, logits, src, dst, weight)[0]


def _migration_fwd(model, logits, src, dst, weight):
    logp = jax.nn.log_softmax(logits, axis=-1)
    live = dst >= 0
    w = jnp.where(live, weight, 0.0)
    each = jnp.where(live, -logp[src, jnp.maximum(dst, 0)], 0.0)
    total = w.sum() if model.reduction == "mean" else jnp.ones((), w.dtype)
    return (w * each).sum() / total, (logp, src, dst, w, each, total)


def _migration_bwd(model, res, g):
    logp, src, dst, w, each, total = res
    c = g * w / total
    rows = jnp.zeros(model.grades, c.dtype).at[src].add(c)
    g_logits = rows[:, None] * jnp.exp(logp)
    g_logits = g_logits.at[src, jnp.maximum(dst, 0)].add(-c)
    return g_logits, None, None, g * each / total


migration_nll.defvjp(_migration_fwd, _migration_bwd)


def portfolio_capital(pd, lgd, ead):
    return jnp.sum(ead * irb_capital(pd, lgd))
