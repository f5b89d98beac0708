"""Eccentric anomaly from Kepler's equation E - e sin E = M, by Newton."""
import tensorflow as tf


@tf.custom_gradient
def kepler_solve(mean_anomaly, ecc):
    """mean_anomaly, ecc: (n,) with 0 <= ecc < 1. Returns E: (n,)."""
    E = mean_anomaly + ecc * tf.sin(mean_anomaly)
    for _ in range(12):
        E = E - (E - ecc * tf.sin(E) - mean_anomaly) / (1.0 - ecc * tf.cos(E))

    def grad(g):
        g_m = g / (1.0 - ecc * tf.cos(E))
        g_e = g_m * tf.cos(E)
        return g_m, g_e

    return E, grad
