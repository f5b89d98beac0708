"""Likelihoods and range estimates for GPS-collar tracks of animals."""

import numpy as np
import tensorflow as tf


def make_choice_nll(stratum, num_strata, uses, reduce=None):
    """Conditional logit of a step-selection analysis.

    :param stratum: int table, the choice set that each candidate step is in; a set may have no row at all
    :param num_strata: how many choice sets there are
    :param uses: int table, how many times each candidate was taken (several per set allowed, or none)
    :param reduce: ``None`` for one value per set, ``"mean"`` for the mean over the sets that hold a use
    :returns: function of the selection coefficients [K], covariates [N, K] and log availabilities [N]
    """
    stratum = tf.constant(np.asarray(stratum, np.int32))
    uses = np.asarray(uses)

    @tf.custom_gradient
    def choice_nll(coef, covariates, log_avail):
        c = tf.cast(uses, coef.dtype)
        eta = tf.linalg.matvec(covariates, coef) + log_avail
        top = tf.math.unsorted_segment_max(eta, stratum, num_strata)
        shifted = eta - tf.gather(top, stratum)
        e = tf.exp(shifted)
        z = tf.math.unsorted_segment_sum(e, stratum, num_strata)
        n = tf.math.unsorted_segment_sum(c, stratum, num_strata)
        picked = tf.math.unsorted_segment_sum(c * shifted, stratum, num_strata)
        log_z = tf.math.log(tf.where(z > 0, z, tf.ones_like(z)))
        nll = n * log_z - picked
        live = tf.reduce_sum(tf.cast(n > 0, coef.dtype))
        out = nll if reduce is None else tf.math.divide_no_nan(tf.reduce_sum(nll), live)

        def grad(dy):
            if reduce is None:
                per_set = dy
            else:
                per_set = tf.math.divide_no_nan(dy, live) * tf.ones_like(nll)
            prob = e / tf.gather(z, stratum)
            d_eta = tf.gather(per_set, stratum) * (tf.gather(n, stratum) * prob - c)
            d_coef = tf.linalg.matvec(covariates, d_eta, transpose_a=True)
            return d_coef, d_eta[:, None] * coef, d_eta

        return out, grad

    return choice_nll


def make_bridge_loglik(times, every=1):
    """Brownian bridge log-likelihood of fixes left out between their neighbours.

    Parameters
    ----------
    times : array (B, N)
        Increasing fix times of each track, held constant.
    every : int
        1 leaves out each interior fix in turn; 2 only those at odd positions,
        as Horne and others do, so that the bridges do not overlap.

    Returns
    -------
    callable
        ``f(xy, mobility, error_var)`` with shapes (B, N, 2), (B,), (B, N),
        giving (B,) log-likelihoods; ``mobility`` is the Brownian motion
        variance per unit of time, ``error_var`` that of each fix's location.
    """
    times = np.asarray(times)
    n = times.shape[1]
    mid = np.arange(1, n - 1, every)
    before, after = mid - 1, mid + 1
    gap = times[:, after] - times[:, before]
    frac = (times[:, mid] - times[:, before]) / gap

    def spread(values, index):
        # add columns of values (B, m, ...) to their places on the track
        rolled = tf.einsum("bm...->mb...", values)
        placed = tf.math.unsorted_segment_sum(rolled, tf.constant(index, tf.int32), n)
        return tf.einsum("nb...->bn...", placed)

    @tf.custom_gradient
    def bridge_loglik(xy, mobility, error_var):
        a = tf.cast(frac, xy.dtype)
        window = tf.cast(gap, xy.dtype) * a * (1 - a)
        first, last = tf.gather(xy, before, axis=1), tf.gather(xy, after, axis=1)
        mean = first + a[..., None] * (last - first)
        var = (
            window * mobility[:, None]
            + tf.square(1 - a) * tf.gather(error_var, before, axis=1)
            + tf.square(a) * tf.gather(error_var, after, axis=1)
        )
        off = tf.gather(xy, mid, axis=1) - mean
        dist2 = tf.reduce_sum(tf.square(off), axis=-1)
        out = -tf.reduce_sum(tf.math.log(2 * np.pi * var) + dist2 / (2 * var), axis=1)

        def grad(dy):
            dy = dy[:, None]
            d_var = dy * (dist2 / (2 * var) - 1) / var
            d_off = -(dy / var)[..., None] * off
            d_first = -a[..., None] * d_off
            d_last = -(1 - a)[..., None] * d_off
            d_xy = spread(d_off, mid) + spread(d_first, before) + spread(d_last, after)
            d_error = spread(d_var * tf.square(1 - a), before)
            d_error += spread(d_var * tf.square(a), after)
            return d_xy, tf.reduce_sum(d_var * window, axis=1), d_error

        return out, grad

    return bridge_loglik


def make_range_density(cells, barrier=None):
    """Kernel range estimate over a raster, summing to one.

    Cells of the raster [G, 2] flagged in ``barrier`` (lakes, roads) get nothing; the rest shares
    the whole mass. The function takes ``fixes`` [B, N, 2], ``log_weight`` [B, N], the log of the
    bandwidth (scalar, [2] for both axes, or [B, 1] or [B, 2] for each animal) and a bool ``valid`` [B, N].
    An animal without a valid fix has an all-zero row.
    """
    cells = np.asarray(cells)
    open_cell = np.ones(len(cells), bool) if barrier is None else ~np.asarray(barrier, bool)

    @tf.custom_gradient
    def range_density(fixes, log_weight, log_bandwidth, valid):
        grid = tf.cast(cells, fixes.dtype)
        h = tf.exp(log_bandwidth) * tf.ones_like(fixes[:, 0, :])  # [B, 2]
        z = (grid[None, :, None, :] - fixes[:, None, :, :]) / h[:, None, None, :]
        logit = log_weight[:, None, :] - 0.5 * tf.reduce_sum(tf.square(z), axis=-1)
        keep = tf.logical_and(valid[:, None, :], tf.constant(open_cell)[None, :, None])
        low = tf.fill(tf.shape(logit), tf.constant(-1e30, logit.dtype))
        top = tf.reduce_max(tf.where(keep, logit, low), axis=[1, 2], keepdims=True)
        zero = tf.zeros_like(logit)
        e = tf.where(keep, tf.exp(tf.where(keep, logit - top, zero)), zero)
        part = tf.math.divide_no_nan(e, tf.reduce_sum(e, axis=[1, 2], keepdims=True))
        density = tf.reduce_sum(part, axis=2)

        def grad(dy):
            level = tf.reduce_sum(dy * density, axis=1)
            d_logit = part * (dy - level[:, None])[:, :, None]
            d_log_weight = tf.reduce_sum(d_logit, axis=1)
            d_fixes = tf.reduce_sum(d_logit[..., None] * z, axis=1) / h[:, None, :]
            d_log_h = tf.reduce_sum(d_logit[..., None] * tf.square(z), axis=[1, 2])
            shape = log_bandwidth.shape
            if len(shape) < 2:
                d_log_h = tf.reduce_sum(d_log_h, axis=0)
            if len(shape) == 0 or shape[-1] == 1:
                d_log_h = tf.reduce_sum(d_log_h, axis=-1, keepdims=len(shape) > 0)
            if len(shape) == 2 and shape[0] == 1:
                d_log_h = tf.reduce_sum(d_log_h, axis=0, keepdims=True)
            return d_fixes, d_log_weight, d_log_h, None

        return density, grad

    return range_density


class TrackModel(tf.Module):
    """Mobility of a herd, fitted on its tracks."""

    def __init__(self, times, error_var, every=1):
        super().__init__()
        self.error_var = tf.constant(error_var)
        self.log_mobility = tf.Variable(tf.zeros(len(times), self.error_var.dtype))
        self._loglik = make_bridge_loglik(times, every)

    def loss(self, xy):
        return -tf.reduce_sum(self._loglik(xy, tf.exp(self.log_mobility), self.error_var))
