"""Differentiable layers for end-to-end portfolio and curve calibration."""

from typing import Callable

import tensorflow as tf

Tensor = tf.Tensor


@tf.custom_gradient
def risk_budget_weights(cov: Tensor, budgets: Tensor):
    r"""Long-only portfolio in which asset :math:`i` carries the share :math:`b_i` of the risk.

    Solves :math:`\Sigma x = b / x` for :math:`x > 0` by damped Newton steps (the problem is convex,
    the steps keep x positive) and returns :math:`w = x / \sum x`.  The gradient follows from the
    implicit function theorem, nothing of the iteration is stored.

    Args:
        cov: covariance matrices, shape `(..., n, n)`, positive definite.  The symmetric part is used.
        budgets: positive risk budgets, shape `(n,)` shared by the batch or `(..., n)`.  They need
            not sum to one.

    Returns:
        Weights of shape `(..., n)`, summing to one.
    """
    sigma = 0.5 * (cov + tf.linalg.matrix_transpose(cov))
    b = tf.broadcast_to(budgets, tf.shape(cov)[:-1])
    x = tf.sqrt(b / tf.linalg.diag_part(sigma))
    for _ in range(40):
        residual = tf.linalg.matvec(sigma, x) - b / x
        hessian = tf.linalg.set_diag(sigma, tf.linalg.diag_part(sigma) + b / x**2)
        step = tf.linalg.solve(hessian, -residual[..., None])[..., 0]
        relative = tf.reduce_max(tf.abs(step / x), axis=-1, keepdims=True)
        x = x + step / (1.0 + relative)
    size = tf.reduce_sum(x, axis=-1, keepdims=True)
    w = x / size

    def grad(upstream):
        d_x = (upstream - tf.reduce_sum(upstream * w, axis=-1, keepdims=True)) / size
        hessian = tf.linalg.set_diag(sigma, tf.linalg.diag_part(sigma) + b / x**2)
        adjoint = tf.linalg.solve(hessian, d_x[..., None])[..., 0]
        outer = adjoint[..., :, None] * x[..., None, :]
        d_cov = -0.5 * (outer + tf.linalg.matrix_transpose(outer))
        d_b = adjoint / x
        extra = d_b.shape.rank - budgets.shape.rank
        d_b = tf.reduce_sum(d_b, axis=list(range(extra)))
        return d_cov, d_b

    return w, grad


def make_par_rates(payments_per_year: int = 1) -> Callable[[Tensor], Tensor]:
    """Par swap rates from a strip of discount factors.

    Args:
        payments_per_year: frequency of the fixed leg (1, 2, 4 or 12).  The factors that are given to
            the returned function lie on its payment dates.

    Returns:
        `par_rates(discounts)`: maps discount factors `(..., n)` at the payment dates to the `n` par
        rates of the swaps that end at each of them, `S_n = (1 - D_n) / sum_{i <= n} tau D_i`.
    """
    if payments_per_year not in (1, 2, 4, 12):
        raise ValueError("payments_per_year must be 1, 2, 4 or 12")
    tau = 1.0 / payments_per_year

    @tf.custom_gradient
    def par_rates(discounts):
        annuity = tau * tf.cumsum(discounts, axis=-1)
        rates = (1.0 - discounts) / annuity

        def grad(upstream):
            scaled = upstream / annuity
            # a factor is in the annuity of its own swap and of all longer ones
            longer = tf.cumsum(scaled * rates, axis=-1, reverse=True)
            return -scaled - longer

        return rates, grad

    return par_rates


def calibrate_forwards(quotes: Tensor, payments_per_year: int = 1, steps: int = 300, rate: float = 0.05):
    """Piecewise constant forwards that reprice a strip of par quotes (plain Adam)."""
    par_rates = make_par_rates(payments_per_year)
    forwards = tf.Variable(tf.zeros_like(quotes) + tf.reduce_mean(quotes))
    optimizer = tf.keras.optimizers.Adam(rate)
    for _ in range(steps):
        with tf.GradientTape() as tape:
            discounts = tf.exp(-tf.cumsum(forwards, axis=-1) / payments_per_year)
            loss = tf.reduce_sum((par_rates(discounts) - quotes) ** 2)
        optimizer.apply_gradients([(tape.gradient(loss, forwards), forwards)])
    return forwards
