"""Wind-blown sand over a line of bed cells.

Forward terms of the transect model: threshold friction velocity of the mixed
bed, equilibrium saltation flux, its relaxation over the fetch and the
avalanching of slip faces.  Everything is SI; the last axis is the transect.
"""

import numpy as np
import tensorflow as tf

GRAVITY = 9.81
SAND_DENSITY = 2650.0
AIR_DENSITY = 1.225
SHAO_LU_A = 0.0123
SHAO_LU_GAMMA = 3.0e-4
KAWAMURA_C = 2.78


def _fold(grad, like):
    """Sum `grad` down to the shape of `like`."""
    shape = tf.shape(like)
    axes, _ = tf.raw_ops.BroadcastGradientArgs(s0=shape, s1=tf.shape(grad))
    return tf.reshape(tf.reduce_sum(grad, axis=axes), shape)


@tf.custom_gradient
def mixture_threshold(abundance, diameter):
    """Threshold friction velocity of a bed of mixed grains.

    Parameters
    ----------
    abundance : tf.Tensor, shape (..., bins)
        Sieve weights, non-negative; a row need not add up to one but holds at
        least some sand.
    diameter : tf.Tensor, shape (bins,) or (..., bins)
        Representative diameters of the sieves in metres.

    Returns
    -------
    tf.Tensor, shape (...)
        Threshold of the geometric mean grain, m/s.
    """
    total = tf.reduce_sum(abundance, axis=-1, keepdims=True)
    share = abundance / total
    log_d = tf.math.log(diameter)
    log_mean = tf.reduce_sum(share * log_d, axis=-1, keepdims=True)
    mean_d = tf.exp(log_mean)
    weight = SHAO_LU_A * (SAND_DENSITY / AIR_DENSITY) * GRAVITY * mean_d
    cohesion = SHAO_LU_A * SHAO_LU_GAMMA / (AIR_DENSITY * mean_d)
    threshold = tf.sqrt(weight + cohesion)

    def grad(upstream):
        # both terms are powers of the mean diameter
        d_log = upstream[..., None] * (weight - cohesion) / (2.0 * threshold)
        d_abundance = d_log * (log_d - log_mean) / total
        d_diameter = d_log * share / diameter
        return _fold(d_abundance, abundance), _fold(d_diameter, diameter)

    return tf.squeeze(threshold, -1), grad


@tf.custom_gradient
def saltation_flux(ustar, threshold, density):
    """Equilibrium flux of Kawamura, zero under the threshold.

    Parameters
    ----------
    ustar : tf.Tensor, shape (time, cells)
    threshold : tf.Tensor
        Broadcasts against `ustar`: one value, one per cell, one per time.
    density : tf.Tensor
        Air density; broadcasts likewise.
    """
    moving = ustar > threshold
    reach = ustar + threshold
    scale = KAWAMURA_C * density / GRAVITY
    cubic = tf.where(moving, reach * reach * (ustar - threshold), tf.zeros_like(reach))

    def grad(upstream):
        g = tf.where(moving, upstream, tf.zeros_like(upstream))
        d_ustar = g * scale * reach * (3.0 * ustar - threshold)
        d_threshold = g * scale * reach * (ustar - 3.0 * threshold)
        d_density = g * KAWAMURA_C / GRAVITY * cubic
        return _fold(d_ustar, ustar), _fold(d_threshold, threshold), _fold(d_density, density)

    return scale * cubic, grad


def fetch_relaxation(equilibrium, length, inflow, dx=1.0):
    """March the flux downwind towards its equilibrium.

    Parameters
    ----------
    equilibrium : tf.Tensor, shape (batch, cells)
    length : tf.Tensor, shape (batch, cells)
        Saturation length of each cell, metres; crusts and wet patches have
        their own.
    inflow : tf.Tensor, shape (batch,)
        Flux that enters the first cell.
    dx : float
        Cell width, metres.
    """

    @tf.custom_gradient
    def _march(equilibrium, length, inflow):
        keep = tf.exp(-dx / length)
        flux = inflow
        upwind, out = [], []
        for i in range(equilibrium.shape[-1]):
            upwind.append(flux)
            flux = keep[:, i] * flux + (1.0 - keep[:, i]) * equilibrium[:, i]
            out.append(flux)
        upwind = tf.stack(upwind, axis=-1)

        def grad(upstream):
            n = upstream.shape[-1]
            carry = tf.zeros_like(upstream[:, 0])
            adjoint = []
            for i in reversed(range(n)):
                carry = upstream[:, i] + keep[:, i] * carry
                adjoint.append(carry)
            adjoint = tf.stack(adjoint[::-1], axis=-1)
            d_keep = adjoint * (upwind - equilibrium)
            d_length = d_keep * keep * dx / tf.square(length)
            return adjoint * (1.0 - keep), d_length, adjoint[:, 0] * keep[:, 0]

        return tf.stack(out, axis=-1), grad

    return _march(equilibrium, length, inflow)


def avalanche(height, repose, rate, ends="periodic"):
    """One relaxation sweep of slopes steeper than the angle of repose.

    Parameters
    ----------
    height : tf.Tensor, shape (batch, cells)
    repose : tf.Tensor, shape (cells,)
        Largest stable drop between a cell and the next one.
    rate : tf.Tensor, scalar
        Share of the excess that moves in a sweep.
    ends : {"periodic", "walled"}
        Whether the last cell exchanges sand with the first one.
    """
    if ends not in ("periodic", "walled"):
        raise ValueError(f"unknown ends {ends!r}")

    @tf.custom_gradient
    def _sweep(height, repose, rate):
        drop = tf.roll(height, -1, axis=-1) - height
        excess = tf.nn.relu(tf.abs(drop) - repose)
        side = tf.sign(drop)
        moved = side * excess
        if ends == "walled":
            moved = tf.concat([moved[:, :-1], tf.zeros_like(moved[:, -1:])], axis=-1)
        flow = rate * moved

        def grad(upstream):
            g_flow = upstream - tf.roll(upstream, -1, axis=-1)
            loose = tf.cast(excess > 0, height.dtype)
            g_drop = rate * g_flow * loose
            d_height = upstream + tf.roll(g_drop, 1, axis=-1) - g_drop
            d_repose = -tf.reduce_sum(g_drop * side, axis=0)
            d_rate = tf.reduce_sum(g_flow * moved)
            return d_height, d_repose, d_rate

        return height + flow - tf.roll(flow, 1, axis=-1), grad

    return _sweep(height, repose, rate)


def advance(height, ustar, params, ends="periodic", dx=1.0, dt=60.0):
    """One time step of the transect; `ustar` has shape (batch, cells)."""
    threshold = mixture_threshold(params["abundance"], params["diameter"])
    q_eq = saltation_flux(ustar, threshold, params["density"])
    q = fetch_relaxation(q_eq, params["length"], params["inflow"], dx)
    before = tf.concat([params["inflow"][:, None], q[:, :-1]], axis=-1)
    height = height - dt * (q - before) / (dx * 0.6 * SAND_DENSITY)
    return avalanche(height, params["repose"], params["rate"], ends)


def demo(cells=16, batch=2, seed=0):
    rng = np.random.default_rng(seed)
    params = {
        "abundance": tf.constant(rng.uniform(0.1, 3.0, (cells, 4)), tf.float32),
        "diameter": tf.constant([1.2e-4, 2.0e-4, 3.5e-4, 6.0e-4], tf.float32),
        "density": tf.constant(AIR_DENSITY, tf.float32),
        "length": tf.fill((batch, cells), 4.0),
        "inflow": tf.zeros(batch),
        "repose": tf.fill((cells,), 0.6),
        "rate": tf.constant(0.3),
    }
    height = tf.constant(rng.normal(size=(batch, cells)), tf.float32)
    ustar = tf.constant(rng.uniform(0.2, 0.6, (batch, cells)), tf.float32)
    return advance(height, ustar, params)
