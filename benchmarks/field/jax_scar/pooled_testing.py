"""Group (pooled) testing in surveillance: prevalence, dilution, array designs."""
from functools import partial

import jax
import jax.numpy as jnp

LN10 = jnp.log(10.0)


def _sum_to(x, like):
    """Undo numpy broadcasting of `like` to x.shape."""
    shape = jnp.shape(like)
    lead = x.ndim - len(shape)
    x = x.sum(tuple(range(lead)))
    keep = tuple(a for a, n in enumerate(shape) if n == 1 and x.shape[a] != 1)
    return x.sum(keep, keepdims=True) if keep else x


def _pool_terms(logit, sizes, sens, spec):
    sizes = jnp.asarray(sizes).astype(jnp.int32)
    clean = jnp.exp(sizes * jax.nn.log_sigmoid(-logit)[:, None])   # P(no case in the pool)
    pos = sens * (1.0 - clean) + (1.0 - spec) * clean
    return sizes, clean, pos


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def pooled_prevalence_nll(logit, sizes, positive, sens, spec, reduction="mean"):
    """Negative log likelihood of pooled test results under an imperfect assay.

    Args:
      logit: (R,) logit prevalence of each region.
      sizes: (R, P) int number of samples in each pool; 0 marks an unused slot.
      positive: (R, P) bool results.
      sens, spec: assay sensitivity and specificity, strictly within (0, 1);
        scalars or anything that broadcasts to (R, P), e.g. (P,) by machine.
      reduction: "mean" over the used pools, "sum", or "none" for (R, P) with
        zeros in unused slots.
    """
    sizes, _, pos = _pool_terms(logit, sizes, sens, spec)
    nll = -jnp.where(positive, jnp.log(pos), jnp.log1p(-pos))
    nll = jnp.where(sizes > 0, nll, 0.0)
    if reduction == "none":
        return nll
    total = nll.sum()
    return total / jnp.maximum((sizes > 0).sum(), 1) if reduction == "mean" else total


def _ppn_fwd(logit, sizes, positive, sens, spec, reduction):
    out = pooled_prevalence_nll(logit, sizes, positive, sens, spec, reduction)
    return out, (logit, sizes, positive, jnp.asarray(sens), jnp.asarray(spec))


def _ppn_bwd(reduction, res, g):
    logit, sizes, positive, sens, spec = res
    sizes, clean, pos = _pool_terms(logit, sizes, sens, spec)
    used = sizes > 0
    if reduction == "mean":
        g = g / jnp.maximum(used.sum(), 1)
    d_pos = jnp.where(used, g * jnp.where(positive, -1.0 / pos, 1.0 / (1.0 - pos)), 0.0)
    d_clean = d_pos * (1.0 - spec - sens)
    d_logit = -(d_clean * clean * sizes).sum(-1) * jax.nn.sigmoid(logit)
    return d_logit, None, None, _sum_to(d_pos * (1.0 - clean), sens), _sum_to(-d_pos * clean, spec)


pooled_prevalence_nll.defvjp(_ppn_fwd, _ppn_bwd)


@jax.custom_vjp
def dilution_detection(log10_load, present, midpoint, slope):
    """Detection chance (B,) of pools with member loads (B, K); absent wells add volume only. At least one present."""
    pooled = _pooled_load(log10_load, present)
    return jax.nn.sigmoid(slope * (pooled - midpoint))


def _pooled_load(log10_load, present):
    x = jnp.where(present, log10_load * LN10, -jnp.inf)
    return jax.nn.logsumexp(x, axis=-1) / LN10 - jnp.log10(log10_load.shape[-1])


def _dd_fwd(log10_load, present, midpoint, slope):
    pooled = _pooled_load(log10_load, present)
    y = jax.nn.sigmoid(slope * (pooled - midpoint))
    return y, (log10_load, pooled, midpoint, slope, y)


def _dd_bwd(res, g):
    log10_load, pooled, midpoint, slope, y = res
    dz = g * y * (1.0 - y)
    share = jax.nn.softmax(log10_load * LN10, axis=-1)
    d_load = (dz * slope)[:, None] * share
    return d_load, None, -jnp.sum(dz) * slope, jnp.sum(dz * (pooled - midpoint))


dilution_detection.defvjp(_dd_fwd, _dd_bwd)


@jax.custom_vjp
def array_pool_positivity(logits, present):
    out, _ = _array_fwd(logits, present)
    return out


def _array_fwd(logits, present):
    log_neg = jnp.where(present, jax.nn.log_sigmoid(-logits), 0.0)
    rows, cols = log_neg.sum(-1), log_neg.sum(-2)
    return (-jnp.expm1(rows), -jnp.expm1(cols)), (logits, present, rows, cols)


def _array_bwd(res, g):
    logits, present, rows, cols = res
    g_row, g_col = g
    through = (g_row * jnp.exp(rows))[..., :, None] + (g_col * jnp.exp(cols))[..., None, :]
    return jnp.where(present, jax.nn.sigmoid(logits) * through, 0.0), None


array_pool_positivity.defvjp(_array_fwd, _array_bwd)


def expected_retests(logits, present):
    """Wells at the crossing of a positive row and a positive column (independence assumed)."""
    row, col = array_pool_positivity(logits, present)
    return jnp.sum(jnp.where(present, row[..., :, None] * col[..., None, :], 0.0), axis=(-2, -1))
