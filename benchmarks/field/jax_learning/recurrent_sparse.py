"""State-space recurrences, expert routing, message passing.

Shape letters: B batch, T time, C channels, N state size, G groups, E edges / experts,
V nodes, H heads, K choices per token.
"""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def _combine(left, right):
    a0, x0 = left
    a1, x1 = right
    return a0 * a1, a1 * x0 + x1


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def gated_linear_scan(a, x, h0, reverse=False):
    """h[t] = a[t] * h[t-1] + x[t] with h[-1] = h0, in parallel over time.

    a, x: Float[T, C]; h0: Float[C] -> Float[T, C].
    With reverse=True the recursion runs from the last step to the first.
    """
    if reverse:
        return gated_linear_scan(a[::-1], x[::-1], h0, False)[::-1]
    x = x.at[0].add(a[0] * h0)
    return lax.associative_scan(_combine, (a, x))[1]


def _gls_fwd(a, x, h0, reverse):
    h = gated_linear_scan(a, x, h0, reverse)
    return h, (a, h, h0)


def _gls_bwd(reverse, res, g):
    a, h, h0 = res
    if reverse:
        a, h, g = a[::-1], h[::-1], g[::-1]
    a_next = jnp.concatenate([a[1:], jnp.zeros_like(a[:1])])
    lam = lax.associative_scan(_combine, (a_next[::-1], g[::-1]))[1][::-1]
    h_prev = jnp.concatenate([h0[None], h[:-1]])
    da, dx, dh0 = lam * h_prev, lam, a[0] * lam[0]
    if reverse:
        da, dx = da[::-1], dx[::-1]
    return da, dx, dh0


gated_linear_scan.defvjp(_gls_fwd, _gls_bwd)


def bidirectional(params, u):
    """Sum of a forward and a backward gated pass. u: Float[T, C]."""
    a = jax.nn.sigmoid(u @ params["wa"] + params["ba"])
    x = (1 - a) * (u @ params["wx"])
    zero = jnp.zeros(x.shape[1:], x.dtype)
    return gated_linear_scan(a, x, zero) + gated_linear_scan(a, x, zero, True)


# ------------------------------------------------------------------ selective SSM
@jax.custom_vjp
def selective_scan(u, dt, A, Bm, Cm, D):
    """
    u, dt : Float[B, T, C]      (dt > 0)
    A     : Float[C, N]         (negative)
    Bm,Cm : Float[B, T, G, N]   (C // G neighbouring channels share a group)
    D     : Float[C]
    ->      Float[B, T, C]
    """
    return _selective(u, dt, A, Bm, Cm, D)[0]


def _expand(m, channels):
    return jnp.repeat(m, channels // m.shape[2], axis=2)


def _selective(u, dt, A, Bm, Cm, D):
    c = u.shape[-1]
    decay = jnp.exp(dt[..., None] * A)
    drive = (dt * u)[..., None] * _expand(Bm, c)

    def step(h, inp):
        h = inp[0] * h + inp[1]
        return h, h

    _, hs = lax.scan(step, jnp.zeros_like(drive[:, 0]),
                     (jnp.moveaxis(decay, 1, 0), jnp.moveaxis(drive, 1, 0)))
    hs = jnp.moveaxis(hs, 0, 1)
    return jnp.sum(hs * _expand(Cm, c), -1) + D * u, (decay, hs)


def _selective_fwd(u, dt, A, Bm, Cm, D):
    y, (decay, hs) = _selective(u, dt, A, Bm, Cm, D)
    return y, (u, dt, A, Bm, Cm, D, decay, hs)


def _selective_bwd(res, gy):
    u, dt, A, Bm, Cm, D, decay, hs = res
    b, t, c = u.shape
    groups, n = Bm.shape[2:]
    Bx = _expand(Bm, c)
    gh = gy[..., None] * _expand(Cm, c)

    def back(carry, inp):
        g, dec = inp
        lam = g + carry
        return dec * lam, lam

    _, lam = lax.scan(back, jnp.zeros_like(gh[:, 0]),
                      (jnp.moveaxis(gh, 1, 0), jnp.moveaxis(decay, 1, 0)), reverse=True)
    lam = jnp.moveaxis(lam, 0, 1)
    h_prev = jnp.pad(hs, ((0, 0), (1, 0), (0, 0), (0, 0)))[:, :-1]
    g_log = lam * h_prev * decay
    lb = jnp.sum(lam * Bx, -1)

    def fold(z):
        return z.reshape(b, t, groups, c // groups, n).sum(3)

    d_u = lb * dt + gy * D
    d_dt = lb * u + jnp.sum(g_log * A, -1)
    d_A = jnp.einsum("btcn,btc->cn", g_log, dt)
    d_B = fold(lam * (dt * u)[..., None])
    d_C = fold(gy[..., None] * hs)
    return d_u, d_dt, d_A, d_B, d_C, jnp.sum(gy * u, (0, 1))


selective_scan.defvjp(_selective_fwd, _selective_bwd)


# ------------------------------------------------------------------ discretisation
def _phi1(z):
    small = jnp.abs(z) < 1e-4
    safe = jnp.where(small, 1.0, z)
    return jnp.where(small, 1.0 + z / 2 + z * z / 6, jnp.expm1(safe) / safe)


def _phi1_prime(z):
    small = jnp.abs(z) < 0.2
    safe = jnp.where(small, 1.0, z)
    c = (1 / 2, 1 / 3, 1 / 8, 1 / 30, 1 / 144, 1 / 840, 1 / 5760, 1 / 45360, 1 / 403200)
    series = sum(ck * z**k for k, ck in enumerate(c))
    return jnp.where(small, series, (jnp.exp(safe) - _phi1(safe)) / safe)


@jax.custom_jvp
def zoh(dt, a, b):
    """Zero-order hold of x' = a x + b u (diagonal a, real). Returns (a_bar, b_bar).

    Arguments broadcast against each other; a may be zero.
    """
    z = dt * a
    return jnp.exp(z), dt * _phi1(z) * b


@zoh.defjvp
def _zoh_jvp(primals, tangents):
    dt, a, b = primals
    ddt, da, db = tangents
    z = dt * a
    dz = ddt * a + dt * da
    e, p = jnp.exp(z), _phi1(z)
    out = (e, dt * p * b)
    return out, (e * dz, ddt * p * b + dt * _phi1_prime(z) * dz * b + dt * p * db)


# ------------------------------------------------------------------ episodes in one sequence
@jax.custom_vjp
def leaky_trace(x, decay, h_init, resets):
    """h[t] = decay * h[t-1] + (1 - decay) * x[t].

    x: Float[T, B, C]; decay: Float[C]; h_init: Float[C], learned; resets: Bool[T, B].
    Where resets[t, b] is set a new episode starts at t, and h[t-1] is replaced by h_init.
    The sequence itself also starts from h_init.
    """
    return _leaky(x, decay, h_init, resets)[0]


def _leaky(x, decay, h_init, resets):
    def step(h, inp):
        x_t, r_t = inp
        prev = jnp.where(r_t[:, None], h_init, h)
        h = decay * prev + (1 - decay) * x_t
        return h, (h, prev)

    h0 = jnp.broadcast_to(h_init, x.shape[1:])
    _, (hs, prevs) = lax.scan(step, h0, (x, resets))
    return hs, prevs


def _leaky_fwd(x, decay, h_init, resets):
    hs, prevs = _leaky(x, decay, h_init, resets)
    return hs, (x, decay, prevs, resets)


def _leaky_bwd(res, g):
    x, decay, prevs, resets = res

    def back(carry, inp):
        g_t, r_t = inp
        lam = g_t + carry
        return jnp.where(r_t[:, None], 0.0, decay * lam), lam

    _, lam = lax.scan(back, jnp.zeros_like(g[0]), (g, resets), reverse=True)
    d_decay = jnp.sum(lam * (prevs - x), (0, 1))
    d_init = jnp.sum(decay * lam[0], 0)
    return (1 - decay) * lam, d_decay, d_init, np.zeros(resets.shape, jax.dtypes.float0)


leaky_trace.defvjp(_leaky_fwd, _leaky_bwd)


# ------------------------------------------------------------------ experts
@jax.custom_vjp
def combine_experts(expert_out, gates, slots):
    """Weighted sum of expert outputs for every token.

    expert_out: Float[S, C], the buffers of all experts one after another;
    gates: Float[tokens, K]; slots: Int[tokens, K], row in expert_out, or -1 where the
    token found no room in the expert's buffer. -> Float[tokens, C]
    """
    picked = expert_out[slots] * (slots >= 0)[..., None]
    return jnp.einsum("tk,tkc->tc", gates, picked)


def _combine_fwd(expert_out, gates, slots):
    return combine_experts(expert_out, gates, slots), (expert_out, gates, slots)


def _combine_bwd(res, g):
    expert_out, gates, slots = res
    picked = expert_out[slots] * (slots >= 0)[..., None]
    d_gates = jnp.einsum("tc,tkc->tk", g, picked)
    rows = gates[..., None] * g[:, None, :]
    d_expert = jnp.zeros_like(expert_out).at[slots].add(rows)
    return d_expert, d_gates, None


combine_experts.defvjp(_combine_fwd, _combine_bwd)


def make_slots(choice, num_experts, capacity):
    """choice: Int[tokens, K] expert ids -> slots for combine_experts."""
    flat = jax.nn.one_hot(choice.reshape(-1), num_experts, dtype=jnp.int32)
    rank = jnp.sum((jnp.cumsum(flat, 0) - 1) * flat, -1).reshape(choice.shape)
    return jnp.where(rank < capacity, choice * capacity + rank, -1)


# ------------------------------------------------------------------ graphs
@partial(jax.custom_vjp, nondiff_argnums=(2,))
def edge_softmax(scores, receivers, num_nodes):
    """Attention over the incoming edges of each node. scores: Float[E, H]; receivers: Int[E]."""
    top = jax.ops.segment_max(scores, receivers, num_nodes)
    e = jnp.exp(scores - top[receivers])
    return e / jax.ops.segment_sum(e, receivers, num_nodes)[receivers]


def _es_fwd(scores, receivers, num_nodes):
    att = edge_softmax(scores, receivers, num_nodes)
    return att, (att, receivers)


def _es_bwd(num_nodes, res, g):
    att, receivers = res
    dot = jax.ops.segment_sum(att * g, receivers, num_nodes)
    return att * (g - dot[receivers]), None


edge_softmax.defvjp(_es_fwd, _es_bwd)


@jax.custom_vjp
def gcn_propagate(x, edge_weight, senders, receivers):
    """Symmetrically normalised propagation with unit self loops.

    x: Float[V, C]; edge_weight: Float[E], positive; senders, receivers: Int[E].
    deg = 1 + sum of incoming edge weights.
    """
    inv = _inv_sqrt_degree(edge_weight, receivers, x.shape[0])
    coef = edge_weight * inv[senders] * inv[receivers]
    agg = jax.ops.segment_sum(coef[:, None] * x[senders], receivers, x.shape[0])
    return agg + inv[:, None] ** 2 * x


def _inv_sqrt_degree(w, receivers, n):
    return lax.rsqrt(1.0 + jax.ops.segment_sum(w, receivers, n))


def _gcn_fwd(x, edge_weight, senders, receivers):
    out = gcn_propagate(x, edge_weight, senders, receivers)
    return out, (x, edge_weight, senders, receivers)


def _gcn_bwd(res, g):
    x, w, senders, receivers = res
    v = x.shape[0]
    inv = _inv_sqrt_degree(w, receivers, v)
    i_s, i_r = inv[senders], inv[receivers]
    d_x = jax.ops.segment_sum((w * i_s * i_r)[:, None] * g[receivers], senders, v)
    d_x = d_x + inv[:, None] ** 2 * g
    d_coef = jnp.sum(g[receivers] * x[senders], -1)
    d_inv = jax.ops.segment_sum(d_coef * w * i_r, senders, v)
    d_inv = d_inv + jax.ops.segment_sum(d_coef * w * i_s, receivers, v)
    d_deg = -0.5 * inv**3 * d_inv
    return d_x, d_coef * i_s * i_r + d_deg[receivers], None, None


gcn_propagate.defvjp(_gcn_fwd, _gcn_bwd)


class GATLayer:
    """Single-layer graph attention; params: w [C, H, F], src [H, F], dst [H, F]."""

    def __init__(self, num_nodes, slope=0.2):
        self.num_nodes, self.slope = num_nodes, slope

    def __call__(self, params, x, senders, receivers):
        z = jnp.einsum("vc,chf->vhf", x, params["w"])
        s = jnp.sum(z * params["src"], -1)[senders] + jnp.sum(z * params["dst"], -1)[receivers]
        att = edge_softmax(jax.nn.leaky_relu(s, self.slope), receivers, self.num_nodes)
        return jax.ops.segment_sum(att[..., None] * z[senders], receivers, self.num_nodes)
