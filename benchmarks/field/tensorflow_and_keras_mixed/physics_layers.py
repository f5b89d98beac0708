"""Layers for physics-informed training and state estimation."""
import numpy as np
import tensorflow as tf


# --------------------------------------------------------------------------- PDE
@tf.custom_gradient
def diffusion_residual(u, kappa, dx):
    """div(kappa grad u) on a 1-D finite volume grid with insulated ends.

    Args:
        u: [B, N] temperatures at cell centres.
        kappa: [N] cell conductivities (> 0); faces take the harmonic mean of
            the two adjacent cells, so layered media are handled.
        dx: scalar tensor, cell width.

    Returns:
        [B, N]
    """
    left, right = kappa[:-1], kappa[1:]
    face = 2.0 * left * right / (left + right)
    jump = u[:, 1:] - u[:, :-1]
    flux = face * jump
    res = (tf.pad(flux, [[0, 0], [0, 1]]) - tf.pad(flux, [[0, 0], [1, 0]])) / dx**2

    def grad(g):
        d_flux = (g[:, :-1] - g[:, 1:]) / dx**2
        d_jump = d_flux * face
        d_u = tf.pad(d_jump, [[0, 0], [1, 0]]) - tf.pad(d_jump, [[0, 0], [0, 1]])
        d_face = tf.reduce_sum(d_flux * jump, axis=0)
        d_kappa = 0.5 * (tf.pad(d_face, [[0, 1]]) + tf.pad(d_face, [[1, 0]]))
        d_dx = -2.0 * tf.reduce_sum(g * res) / dx
        return d_u, d_kappa, d_dx

    return res, grad


def _bands(velocity, nu):
    n = velocity.shape[0]
    lower = -(nu + 0.5 * velocity)[1:]
    upper = -(nu - 0.5 * velocity)[:-1]
    diag = (1.0 + 2.0 * nu) * tf.ones([n], velocity.dtype)
    zero = tf.zeros([1], velocity.dtype)
    return tf.stack([tf.concat([upper, zero], 0), diag, tf.concat([zero, lower], 0)])


@tf.custom_gradient
def implicit_advection_step(u, velocity, nu):
    """One backward Euler step, u [N], velocity [N] (CFL units), nu scalar (CFL units)."""
    bands = _bands(velocity, nu)
    new = tf.linalg.tridiagonal_solve(bands, u[:, None])[:, 0]

    def grad(g):
        upper, diag, lower = tf.unstack(bands)
        zero = tf.zeros([1], g.dtype)
        adjoint = tf.stack([tf.concat([lower[1:], zero], 0), diag,
                            tf.concat([zero, upper[:-1]], 0)])
        lam = tf.linalg.tridiagonal_solve(adjoint, g[:, None])[:, 0]
        west = tf.concat([zero, new[:-1]], 0)
        east = tf.concat([new[1:], zero], 0)
        d_velocity = 0.5 * lam * (west - east)
        d_nu = -tf.reduce_sum(lam * (2.0 * new - west - east))
        return lam, d_velocity, d_nu

    return new, grad


class SineLayer(tf.Module):
    """SIREN layer, sin(omega_0 (x W + b))."""

    def __init__(self, fan_in, units, omega_0=30.0, dtype=tf.float32, seed=0, name=None):
        super().__init__(name=name)
        bound = np.sqrt(6.0 / fan_in) / omega_0
        rng = np.random.default_rng(seed)
        self.omega_0 = omega_0
        self.w = tf.Variable(rng.uniform(-bound, bound, (fan_in, units)), dtype=dtype)
        self.b = tf.Variable(rng.uniform(-bound, bound, (units,)), dtype=dtype)

    def __call__(self, x):
        omega = self.omega_0

        @tf.custom_gradient
        def sine(inp):
            arg = omega * (tf.matmul(inp, self.w) + self.b)

            def grad(dy, variables=None):
                d_pre = dy * tf.cos(arg)
                by_ref = {
                    self.w.ref(): omega * tf.matmul(inp, d_pre, transpose_a=True),
                    self.b.ref(): tf.reduce_sum(d_pre, axis=0),
                }
                dx = omega * tf.matmul(d_pre, self.w, transpose_b=True)
                return dx, [by_ref[v.ref()] for v in variables]

            return tf.sin(arg), grad

        return sine(x)


class FlipoutFreeDense(tf.Module):
    """Dense layer with a factorised Gaussian posterior, one weight draw per call."""

    def __init__(self, fan_in, units, dtype=tf.float32, name=None):
        super().__init__(name=name)
        rng = np.random.default_rng(11)
        self.loc = tf.Variable(0.3 * rng.standard_normal((fan_in, units)), dtype=dtype)
        self.rho = tf.Variable(rng.standard_normal((fan_in, units)) - 1.0, dtype=dtype)

    def __call__(self, x, noise):
        """x: [B, fan_in], noise: [fan_in, units] standard normal."""

        @tf.custom_gradient
        def sample_dense(inputs, eps):
            sigma = tf.nn.softplus(self.rho)
            kernel = self.loc + sigma * eps

            def grad(dy, variables=None):
                d_kernel = tf.matmul(inputs, dy, transpose_a=True)
                d_rho = d_kernel * eps * tf.sigmoid(self.rho)
                grads = []
                for v in variables:
                    grads.append(d_kernel if v is self.loc else d_rho)
                return (tf.matmul(dy, kernel, transpose_b=True), d_kernel * sigma), grads

            return tf.matmul(inputs, kernel), grad

        return sample_dense(x, noise)


# --------------------------------------------------------------------- geometry
@tf.custom_gradient
def rotate(q, v):
    """Rotate vectors v [..., 3] by quaternions q [..., 4] (w, x, y, z), any length > 0."""
    norm = tf.norm(q, axis=-1, keepdims=True)
    n = q / norm
    w, r = n[..., :1], n[..., 1:]
    t = 2.0 * tf.linalg.cross(r, v)
    out = v + w * t + tf.linalg.cross(r, t)

    def grad(g):
        d_t = w * g + tf.linalg.cross(g, r)
        d_w = tf.reduce_sum(g * t, axis=-1, keepdims=True)
        d_r = tf.linalg.cross(t, g) + 2.0 * tf.linalg.cross(v, d_t)
        d_v = g + 2.0 * tf.linalg.cross(d_t, r)
        d_n = tf.concat([d_w, d_r], axis=-1)
        d_q = (d_n - n * tf.reduce_sum(n * d_n, axis=-1, keepdims=True)) / norm
        return d_q, d_v

    return out, grad


def _sum_to(x, shape):
    lead = len(x.shape) - len(shape)
    x = tf.reduce_sum(x, axis=list(range(lead))) if lead else x
    axes = [i for i, s in enumerate(shape) if s == 1 and x.shape[i] != 1]
    return tf.reduce_sum(x, axis=axes, keepdims=True) if axes else x


@tf.custom_gradient
def von_mises_log_prob(angle, mean, concentration):
    """log density on the circle; the three arguments broadcast, concentration > 0."""
    delta = angle - mean
    log_z = np.log(2 * np.pi) + tf.math.log(tf.math.bessel_i0e(concentration)) + concentration
    out = concentration * tf.cos(delta) - log_z

    def grad(g):
        ratio = tf.math.bessel_i1e(concentration) / tf.math.bessel_i0e(concentration)
        d_angle = -g * concentration * tf.sin(delta)
        d_conc = g * (tf.cos(delta) - ratio)
        return (_sum_to(d_angle, angle.shape), _sum_to(-d_angle, mean.shape),
                _sum_to(d_conc, concentration.shape))

    return out, grad


@tf.RegisterGradient("BearingAtan2")
def _bearing_grad(op, grad):
    y, x = op.inputs
    d = grad / (x * x + y * y)
    return _sum_to(x * d, y.shape), _sum_to(-y * d, x.shape)


@tf.RegisterGradient("PathCumsum")
def _path_cumsum_grad(op, grad):
    exclusive = op.get_attr("exclusive")
    return tf.cumsum(grad, op.inputs[1], exclusive=exclusive, reverse=True), None


@tf.function
def bearings(landmarks, position):
    """Angles from position [2] or [K, 2] to landmarks [K, 2]."""
    g = tf.compat.v1.get_default_graph()
    with g.gradient_override_map({"Atan2": "BearingAtan2"}):
        d = landmarks - position
        return tf.atan2(d[..., 1], d[..., 0])


@tf.function
def optical_depth(extinction, dz, from_top=True):
    """Optical depth above (from_top) or below every layer; extinction [..., L], L upwards.

    Half of the own layer is included.
    """
    tau = extinction * dz
    g = tf.compat.v1.get_default_graph()
    with g.gradient_override_map({"Cumsum": "PathCumsum"}):
        return tf.cumsum(tau, axis=-1, exclusive=True, reverse=from_top) + 0.5 * tau
