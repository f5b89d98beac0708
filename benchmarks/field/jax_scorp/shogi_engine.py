# Pieces of a small shogi engine: board normalisation, a pairwise "who threatens
# whom" score, a memory over the plies of a game, and a sampler of moves.
from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

RANKS = FILES = 9
MOVES_PER_SQUARE = 139


@partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def legal_square_norm(x, gain, shift, on_board, groups=1, eps=1e-5):
    """Group normalisation over the squares which belong to the board.

    Handicap and mini variants are embedded into the 9x9 planes, so a part of
    the squares does not exist.

    Parameters
    ----------
    x : (batch, rank, file, channel)
    gain, shift : (channel,)
    on_board : bool (batch, rank, file)
    groups : number of channel groups which are normalised together

    Returns
    -------
    Same shape as x; zero off the board.
    """
    return _norm_fwd(x, gain, shift, on_board, groups, eps)[0]


def _group_mean(v, on, groups):
    """Mean over board squares and the channels of a group, spread back."""
    b, r, f, c = v.shape
    grouped = v.reshape(b, r, f, groups, c // groups)
    n = jnp.maximum(on.sum((1, 2, 3)), 1.0) * (c // groups)
    m = (grouped * on[..., None]).sum((1, 2, 4)) / n[:, None]
    return jnp.repeat(m, c // groups, axis=-1)[:, None, None, :]


def _norm_fwd(x, gain, shift, on_board, groups, eps):
    on = on_board[..., None].astype(x.dtype)
    centred = (x - _group_mean(x, on, groups)) * on
    rstd = jax.lax.rsqrt(_group_mean(centred ** 2, on, groups) + eps)
    xhat = centred * rstd
    return (xhat * gain + shift) * on, (xhat, rstd, on, gain)


def _norm_bwd(groups, eps, res, g):
    xhat, rstd, on, gain = res
    g = g * on
    d_gain = (g * xhat).sum((0, 1, 2))
    d_shift = g.sum((0, 1, 2))
    gx = g * gain
    dx = gx - _group_mean(gx, on, groups) - xhat * _group_mean(gx * xhat, on, groups)
    return dx * rstd * on, d_gain, d_shift, None


legal_square_norm.defvjp(_norm_fwd, _norm_bwd)


@jax.custom_vjp
def threat_bilinear(pieces: jax.Array, form: jax.Array) -> jax.Array:
    """Score of piece i threatening piece j, for every head.

    pieces [batch, n, d], form [heads, d, d] -> [batch, heads, n, n].  Threats
    are directed: neither the form nor the result has to be symmetric.
    """
    return jnp.einsum("bid,hde,bje->bhij", pieces, form, pieces)


def _threat_fwd(pieces, form):
    return threat_bilinear(pieces, form), (pieces, form)


def _threat_bwd(res, g):
    pieces, form = res
    both = g + jnp.swapaxes(g, -1, -2)
    d_pieces = jnp.einsum("bhij,hde,bje->bid", both, form, pieces)
    d_form = jnp.einsum("bid,bhij,bje->hde", pieces, g, pieces)
    return d_pieces, d_form


threat_bilinear.defvjp(_threat_fwd, _threat_bwd)


def init_threat_form(heads, d, dtype=jnp.float32):
    return jnp.broadcast_to(jnp.eye(d, dtype=dtype), (heads, d, d)) / d ** 0.5


# Memory over plies ---------------------------------------------------------
#
#   h[t] = keep * (0 if new_game[t] else h[t-1]) + (1 - keep) * x[t]
#
# Games of a batch are packed one behind the other, hence the resets; h0 lets a
# game go on in the next chunk.

@jax.custom_vjp
def ply_memory(keep, x, h0, new_game):
    """keep [C] in (0, 1), x [T, B, C], h0 [B, C], new_game bool [T, B].
    Returns (all states [T, B, C], last state [B, C])."""
    out, _ = _ply_fwd(keep, x, h0, new_game)
    return out


def _ply_fwd(keep, x, h0, new_game):
    def ply(h, inp):
        xt, fresh = inp
        prev = jnp.where(fresh[:, None], 0.0, h)
        h = keep * prev + (1 - keep) * xt
        return h, (h, prev)

    last, (hs, prevs) = jax.lax.scan(ply, h0, (x, new_game))
    return (hs, last), (keep, x, prevs, new_game)


def _ply_bwd(res, cts):
    keep, x, prevs, new_game = res
    g_hs, g_last = cts

    def ply(adj, inp):
        g, fresh, xt, prev = inp
        adj = adj + g
        back = jnp.where(fresh[:, None], 0.0, adj * keep)
        return back, ((1 - keep) * adj, (adj * (prev - xt)).sum(0))

    d_h0, (d_x, d_keep) = jax.lax.scan(
        ply, g_last, (g_hs, new_game, x, prevs), reverse=True)
    return d_keep.sum(0), d_x, d_h0, None


ply_memory.defvjp(_ply_fwd, _ply_bwd)


# Sampling ------------------------------------------------------------------

def make_move_sampler(temperature=1.0):
    """Straight-through Gumbel sampler of moves.

    The returned function plays the single best *perturbed* legal move (one-hot)
    in the forward pass.  That has no useful derivative, so on purpose its
    backward pass is the one of the soft sample
    ``softmax((logits + noise) / temperature)`` over the legal moves, for the
    logits as for the noise.  Illegal moves get neither mass nor gradient.
    """

    def soft(logits, noise, legal):
        z = jnp.where(legal, (logits + noise) / temperature, -jnp.inf)
        return jax.nn.softmax(z, axis=-1)

    @jax.custom_vjp
    def move_sample(logits, noise, legal):
        z = jnp.where(legal, logits + noise, -jnp.inf)
        return jax.nn.one_hot(jnp.argmax(z, -1), z.shape[-1], dtype=logits.dtype)

    def fwd(logits, noise, legal):
        return move_sample(logits, noise, legal), soft(logits, noise, legal)

    def bwd(p, g):
        d = p * (g - (p * g).sum(-1, keepdims=True)) / temperature
        return d, d, None

    move_sample.defvjp(fwd, bwd)
    return move_sample


class PolicyHead:
    """Policy over moves; `apply` samples, `scores` shows the raw threats."""

    def __init__(self, heads=4, d=16, temperature=0.7):
        self.form = init_threat_form(heads, d)
        self.sampler = make_move_sampler(temperature)

    def scores(self, pieces):
        return threat_bilinear(pieces, self.form).mean(1)

    def apply(self, key, logits, legal):
        noise = jax.random.gumbel(key, logits.shape, logits.dtype)
        return self.sampler(logits, noise, legal)
