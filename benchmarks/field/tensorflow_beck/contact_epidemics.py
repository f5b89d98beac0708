"""Age-structured transmission and reporting terms for the regional model."""

import tensorflow as tf


def _reduce_to(x, like):
    """Sum ``x`` down to the (broadcast-compatible) shape of ``like``."""
    target = tf.shape(like)
    axes, _ = tf.raw_ops.BroadcastGradientArgs(s0=target, s1=tf.shape(x))
    return tf.reshape(tf.reduce_sum(x, axes), target)


def polymod_like(num_groups, assortativity=0.6, mean_contacts=12.0):
    """Toy contact matrix, row = participant's group, column = contact's group."""
    eye = tf.eye(num_groups)
    return mean_contacts * (assortativity * eye + (1.0 - assortativity) / num_groups)


@tf.custom_gradient
def infection_pressure(contacts, infectious, population):
    """Pressure on each age group; contacts [A, A], infectious [B, A], population [A]."""
    prevalence = infectious / population
    pressure = tf.einsum("ac,bc->ba", contacts, prevalence)

    def grad(upstream):
        d_contacts = tf.einsum("ba,bc->ac", upstream, prevalence)
        d_prevalence = tf.matmul(upstream, contacts, transpose_b=True)
        d_infectious = d_prevalence / population
        d_population = -tf.reduce_sum(d_infectious * prevalence, axis=0)
        return d_contacts, d_infectious, d_population

    return pressure, grad


def delay_convolved_reports(onsets, delay_pmf, weekday_effect, weekday):
    weekday = tf.convert_to_tensor(weekday, tf.int32)
    horizon = onsets.shape[-1]
    lags = delay_pmf.shape[0]

    def lagged(x, d):
        return tf.pad(x[:, : horizon - d], [[0, 0], [d, 0]])

    def advanced(x, d):
        return tf.pad(x[:, d:], [[0, 0], [0, d]])

    @tf.custom_gradient
    def reports(onsets, delay_pmf, weekday_effect):
        used = min(lags, horizon)
        base = tf.add_n([delay_pmf[d] * lagged(onsets, d) for d in range(used)])
        factor = tf.exp(tf.gather(weekday_effect, weekday))
        out = base * factor

        def grad(upstream):
            d_base = upstream * factor
            d_onsets = tf.add_n([delay_pmf[d] * advanced(d_base, d) for d in range(used)])
            d_pmf = tf.stack([tf.reduce_sum(d_base * lagged(onsets, d)) for d in range(used)])
            d_pmf = tf.pad(d_pmf, [[0, lags - used]])
            per_day = tf.reduce_sum(upstream * out, axis=0)
            d_effect = tf.math.unsorted_segment_sum(per_day, weekday, tf.shape(weekday_effect)[0])
            return d_onsets, d_pmf, d_effect

        return out, grad

    return reports(onsets, delay_pmf, weekday_effect)


@tf.custom_gradient
def final_size(r0, susceptible, imported):
    """Attack fraction of an SIR epidemic by its final-size equation.

    Solves ``z = s * (1 - exp(-r0 * (z + e)))`` for the largest root in [0, s].

    Args:
      r0: basic reproduction number, > 0.
      susceptible: fraction ``s`` susceptible at the start, in (0, 1].
      imported: seeded infections ``e`` >= 0, as a fraction of the population.
        With ``e == 0`` the point ``r0 * s == 1`` is a bifurcation; there the
        result has no derivative.

    The three arguments broadcast against each other; the result has the
    broadcast shape. The gradient is that of the implicit function.
    """
    z = susceptible + tf.zeros_like(r0 + imported)
    for _ in range(60):
        decay = susceptible * tf.exp(-r0 * (z + imported))
        z = z - (z - susceptible + decay) / (1.0 - r0 * decay)
        z = tf.clip_by_value(z, tf.zeros_like(z), susceptible + tf.zeros_like(z))

    def grad(upstream):
        escaped = susceptible - z
        adjoint = upstream / (1.0 - r0 * escaped)
        d_r0 = adjoint * escaped * (z + imported)
        d_susceptible = -adjoint * tf.math.expm1(-r0 * (z + imported))
        d_imported = adjoint * escaped * r0
        return (
            _reduce_to(d_r0, r0),
            _reduce_to(d_susceptible, susceptible),
            _reduce_to(d_imported, imported),
        )

    return z, grad


class SeededOutbreak(tf.Module):
    def __init__(self, log_r0, imported=1e-4, name=None):
        super().__init__(name=name)
        self.log_r0 = tf.Variable(log_r0)
        self.imported = tf.constant(imported, self.log_r0.dtype)

    def __call__(self, susceptible):
        return final_size(tf.exp(self.log_r0), susceptible, self.imported)
