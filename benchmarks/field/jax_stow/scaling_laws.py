"""Fitting of pre-training scaling laws.

Contains the loss surface L(N, D), its extension to repeated data, the law for
whole loss curves under a learning-rate schedule, and the iso-compute parabola
fit.  Parameters are NamedTuples so they go straight through ``jax.grad`` and the
L-BFGS driver at the bottom.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

HUBER_DELTA = 1e-3


class SurfaceParams(NamedTuple):
    """log-parametrised ``E + A / N**alpha + B / D**beta``."""

    log_floor: jax.Array
    log_a: jax.Array
    log_b: jax.Array
    alpha: jax.Array
    beta: jax.Array


class CurveParams(NamedTuple):
    """``floor + scale * S1 ** -power - gain * S2`` along one run."""

    floor: jax.Array
    scale: jax.Array
    power: jax.Array
    gain: jax.Array
    memory: jax.Array


def training_flops(n_params, n_tokens):
    return 6.0 * n_params * n_tokens


# ------------------------------------------------------------------ surface


def _surface_terms(theta, log_n, log_d):
    return jnp.stack(
        [
            jnp.broadcast_to(theta.log_floor, log_n.shape),
            theta.log_a - theta.alpha * log_n,
            theta.log_b - theta.beta * log_d,
        ]
    )


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def surface_misfit(theta, log_n, log_d, log_loss, delta=HUBER_DELTA):
    """Huber misfit, in log loss, of the loss surface to a table of runs.

    Args:
      theta: ``SurfaceParams`` of scalars.
      log_n: natural log of parameter counts, one per run.
      log_d: natural log of token counts, one per run.
      log_loss: natural log of final losses, one per run.
      delta: Huber threshold.

    Returns:
      Sum over runs.
    """
    predicted = jax.nn.logsumexp(_surface_terms(theta, log_n, log_d), axis=0)
    gap = jnp.abs(predicted - log_loss)
    return jnp.sum(jnp.where(gap <= delta, 0.5 * gap**2, delta * (gap - 0.5 * delta)))


def _misfit_fwd(theta, log_n, log_d, log_loss, delta):
    return surface_misfit(theta, log_n, log_d, log_loss, delta), (theta, log_n, log_d, log_loss)


def _misfit_bwd(delta, res, ct):
    theta, log_n, log_d, log_loss = res
    terms = _surface_terms(theta, log_n, log_d)
    predicted = jax.nn.logsumexp(terms, axis=0)
    pull = ct * jnp.clip(predicted - log_loss, -delta, delta)
    floor, model, data = pull * jnp.exp(terms - predicted)
    d_theta = SurfaceParams(
        log_floor=jnp.sum(floor),
        log_a=jnp.sum(model),
        log_b=jnp.sum(data),
        alpha=-jnp.sum(model * log_n),
        beta=-jnp.sum(data * log_d),
    )
    return d_theta, -theta.alpha * model, -theta.beta * data, -pull


surface_misfit.defvjp(_misfit_fwd, _misfit_bwd)


def compute_optimal(theta, flops):
    """Closed-form split of a compute budget between N and D."""
    a, b = theta.alpha, theta.beta
    log_g = (jnp.log(a) + theta.log_a - jnp.log(b) - theta.log_b) / (a + b)
    log_nd = jnp.log(flops / 6.0)
    return jnp.exp(log_g + b / (a + b) * log_nd), jnp.exp(-log_g + a / (a + b) * log_nd)


# ------------------------------------------------------------------ repeated data


@jax.custom_jvp
def unique_equivalent(tokens, unique, half_life):
    """Fresh tokens worth as much as ``tokens`` drawn from a finite pool.

    With ``R = tokens / unique - 1`` repeats the value is
    ``unique * (1 + h * (1 - exp(-R / h)))``; a pool which is not exhausted
    (``tokens <= unique``) counts in full.  ``tokens`` (runs, sources), ``unique``
    (sources,), ``half_life`` scalar or (sources,).
    """
    repeats = jnp.maximum(tokens / unique - 1.0, 0.0)
    worn = unique * (1.0 - half_life * jnp.expm1(-repeats / half_life))
    return jnp.where(tokens > unique, worn, tokens)


@unique_equivalent.defjvp
def _unique_equivalent_jvp(primals, tangents):
    tokens, unique, half_life = primals
    d_tokens, d_unique, d_half_life = tangents
    repeats = jnp.maximum(tokens / unique - 1.0, 0.0)
    fade = jnp.exp(-repeats / half_life)
    out = unique_equivalent(tokens, unique, half_life)
    by_unique = 1.0 + half_life * (1.0 - fade) - fade * repeats
    by_half_life = unique * (1.0 - fade - fade * repeats / half_life)
    worn = fade * d_tokens + by_unique * d_unique + by_half_life * d_half_life
    return out, jnp.where(tokens > unique, worn, d_tokens)


def mixture_log_tokens(budget, logits, pools, half_life):
    """Log effective tokens of a data mixture given by source ``logits``.

    ``budget`` holds the token counts of the runs.
    """
    share = jax.nn.softmax(logits)
    drawn = budget[:, None] * share
    return jnp.log(jnp.sum(unique_equivalent(drawn, pools, half_life), axis=1))


# ------------------------------------------------------------------ whole curves


def _fall(rates):
    """Decrease of the learning rate at each step; rises count as nothing."""
    drop = jnp.maximum(rates[:, :-1] - rates[:, 1:], 0.0)
    return jnp.pad(drop, ((0, 0), (1, 0)))


def _momentum(drops, memory):
    def step(m, drop):
        m = memory * m + drop
        return m, m

    _, out = jax.lax.scan(step, jnp.zeros_like(drops[:, 0]), drops.T)
    return out.T


@jax.custom_vjp
def annealed_curve(theta, rates):
    """Loss along training under a learning-rate schedule.

    ``rates`` is (runs, steps), normalised to a peak of about one and above zero
    at the first step.  S1 is the forward area of the schedule and S2 the annealing
    area, in which past decreases are kept with factor ``theta.memory`` per step.
    Returns (runs, steps).
    """
    area = jnp.cumsum(rates, axis=1)
    anneal = jnp.cumsum(_momentum(_fall(rates), theta.memory), axis=1)
    return theta.floor + theta.scale * area**-theta.power - theta.gain * anneal


def _curve_fwd(theta, rates):
    area = jnp.cumsum(rates, axis=1)
    momentum = _momentum(_fall(rates), theta.memory)
    anneal = jnp.cumsum(momentum, axis=1)
    out = theta.floor + theta.scale * area**-theta.power - theta.gain * anneal
    return out, (theta, rates, area, momentum, anneal)


def _tail_sum(x):
    return jnp.flip(jnp.cumsum(jnp.flip(x, axis=1), axis=1), axis=1)


def _curve_bwd(res, ct):
    theta, rates, area, momentum, anneal = res
    decay = area**-theta.power
    d_area = -ct * theta.power * theta.scale * decay / area
    d_momentum = _tail_sum(-theta.gain * ct)

    def step(carry, ct_k):
        carry = ct_k + theta.memory * carry
        return carry, carry

    _, d_drop = jax.lax.scan(
        step, jnp.zeros_like(rates[:, 0]), d_momentum.T, reverse=True
    )
    d_drop = d_drop.T
    before = jnp.pad(momentum[:, :-1], ((0, 0), (1, 0)))
    d_theta = CurveParams(
        floor=jnp.sum(ct),
        scale=jnp.sum(ct * decay),
        power=-jnp.sum(ct * theta.scale * decay * jnp.log(area)),
        gain=-jnp.sum(ct * anneal),
        memory=jnp.sum(d_drop * before),
    )
    falling = rates[:, 1:] < rates[:, :1]
    moved = jnp.where(falling, d_drop[:, 1:], 0.0)
    d_rates = _tail_sum(d_area)
    d_rates = d_rates.at[:, :-1].add(moved).at[:, 1:].add(-moved)
    return d_theta, d_rates


annealed_curve.defvjp(_curve_fwd, _curve_bwd)


def cosine_rates(steps, final=0.1):
    """Cosine decay from the peak, no warm-up."""
    phase = np.arange(steps) / max(steps - 1, 1)
    return final + 0.5 * (1.0 - final) * (1.0 + np.cos(np.pi * phase))


def wsd_rates(steps, warmup, decay_from, final=0.02):
    """Warm-up, stable, linear decay."""
    k = np.arange(1, steps + 1, dtype=float)
    up = np.minimum(k / max(warmup, 1), 1.0)
    down = np.clip((steps - k) / max(steps - decay_from, 1), final, 1.0)
    return np.minimum(up, down)


# ------------------------------------------------------------------ iso-compute fits


def make_isoflop_fit(log_n, weights=None):
    """Parabola through the runs of each compute budget.

    Parameters
    ----------
    log_n : array (budgets, sizes)
        Log model sizes trained at each budget.
    weights : array (budgets, sizes), optional
        Run weights of the least squares; zero leaves a run out.

    Returns
    -------
    callable
        ``vertex(losses) -> (log_n_opt, best_loss, curvature)``, each (budgets,).
    """
    log_n = np.asarray(log_n, dtype=np.float64)
    weights = np.ones_like(log_n) if weights is None else np.asarray(weights, dtype=np.float64)
    centre = np.sum(weights * log_n, axis=1) / np.sum(weights, axis=1)
    x = log_n - centre[:, None]
    design = np.stack([x**2, x, np.ones_like(x)], axis=-1)
    root = np.sqrt(weights)[..., None]
    solver = jnp.asarray(np.linalg.pinv(design * root) * np.swapaxes(root, 1, 2))
    middle = jnp.asarray(centre)

    def coefficients(losses):
        return jnp.moveaxis(jnp.einsum("bcs,bs->bc", solver, losses), -1, 0)

    @jax.custom_vjp
    def vertex(losses):
        a, b, c = coefficients(losses)
        return middle - b / (2.0 * a), c - b * b / (4.0 * a), 2.0 * a

    def fwd(losses):
        a, b, c = coefficients(losses)
        out = (middle - b / (2.0 * a), c - b * b / (4.0 * a), 2.0 * a)
        return out, (a, b)

    def bwd(res, cts):
        a, b = res
        ct_where, ct_best, ct_curv = cts
        offset = -b / (2.0 * a)
        d_a = -ct_where * offset / a + ct_best * offset**2 + 2.0 * ct_curv
        d_b = -ct_where / (2.0 * a) + ct_best * offset
        d_c = ct_best
        return (jnp.einsum("bc,bcs->bs", jnp.stack([d_a, d_b, d_c], axis=-1), solver),)

    vertex.defvjp(fwd, bwd)
    return vertex


# ------------------------------------------------------------------ drivers


def descend(objective, theta, steps=400, rate=0.02):
    """Plain Adam, good enough to polish a grid start."""
    zeros = jax.tree_util.tree_map(jnp.zeros_like, theta)
    m, v = zeros, zeros
    slope = jax.jit(jax.grad(objective))
    for k in range(1, steps + 1):
        g = slope(theta)
        m = jax.tree_util.tree_map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
        v = jax.tree_util.tree_map(lambda a, b: 0.99 * a + 0.01 * b * b, v, g)
        theta = jax.tree_util.tree_map(
            lambda p, a, b: p
            - rate * (a / (1 - 0.9**k)) / (jnp.sqrt(b / (1 - 0.99**k)) + 1e-12),
            theta,
            m,
            v,
        )
    return theta


if __name__ == "__main__":
    rng = np.random.default_rng(1)
    truth = SurfaceParams(*(jnp.asarray(v) for v in (0.5, 6.0, 6.0, 0.34, 0.28)))
    log_n = jnp.asarray(rng.uniform(17.0, 23.0, 40))
    log_d = jnp.asarray(rng.uniform(21.0, 26.0, 40))
    log_l = jax.nn.logsumexp(_surface_terms(truth, log_n, log_d), axis=0)
    start = truth._replace(alpha=jnp.asarray(0.3), log_b=jnp.asarray(5.0))
    print(descend(lambda th: surface_misfit(th, log_n, log_d, log_l), start))

    budgets = jnp.array([1.0e10, 4.0e10])
    pools = jnp.array([2.0e10, 3.0e10, 8.0e10])
    print(jax.grad(lambda p: jnp.sum(mixture_log_tokens(budgets, jnp.zeros(3), p, 15.4)))(pools))

    schedule = jnp.asarray(cosine_rates(64))[None]
    curve = CurveParams(*(jnp.asarray(v) for v in (2.1, 0.9, 0.5, 0.02, 0.99)))
    print(jax.grad(lambda r: annealed_curve(curve, r)[0, -1])(schedule)[0, ::16])
