"""Differentiable association and agreement statistics.

The statistics in this module are used as training objectives and as
regularisers (decorrelation terms, spatial smoothness of residuals, ordinal
agreement).  They all reduce pairwise tables, for which reverse mode through
the plain TensorFlow expression keeps several ``n x n`` temporaries alive; the
gradients below are written out by hand and keep one or two.

References
----------
.. [1] P. A. P. Moran, "Notes on continuous stochastic phenomena",
   Biometrika 37 (1950).
.. [2] G. J. Szekely, M. L. Rizzo, N. K. Bakirov, "Measuring and testing
   dependence by correlation of distances", Ann. Statist. 35 (2007).
.. [3] J. Cohen, "Weighted kappa", Psychol. Bull. 70 (1968).
.. [4] J. R. Bray, J. T. Curtis, "An ordination of the upland forest
   communities of southern Wisconsin", Ecol. Monogr. 27 (1957).
"""

from __future__ import annotations

from typing import Callable, Optional, Tuple

import tensorflow as tf

__all__ = [
    "morans_i",
    "distance_covariance",
    "OrdinalAgreement",
    "bray_curtis",
    "weighted_bray_curtis",
    "row_standardise",
]


def row_standardise(w: tf.Tensor) -> tf.Tensor:
    """Divide every row of a contiguity matrix by its sum.

    Parameters
    ----------
    w : tf.Tensor, shape (n, n)
        Non-negative weights.  Rows without neighbours are left at zero.

    Returns
    -------
    tf.Tensor, shape (n, n)
    """
    return tf.math.divide_no_nan(w, tf.reduce_sum(w, axis=1, keepdims=True))


@tf.custom_gradient
def morans_i(x: tf.Tensor, w: tf.Tensor) -> Tuple[tf.Tensor, Callable]:
    r"""Moran's index of spatial autocorrelation.

    .. math::

        I = \frac{n}{\sum_{ij} w_{ij}}
            \frac{\sum_{ij} w_{ij} z_i z_j}{\sum_i z_i^2},
        \qquad z = x - \bar x

    Parameters
    ----------
    x : tf.Tensor, shape (..., n)
        Values at the sites.  Leading axes are independent fields over the
        same sites.
    w : tf.Tensor, shape (n, n)
        Spatial weights; ``w[i, j]`` is the influence of site ``j`` on site
        ``i``.  Any real matrix whose sum isn't zero will do: contiguity,
        inverse distance, k nearest neighbours, row-standardised or not.

    Returns
    -------
    tf.Tensor, shape (...)
        The index of each field.  Differentiable in both arguments.

    See Also
    --------
    row_standardise : the usual normalisation of ``w``.
    """
    n = tf.cast(tf.shape(x)[-1], x.dtype)
    z = x - tf.reduce_mean(x, axis=-1, keepdims=True)
    lag = tf.linalg.matmul(z[..., tf.newaxis, :], w, transpose_b=True)[..., 0, :]
    ss = tf.reduce_sum(z * z, axis=-1)
    s0 = tf.reduce_sum(w)
    index = n / s0 * tf.reduce_sum(z * lag, axis=-1) / ss

    def grad(upstream):
        scale = (upstream / ss)[..., tf.newaxis]
        dz = 2.0 * scale * (n / s0 * lag - index[..., tf.newaxis] * z)
        dx = dz - tf.reduce_mean(dz, axis=-1, keepdims=True)

        flat = tf.reshape(z, [-1, tf.shape(z)[-1]])
        coef = tf.reshape(scale, [-1, 1])
        dw = n / s0 * tf.linalg.matmul(coef * flat, flat, transpose_a=True)
        dw -= tf.reduce_sum(upstream * index) / s0
        return dx, dw

    return index, grad


def _pairwise(x: tf.Tensor) -> tf.Tensor:
    """Euclidean distances between the rows of `x`, zero on the diagonal."""
    diff = x[:, tf.newaxis, :] - x[tf.newaxis, :, :]
    return tf.norm(diff, axis=-1)


def _double_centre(d: tf.Tensor) -> tf.Tensor:
    return (
        d
        - tf.reduce_mean(d, axis=0, keepdims=True)
        - tf.reduce_mean(d, axis=1, keepdims=True)
        + tf.reduce_mean(d)
    )


def distance_covariance(
    x: tf.Tensor, y: tf.Tensor, exponent: float = 1.0
) -> tf.Tensor:
    r"""Squared sample distance covariance of two samples.

    Parameters
    ----------
    x : tf.Tensor, shape (n, p)
        First sample.
    y : tf.Tensor, shape (n, q)
        Second sample, paired with the first.  ``q`` need not equal ``p``.
    exponent : float, default 1.0
        Power :math:`\alpha` of the Euclidean distance, ``0 < exponent < 2``.

    Returns
    -------
    tf.Tensor, scalar
        :math:`\mathcal V_n^2 = n^{-2} \sum_{ij} A_{ij} B_{ij}`, with ``A`` and
        ``B`` the doubly centred tables of :math:`|x_i - x_j|^\alpha` and
        :math:`|y_i - y_j|^\alpha`.

    Notes
    -----
    Double centring is an orthogonal projection, hence
    :math:`\langle A, B\rangle = \langle a, B\rangle`: the cotangent of the raw
    table ``a`` is ``B`` itself and no centring is needed on the way back.
    Rows of a sample that coincide are a kink of the distance; the pair then
    contributes nothing to the gradient.

    Examples
    --------
    >>> x = tf.random.normal([64, 3])
    >>> float(distance_covariance(x, x ** 2)) > 0.0
    True
    """
    alpha = float(exponent)
    if not 0.0 < alpha < 2.0:
        raise ValueError(f"exponent must lie in (0, 2), got {exponent}")

    @tf.custom_gradient
    def dcov(x, y):
        rx, ry = _pairwise(x), _pairwise(y)
        big_a = _double_centre(rx**alpha)
        big_b = _double_centre(ry**alpha)
        value = tf.reduce_mean(big_a * big_b)
        n = tf.cast(tf.shape(x)[0], x.dtype)

        def pull(points, r, other):
            safe = tf.where(r > 0, r, tf.ones_like(r))
            k = tf.where(r > 0, alpha * safe ** (alpha - 2.0), tf.zeros_like(r)) * other
            return tf.reduce_sum(k, axis=1, keepdims=True) * points - tf.matmul(k, points)

        def grad(upstream):
            c = 2.0 * upstream / (n * n)
            return c * pull(x, rx, big_b), c * pull(y, ry, big_a)

        return value, grad

    return dcov(x, y)


class OrdinalAgreement:
    """Cohen's weighted kappa between labels and predicted probabilities.

    Parameters
    ----------
    num_classes : int
        Number ``K`` of ordered classes, at least 2.
    power : {1, 2}, default 2
        Penalty ``(|i - j| / (K - 1)) ** power``: 1 is the linear, 2 the
        quadratic kappa.

    Examples
    --------
    >>> metric = OrdinalAgreement(5)
    >>> loss = 1.0 - metric.kappa(probs, labels, tf.ones([batch]))
    """

    def __init__(self, num_classes: int, power: int = 2):
        if num_classes < 2:
            raise ValueError("need at least two classes")
        self.num_classes = num_classes
        self.power = power

    def penalty(self, dtype: tf.DType) -> tf.Tensor:
        """The ``(K, K)`` table of disagreement penalties."""
        k = tf.range(self.num_classes, dtype=dtype)
        gap = tf.abs(k[:, tf.newaxis] - k[tf.newaxis, :]) / (self.num_classes - 1)
        return gap**self.power

    @tf.custom_gradient
    def kappa(self, probs, labels, sample_weight):
        """Soft weighted kappa.

        Parameters
        ----------
        probs : tf.Tensor, shape (n, K)
            Predicted class probabilities.
        labels : tf.Tensor of int, shape (n,)
            Observed classes, ``0 <= labels < K``.
        sample_weight : tf.Tensor, shape (n,)
            Non-negative weight of each sample.

        Returns
        -------
        tf.Tensor, scalar
            ``1 - observed / expected`` disagreement.  Differentiable in
            `probs` and in `sample_weight`.
        """
        pen = self.penalty(probs.dtype)
        s = sample_weight
        total = tf.reduce_sum(s)
        cost = tf.reduce_sum(tf.gather(pen, labels) * probs, axis=1)
        hist_true = tf.math.unsorted_segment_sum(s, labels, self.num_classes)
        hist_pred = tf.linalg.matvec(probs, s, transpose_a=True)
        col = tf.linalg.matvec(pen, hist_true, transpose_a=True)
        observed = tf.reduce_sum(s * cost)
        expected = tf.reduce_sum(col * hist_pred) / total

        def grad(upstream):
            a = upstream / expected
            b = upstream * observed / tf.square(expected)
            dprobs = s[:, tf.newaxis] * (
                b / total * col[tf.newaxis, :] - a * tf.gather(pen, labels)
            )
            row = tf.gather(tf.linalg.matvec(pen, hist_pred), labels)
            dweight = b / total * (row + tf.linalg.matvec(probs, col) - expected) - a * cost
            return dprobs, None, dweight

        return 1.0 - observed / expected, grad


@tf.custom_gradient
def weighted_bray_curtis(x, y, weights):
    r"""Pairwise Bray-Curtis dissimilarity with species weights.

    .. math::

        d_{ij} = \frac{\sum_s w_s |x_{is} - y_{js}|}
                      {\sum_s w_s (x_{is} + y_{js})}

    Parameters
    ----------
    x : tf.Tensor, shape (n, s)
        Abundances at the first set of sites, non-negative.
    y : tf.Tensor, shape (m, s)
        Abundances at the second set of sites, non-negative.
    weights : tf.Tensor, shape (s,)
        Positive weight of each species.

    Returns
    -------
    tf.Tensor, shape (n, m)
        Dissimilarities in ``[0, 1]``.  Two empty sites are at distance 0.

    Notes
    -----
    Where two abundances are equal the subgradient 0 of ``|.|`` is used.
    """
    diff = x[:, tf.newaxis, :] - y[tf.newaxis, :, :]
    num = tf.reduce_sum(weights * tf.abs(diff), axis=-1)
    den = tf.linalg.matvec(x, weights)[:, tf.newaxis] + tf.linalg.matvec(y, weights)
    d = tf.math.divide_no_nan(num, den)

    def grad(upstream):
        g = tf.math.divide_no_nan(upstream, den)[..., tf.newaxis]
        signed = weights * tf.sign(diff)
        level = d[..., tf.newaxis]
        dx = tf.reduce_sum(g * (signed - level), axis=1)
        dy = tf.reduce_sum(g * (-signed - level), axis=0)
        both = x[:, tf.newaxis, :] + y[tf.newaxis, :, :]
        dweights = tf.reduce_sum(g * (tf.abs(diff) - level * both), axis=[0, 1])
        return dx, dy, dweights

    return d, grad


def bray_curtis(
    x: tf.Tensor, y: Optional[tf.Tensor] = None, weights: Optional[tf.Tensor] = None
) -> tf.Tensor:
    """Pairwise Bray-Curtis dissimilarity; see `weighted_bray_curtis`.

    Parameters
    ----------
    x : tf.Tensor, shape (n, s)
    y : tf.Tensor, shape (m, s), optional
        Defaults to `x`.
    weights : tf.Tensor, shape (s,), optional
        Defaults to ones.

    Returns
    -------
    tf.Tensor, shape (n, m)
    """
    y = x if y is None else y
    if weights is None:
        weights = tf.ones([tf.shape(x)[-1]], x.dtype)
    return weighted_bray_curtis(x, y, weights)
