import math
from typing import NamedTuple

import tensorflow as tf

GAS = 8.314462618
FARADAY = 96485.33212


class InningsCurve(NamedTuple):
    z0: tf.Tensor
    decay: tf.Tensor
    by_wickets: tf.Tensor   # [10], share of the runs left with w wickets down


# --- stations of a flow line -------------------------------------------------

def make_queue_wait(servers=1):
    """Mean queueing time of a G/G/c station by Sakasegawa's approximation.

    Wq = (ca2 + cs2) / 2 * rho**(sqrt(2 (c + 1)) - 1) / (c (1 - rho)) / mu, with rho = lam / (c mu) < 1.

    `servers` is c, the number of parallel machines. The returned function takes
    arrival rate `lam`, service rate `mu` (per machine), and the squared
    coefficients of variation `ca2` and `cs2`, all of the same shape.
    """
    power = math.sqrt(2.0 * (servers + 1.0)) - 1.0

    @tf.custom_gradient
    def queue_wait(lam, mu, ca2, cs2):
        rho = lam / (servers * mu)
        variability = 0.5 * (ca2 + cs2)
        congestion = rho ** power / (servers * (1.0 - rho) * mu)
        wait = variability * congestion

        def grad(upstream):
            d_wait = upstream * wait
            d_rho = d_wait * (1.0 / rho + 1.0 / (1.0 - rho))
            d_lam = d_rho / (servers * mu)
            d_mu = -(d_rho * rho + d_wait) / mu
            half = 0.5 * upstream * congestion
            return d_lam, d_mu, half, half

        return wait, grad

    return queue_wait


# --- one-day cricket ---------------------------------------------------------

@tf.custom_gradient
def innings_resource(overs, wickets, z0, decay, by_wickets):
    """Runs still to come: z0 F[w] (1 - exp(-decay u / F[w])); overs [..], wickets int of that shape (-1 pads, gives 0)."""
    live = wickets >= 0
    row = tf.maximum(wickets, 0)
    share = tf.gather(by_wickets, row)
    x = decay * overs / share
    survive = tf.exp(-x)
    gone = -tf.math.expm1(-x)
    runs = tf.where(live, z0 * share * gone, tf.zeros_like(overs))

    def grad(dy):
        dy = tf.where(live, dy, tf.zeros_like(dy))
        d_share = z0 * dy * (gone - x * survive)
        return (
            dy * z0 * decay * survive,
            None,
            tf.reduce_sum(dy * share * gone),
            tf.reduce_sum(dy * z0 * overs * survive),
            tf.math.unsorted_segment_sum(d_share, row, by_wickets.shape[0]),
        )

    return runs, grad


def par_score(curve, overs, wickets, total):
    used = innings_resource(overs, wickets, *curve)
    return total * (1.0 - used / curve.z0)


# --- cable in conduit --------------------------------------------------------

def make_pull_tension(weight_correction=1.0):
    """Pulling tension along a conduit run made of (straight, bend) pairs.

    For cable b and section i,

        T[b, i] = (T[b, i-1] + f w L) * exp(c f theta)

    with f = friction[b] * 1, w = unit_weight[b], c = `weight_correction`
    (1 for one cable, above 1 for three in a cradle) and T[b, -1] = tail[b].
    Sections with present[b, i] False are padding and hand the tension on.

    Arguments of the returned function: tail [B], friction [B] or [1] (a common
    lubricant), unit_weight [B], length [B, N], bend [B, N] (radians, >= 0),
    present [B, N] bool. Returns the tensions [B, N].
    """

    @tf.custom_gradient
    def pull_tension(tail, friction, unit_weight, length, bend, present):
        on = tf.cast(present, length.dtype)
        drag = on * (friction * unit_weight)[:, None] * length
        gain = tf.exp(on * weight_correction * friction[:, None] * bend)
        n = length.shape[1]
        t, history = tail, []
        for i in range(n):
            t = (t + drag[:, i]) * gain[:, i]
            history.append(t)
        tension = tf.stack(history, axis=1)

        def grad(upstream):
            carry, adjoint = tf.zeros_like(tail), [None] * n
            for i in reversed(range(n)):
                adjoint[i] = upstream[:, i] + carry
                carry = adjoint[i] * gain[:, i]
            lam = tf.stack(adjoint, axis=1) * on
            lam_in = lam * gain
            along = tf.reduce_sum(lam_in * length, axis=1)
            around = tf.reduce_sum(lam * tension * bend, axis=1)
            d_friction = along * unit_weight + weight_correction * around
            if friction.shape[0] == 1:
                d_friction = tf.reduce_sum(d_friction, keepdims=True)
            return (
                carry,
                d_friction,
                along * friction,
                lam_in * (friction * unit_weight)[:, None],
                lam * tension * (weight_correction * friction)[:, None],
                None,
            )

        return tension, grad

    return pull_tension


# --- resting potential -------------------------------------------------------

@tf.custom_gradient
def goldman_potential(permeability, inside, outside, is_anion, temperature):
    anion = tf.cast(is_anion, inside.dtype)
    top = outside + anion * (inside - outside)
    bottom = inside + anion * (outside - inside)
    num = tf.einsum("k,bk->b", permeability, top)
    den = tf.einsum("k,bk->b", permeability, bottom)
    thermal = GAS * temperature / FARADAY
    log_ratio = tf.math.log(num) - tf.math.log(den)

    def grad(dv):
        a = (dv * thermal / num)[:, None]
        b = (dv * thermal / den)[:, None]
        d_perm = tf.reduce_sum(a * top - b * bottom, axis=0)
        d_inside = -b * permeability
        d_outside = a * permeability
        return d_perm, d_inside, d_outside, None, dv * log_ratio * (GAS / FARADAY)

    return thermal * log_ratio, grad
