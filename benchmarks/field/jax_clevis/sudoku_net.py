"""A small differentiable Sudoku solver: beliefs over digits, refined by messages among cells that share a unit.

Boards are N x N with N digits; a box has `box = (rows, columns)` cells, (3, 3) for the newspaper puzzle, (2, 2) for
children's boards and (2, 3) for the six by six ones.
"""

from __future__ import annotations

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


@dataclasses.dataclass(frozen=True)
class Board:
    box: tuple = (3, 3)

    @property
    def side(self):
        return self.box[0] * self.box[1]

    def peers(self):
        """[cells, cells] matrix of 1 where two cells share a row, column or box, divided by the number of peers."""
        r, c = np.divmod(np.arange(self.side ** 2), self.side)
        b = r // self.box[0] * self.box[0] + c // self.box[1]
        same = (r[:, None] == r) | (c[:, None] == c) | (b[:, None] == b)
        np.fill_diagonal(same, False)
        return same / same.sum(1, keepdims=True)


def _box_of(side, box):
    w, h = box
    r, c = np.divmod(np.arange(side * side), side)
    return (r // h) * (side // w) + c // w


_AXIS = {"cell": -1, "row": -2, "column": -3}


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def unit_softmax(scores, unit, box=(3, 3)):
    """Probabilities that compete inside a unit.

    Args:
      scores: [..., N, N, N] (row, column, digit).
      unit: "cell": the digits of a cell compete; "row", "column", "box": the cells of the unit compete for each digit.
      box: rows and columns of a box.

    Returns:
      An array like scores that sums to one over each unit.
    """
    if unit in _AXIS:
        return jax.nn.softmax(scores, axis=_AXIS[unit])
    if unit != "box":
        raise ValueError(unit)
    *lead, n, _, d = scores.shape
    tiles = scores.reshape(*lead, n // box[0], box[0], n // box[1], box[1], d)
    return jax.nn.softmax(tiles, axis=(-4, -2)).reshape(scores.shape)


def _unit_fwd(scores, unit, box):
    p = unit_softmax(scores, unit, box)
    return p, p


def _unit_bwd(unit, box, p, g):
    pg = p * g
    if unit in _AXIS:
        inner = pg.sum(_AXIS[unit], keepdims=True)
    else:
        *lead, n, _, d = p.shape
        where = _box_of(n, box)
        member = jnp.asarray(where[:, None] == np.arange(n), p.dtype)
        totals = jnp.einsum("...pd,pb->...bd", pg.reshape(*lead, n * n, d), member)
        inner = totals[..., where, :].reshape(p.shape)
    return (pg - p * inner,)


unit_softmax.defvjp(_unit_fwd, _unit_bwd)


@jax.custom_vjp
def blank_cell_loss(logits, weights, solution, given):
    """Weighted mean negative log-likelihood of the blank cells of a batch.

    The weights (one a cell, say from the number of candidates; they may be learned) are divided by their sum over the
    blank cells, or by one where that sum is smaller, so that a nearly full board does not blow up.
    """
    return _blank_fwd(logits, weights, solution, given)[0]


def _blank_fwd(logits, weights, solution, given):
    logp = jax.nn.log_softmax(logits)
    nll = -jnp.take_along_axis(logp, solution[..., None], -1)[..., 0]
    w = jnp.where(given, 0.0, weights)
    total = w.sum()
    loss = jnp.sum(w * nll) / jnp.maximum(total, 1.0)
    return loss, (logp, nll, w, total, loss, solution, given)


def _blank_bwd(res, g):
    logp, nll, w, total, loss, solution, given = res
    unit = g / jnp.maximum(total, 1.0)
    err = jnp.exp(logp) - jax.nn.one_hot(solution, logp.shape[-1], dtype=logp.dtype)
    d_w = jnp.where(given, 0.0, unit * (nll - jnp.where(total > 1.0, loss, 0.0)))
    return unit * w[..., None] * err, d_w, None, None


blank_cell_loss.defvjp(_blank_fwd, _blank_bwd)


def make_refiner(peers, steps: int = 4):
    """Build x <- x + gate * tanh(peers @ x @ weight), `steps` times.

    peers[i, j] is how much cell i hears of cell j. Board.peers() gives the plain puzzle; variants pass their own, for
    instance with arrows along a thermometer, where only the cell nearer to the bulb is heard.
    """
    peers = jnp.asarray(peers)

    def step(x, weight, gate):
        heard = peers @ x
        u = jnp.tanh(heard @ weight)
        return x + gate * u, (heard, u)

    @jax.custom_vjp
    def refine_beliefs(x, weight, gate):
        for _ in range(steps):
            x, _ = step(x, weight, gate)
        return x

    def fwd(x, weight, gate):
        tape = []
        for _ in range(steps):
            x, kept = step(x, weight, gate)
            tape.append(kept)
        return x, (tape, weight, gate)

    def bwd(res, g):
        tape, weight, gate = res
        d_weight, d_gate = jnp.zeros_like(weight), jnp.zeros_like(gate)
        for heard, u in reversed(tape):
            d_gate = d_gate + jnp.sum(g * u, axis=tuple(range(g.ndim - 1)))
            dm = g * gate * (1 - u * u)
            d_weight = d_weight + jnp.einsum("...pd,...pe->de", heard, dm)
            g = g + peers @ (dm @ weight.T)
        return g, d_weight, d_gate

    refine_beliefs.defvjp(fwd, bwd)
    return refine_beliefs


@partial(jax.custom_jvp, nondiff_argnums=(3,))
def digit_draw(logits, noise, tau, hard=False):
    """Gumbel-softmax draw of a digit per cell. With hard=True the value is the one-hot digit while the derivative is,
    on purpose, that of the soft draw (straight-through)."""
    soft = jax.nn.softmax((logits + noise) / tau)
    if hard:
        return jax.nn.one_hot(jnp.argmax(soft, -1), soft.shape[-1], dtype=soft.dtype)
    return soft


@digit_draw.defjvp
def _digit_draw_jvp(hard, primals, tangents):
    logits, noise, tau = primals
    d_logits, d_noise, d_tau = tangents
    z = (logits + noise) / tau
    p = jax.nn.softmax(z)
    dz = (d_logits + d_noise - z * d_tau) / tau
    return digit_draw(logits, noise, tau, hard), p * (dz - jnp.sum(p * dz, -1, keepdims=True))
