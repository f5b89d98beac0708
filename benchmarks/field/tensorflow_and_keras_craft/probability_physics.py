r"""Densities, special functions, flows, a fixed-grid ODE solver.

The pieces of our inference code where the automatic derivative is either not
available, not stable in the tails, or too hungry for memory.

References
----------
.. [1] Rezende & Mohamed, "Variational Inference with Normalizing Flows", 2015.
.. [2] Giles, "Collected matrix derivative results for forward and reverse mode
       algorithmic differentiation", 2008.
"""
import math

import numpy as np
import tensorflow as tf

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


def _unbroadcast(grad, like):
    """Sum `grad` over the axes along which `like` was broadcast to it."""
    extra = grad.shape.rank - like.shape.rank
    if extra:
        grad = tf.reduce_sum(grad, axis=list(range(extra)))
    ones = [i for i, n in enumerate(like.shape) if n == 1 and grad.shape[i] != 1]
    if ones:
        grad = tf.reduce_sum(grad, axis=ones, keepdims=True)
    return grad


# --------------------------------------------------------------------- densities
@tf.custom_gradient
def student_t_log_prob(x, df, loc, scale):
    r"""Log density of the location-scale Student t.

    .. math:: \log\Gamma(\tfrac{\nu+1}2) - \log\Gamma(\tfrac\nu2)
              - \tfrac12\log(\nu\pi) - \log\sigma
              - \tfrac{\nu+1}2 \log(1 + z^2/\nu), \quad z = (x-\mu)/\sigma

    All four arguments broadcast against each other and all four get gradients.
    """
    z = (x - loc) / scale
    log1p_term = tf.math.log1p(tf.square(z) / df)
    out = (
        tf.math.lgamma(0.5 * (df + 1.0))
        - tf.math.lgamma(0.5 * df)
        - 0.5 * tf.math.log(math.pi * df)
        - tf.math.log(scale)
        - 0.5 * (df + 1.0) * log1p_term
    )

    def grad(dy):
        dz = -(df + 1.0) * z / (df + tf.square(z))
        d_df = 0.5 * (
            tf.math.digamma(0.5 * (df + 1.0))
            - tf.math.digamma(0.5 * df)
            - 1.0 / df
            - log1p_term
            + (df + 1.0) * tf.square(z) / (df * (df + tf.square(z)))
        )
        d_x = dy * dz / scale
        d_scale = -dy * (1.0 + z * dz) / scale
        return (
            _unbroadcast(d_x, x),
            _unbroadcast(dy * d_df, df),
            _unbroadcast(-d_x, loc),
            _unbroadcast(d_scale, scale),
        )

    return out, grad


# ------------------------------------------------------------- special functions
def _asymptotic(x):
    """1 - 1/x^2 + 3/x^4 - 15/x^6 + ... of the lower tail of the normal."""
    r = 1.0 / tf.square(x)
    return 1.0 - r * (1.0 - 3.0 * r * (1.0 - 5.0 * r * (1.0 - 7.0 * r * (1.0 - 9.0 * r))))


@tf.custom_gradient
def log_ndtr(x):
    """Log of the standard normal distribution function, for all real `x`.

    Below -10 (float32) or -20 (float64) an asymptotic series takes over, in the
    value and in the derivative (the inverse Mills ratio).
    """
    cut = tf.constant(-20.0 if x.dtype == tf.float64 else -10.0, x.dtype)
    body = tf.maximum(x, cut)
    tail = tf.minimum(x, cut)
    cdf = 0.5 * tf.math.erfc(-body / math.sqrt(2.0))
    # above zero, log1p(-sf) keeps the digits
    sf = 0.5 * tf.math.erfc(tf.maximum(body, 0.0) / math.sqrt(2.0))
    log_body = tf.where(body > 0.0, tf.math.log1p(-sf), tf.math.log(cdf))
    series = _asymptotic(tail)
    log_tail = -0.5 * tf.square(tail) - tf.math.log(-tail) - HALF_LOG_2PI + tf.math.log(series)
    out = tf.where(x < cut, log_tail, log_body)

    def grad(dy):
        ratio_body = tf.exp(-0.5 * tf.square(body) - HALF_LOG_2PI) / cdf
        ratio_tail = -tail / series
        return dy * tf.where(x < cut, ratio_tail, ratio_body)

    return out, grad


def probit_log_likelihood(latent, labels):
    """Sum of log Phi(+-latent) over observations, labels in {0, 1}."""
    sign = 2.0 * tf.cast(labels, latent.dtype) - 1.0
    return tf.reduce_sum(log_ndtr(sign * latent))


# ------------------------------------------------------------------------- flows
@tf.custom_gradient
def planar_flow(z, params):
    r"""One planar layer of a normalizing flow [1]_.

    Parameters
    ----------
    z : Tensor, shape (n, d)
    params : dict
        ``u`` and ``w`` of shape (d,), ``b`` of shape (). Needs ``u @ w > -1``.

    Returns
    -------
    z_new : Tensor, shape (n, d)
        ``z + u * tanh(z @ w + b)``
    log_det : Tensor, shape (n,)
        ``log(1 + (1 - tanh^2) * (u @ w))``
    """
    u, w, b = params["u"], params["w"], params["b"]
    t = tf.tanh(tf.linalg.matvec(z, w) + b)
    h = 1.0 - tf.square(t)
    uw = tf.reduce_sum(u * w)
    det = 1.0 + h * uw
    z_new = z + t[:, None] * u

    def grad(d_z, d_log_det):
        ratio = d_log_det / det
        d_act = tf.linalg.matvec(d_z, u) * h - 2.0 * t * uw * ratio
        shared = tf.reduce_sum(ratio * h)
        d_u = tf.linalg.matvec(d_z, t, transpose_a=True) + shared * w
        d_w = tf.linalg.matvec(z, d_act, transpose_a=True) + shared * u
        d_params = {"b": tf.reduce_sum(d_act), "u": d_u, "w": d_w}
        return d_z + d_act[:, None] * w, d_params

    return (z_new, tf.math.log(det)), grad


class PlanarStack(tf.Module):
    def __init__(self, dim, depth, seed=0, dtype=tf.float64):
        super().__init__()
        rng = np.random.default_rng(seed)
        self.layers = [
            {
                "u": tf.Variable(0.3 * rng.normal(size=dim), dtype=dtype),
                "w": tf.Variable(0.3 * rng.normal(size=dim), dtype=dtype),
                "b": tf.Variable(0.0, dtype=dtype),
            }
            for _ in range(depth)
        ]

    def __call__(self, z):
        total = tf.zeros([z.shape[0]], z.dtype)
        for layer in self.layers:
            values = {k: tf.convert_to_tensor(v) for k, v in layer.items()}
            z, log_det = planar_flow(z, values)
            total += log_det
        return z, total


# ---------------------------------------------------------------- linear algebra
@tf.RegisterGradient("JacobianInverse")
def _jacobian_inverse_grad(op, d_inv):
    """Adjoint of C = A^{-1}, see section 2.2.3 of [2]_, from the stored inverse."""
    inv = op.outputs[0]
    return -tf.matmul(inv, tf.matmul(d_inv, inv))


@tf.function
def invert_jacobian(jac):
    """Inverse of a batch of (general, square) element Jacobians (..., d, d)."""
    graph = tf.compat.v1.get_default_graph()
    with graph.gradient_override_map({"MatrixInverse": "JacobianInverse"}):
        return tf.linalg.inv(jac)


def physical_gradients(jac, local_grads):
    """Map reference-element gradients (e, k, d) to physical ones."""
    return tf.einsum("eij,eki->ekj", invert_jacobian(jac), local_grads)


# --------------------------------------------------------------------------- ode
def make_odeint(rhs, grid):
    """Explicit-midpoint integrator of ``y' = rhs(t, y, params)`` on a fixed grid.

    Parameters
    ----------
    rhs : callable
        ``rhs(t, y, params) -> dy`` with `params` a dict of tensors.
    grid : array_like, shape (n_times,)
        Increasing times, need not be equidistant.

    Returns
    -------
    callable
        ``solve(y0, params) -> trajectory`` of shape ``(n_times,) + y0.shape``. Its
        gradient is the exact adjoint of the discrete scheme; only the trajectory
        is stored, the stages are formed again on the way back.
    """
    grid = [float(t) for t in grid]
    steps = [b - a for a, b in zip(grid[:-1], grid[1:])]

    def advance(t, dt, y, params):
        mid = y + (0.5 * dt) * rhs(t, y, params)
        return y + dt * rhs(t + 0.5 * dt, mid, params)

    @tf.custom_gradient
    def solve(y0, params):
        states = [y0]
        for t, dt in zip(grid[:-1], steps):
            states.append(advance(t, dt, states[-1], params))

        def grad(d_traj):
            lam = d_traj[-1]
            d_params = {k: tf.zeros_like(v) for k, v in params.items()}
            for i in reversed(range(len(steps))):
                with tf.GradientTape() as tape:
                    tape.watch([states[i], params])
                    nxt = advance(grid[i], steps[i], states[i], params)
                d_y, d_p = tape.gradient(
                    nxt, [states[i], params], output_gradients=lam,
                    unconnected_gradients=tf.UnconnectedGradients.ZERO)
                lam = d_traj[i] + d_y
                d_params = {k: d_params[k] + d_p[k] for k in params}
            return lam, d_params

        return tf.stack(states), grad

    return solve


def lotka_volterra(t, y, params):
    del t
    prey, pred = y[..., 0], y[..., 1]
    return tf.stack(
        [
            params["alpha"] * prey - params["beta"] * prey * pred,
            params["delta"] * prey * pred - params["gamma"] * pred,
        ],
        axis=-1,
    )
