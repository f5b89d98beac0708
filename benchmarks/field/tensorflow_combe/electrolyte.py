"""Electrode kinetics and mixing thermodynamics for the cell model."""

from __future__ import annotations

import tensorflow as tf

FARADAY = 96485.33212
GAS_CONSTANT = 8.314462618


def _sum_to_shape(value: tf.Tensor, shape: tf.Tensor) -> tf.Tensor:
    """Reduce a broadcast cotangent back to the shape of the operand."""
    _, axes = tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(value), s1=shape)
    return tf.reshape(tf.reduce_sum(value, axis=axes), shape)


@tf.custom_gradient
def butler_volmer_current(eta, exchange, alpha, temperature):
    r"""Butler-Volmer current density.

    .. math:: i = i_0 [\exp(\alpha f \eta) - \exp(-(1 - \alpha) f \eta)],
              \quad f = F / (R T)

    Both exponentials are kept for the backward pass, nothing is recomputed.

    Parameters
    ----------
    eta : tf.Tensor
        Overpotential in volt, any shape, either sign.
    exchange : tf.Tensor
        Exchange current density, positive.
    alpha : tf.Tensor
        Anodic transfer coefficient in (0, 1). The cathodic one is its complement.
    temperature : tf.Tensor
        Absolute temperature in kelvin.

    Returns
    -------
    tf.Tensor
        Current density, of the joint broadcast shape of the four arguments.

    Notes
    -----
    The arguments broadcast against each other; all four are differentiable.
    """
    f = FARADAY / (GAS_CONSTANT * temperature)
    anodic = tf.exp(alpha * f * eta)
    cathodic = tf.exp((alpha - 1.0) * f * eta)
    current = exchange * (anodic - cathodic)

    def grad(upstream):
        slope = alpha * anodic + (1.0 - alpha) * cathodic
        g_arg = upstream * exchange * slope  # w.r.t. f * eta
        g_eta = g_arg * f
        g_exchange = upstream * (anodic - cathodic)
        g_alpha = upstream * current * f * eta
        g_temperature = -g_arg * f * eta / temperature
        return (
            _sum_to_shape(g_eta, tf.shape(eta)),
            _sum_to_shape(g_exchange, tf.shape(exchange)),
            _sum_to_shape(g_alpha, tf.shape(alpha)),
            _sum_to_shape(g_temperature, tf.shape(temperature)),
        )

    return current, grad


def tafel_overpotential(current, exchange, alpha_a=0.5, alpha_c=0.5, temperature=298.15, iterations=60):
    """Overpotential (V) that drives ``current`` (same shape as ``exchange``); Newton, implicit gradient."""
    f = FARADAY / (GAS_CONSTANT * temperature)

    @tf.custom_gradient
    def solve(current, exchange):
        ratio = current / exchange
        # start on the asymptote of the dominating branch
        u = tf.where(
            ratio >= 0,
            tf.math.log1p(tf.abs(ratio)) / alpha_a,
            -tf.math.log1p(tf.abs(ratio)) / alpha_c,
        )
        for _ in range(iterations):
            fwd, bwd = tf.exp(alpha_a * u), tf.exp(-alpha_c * u)
            u -= (fwd - bwd - ratio) / (alpha_a * fwd + alpha_c * bwd)

        def grad(upstream):
            conductance = alpha_a * (tf.exp(alpha_a * u) + tf.exp(-alpha_c * u))
            g_ratio = upstream / (f * conductance)
            return g_ratio / exchange, -g_ratio * ratio / exchange

        return u / f, grad

    return solve(tf.convert_to_tensor(current), tf.convert_to_tensor(exchange))


@tf.custom_gradient
def flory_huggins_mixing(phi: tf.Tensor, lengths: tf.Tensor, chi: tf.Tensor):
    """Free energy of mixing per lattice site, in units of kT.

    ``sum_i phi_i / N_i log(phi_i) + 1/2 sum_ij chi_ij phi_i phi_j``

    Args:
        phi: Volume fractions ``(..., C)``, strictly positive. They are used as they
            are (no closure), so that the chemical potentials are the plain partials.
        lengths: Chain lengths ``(C,)``.
        chi: Interaction table ``(C, C)``. It need not be symmetric: fitted tables
            that list a pair in one order only can be given without being mirrored.

    Returns:
        Energies of shape ``(...)``.
    """
    log_phi = tf.math.log(phi)
    contact = tf.einsum("ij,...j->...i", chi, phi)
    energy = tf.reduce_sum(phi * log_phi / lengths + 0.5 * phi * contact, axis=-1)

    def grad(upstream):
        g = upstream[..., tf.newaxis]
        g_phi = g * ((log_phi + 1.0) / lengths + contact)
        batch = tf.range(tf.rank(phi) - 1)
        g_lengths = tf.reduce_sum(-g * phi * log_phi / tf.square(lengths), axis=batch)
        g_chi = 0.5 * tf.einsum("ni,nj->ij", _flat(g * phi), _flat(phi))
        return g_phi, g_lengths, g_chi

    return energy, grad


def _flat(x: tf.Tensor) -> tf.Tensor:
    return tf.reshape(x, [-1, tf.shape(x)[-1]])


def fit_exchange_current(eta, measured, alpha=0.5, temperature=298.15, steps=200, rate=0.05):
    """Fit log exchange current and transfer coefficient to a polarisation curve."""
    eta = tf.convert_to_tensor(eta)
    log_i0 = tf.Variable(tf.zeros([], eta.dtype))
    logit = tf.Variable(tf.constant(alpha, eta.dtype))
    logit.assign(tf.math.log(logit / (1 - logit)))
    temperature = tf.constant(temperature, eta.dtype)
    for _ in range(steps):
        with tf.GradientTape() as tape:
            model = butler_volmer_current(eta, tf.exp(log_i0), tf.sigmoid(logit), temperature)
            loss = tf.reduce_mean(tf.square(tf.asinh(model) - tf.asinh(measured)))
        for v, g in zip((log_i0, logit), tape.gradient(loss, (log_i0, logit))):
            v.assign_sub(rate * g)
    return tf.exp(log_i0), tf.sigmoid(logit)
