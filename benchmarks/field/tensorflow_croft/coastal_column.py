"""Column and gauge operators of the shelf-sea assimilation prototype (TensorFlow)."""
import collections

import tensorflow as tf

GaugeNetwork = collections.namedtuple("GaugeNetwork", ["amplitude", "phase_lag"])

# degrees per mean solar hour: M2, S2, N2, K1, O1
CONSTITUENT_SPEED = (28.9841042, 30.0, 28.4397295, 15.0410686, 13.9430356)
_DEG = 0.017453292519943295


def _sum_like(value, ref):
    """Sums the leading and size-one axes along which `ref` was broadcast."""
    extra = value.shape.rank - ref.shape.rank
    if extra:
        value = tf.reduce_sum(value, axis=list(range(extra)))
    ones = [i for i, n in enumerate(ref.shape) if n == 1 and value.shape[i] != 1]
    return tf.reduce_sum(value, axis=ones, keepdims=True) if ones else value


@tf.custom_gradient
def underwater_light(surface, chlorophyll, thickness, k_water, k_chl):
    """Downwelling light at the middle of each layer, with self-shading.

    E[b, k] = surface[b] * exp(-sum_{j<k} K_j dz_j - K_k dz_k / 2),
    K = k_water + k_chl * chlorophyll.

    Args:
      surface: [B], light just below the surface.
      chlorophyll: [B, Z], surface layer first, mg m-3.
      thickness: [Z] (common grid), [1, Z] or [B, Z], layer thickness in metres.
      k_water, k_chl: scalars, attenuation of water (1/m) and of chlorophyll.

    Returns:
      [B, Z], in units of `surface`.
    """
    attenuation = k_water + k_chl * chlorophyll
    optical = attenuation * thickness
    transmitted = tf.exp(-tf.cumsum(optical, axis=1, exclusive=True) - 0.5 * optical)
    light = surface[:, None] * transmitted

    def grad(upstream):
        g = -upstream * light
        # layer j shades everything beneath it, and half of itself
        g_optical = tf.cumsum(g, axis=1, exclusive=True, reverse=True) + 0.5 * g
        g_att = g_optical * thickness
        return (
            tf.reduce_sum(upstream * transmitted, axis=1),
            g_att * k_chl,
            _sum_like(g_optical * attenuation, thickness),
            tf.reduce_sum(g_att),
            tf.reduce_sum(g_att * chlorophyll),
        )

    return light, grad


@tf.custom_gradient
def tide_height(amplitude, phase_lag, nodal, hours, year_index):
    """Heights [S, T] from amplitude/phase_lag [S, K], nodal factors [Y, K], hours [T] and the year row of each hour [T]."""
    speed = tf.constant(CONSTITUENT_SPEED, dtype=amplitude.dtype)[: amplitude.shape[-1]] * _DEG
    factor = tf.gather(nodal, year_index)                                   # [T, K]
    arg = (hours[:, None] * speed)[None] - phase_lag[:, None, :]            # [S, T, K]
    cosine, sine = tf.cos(arg), tf.sin(arg)
    height = tf.einsum("sk,tk,stk->st", amplitude, factor, cosine)

    def grad(dh):
        d_amp = tf.einsum("st,tk,stk->sk", dh, factor, cosine)
        d_lag = amplitude * tf.einsum("st,tk,stk->sk", dh, factor, sine)
        per_hour = tf.einsum("st,sk,stk->tk", dh, amplitude, cosine)
        d_nodal = tf.tensor_scatter_nd_update(tf.zeros_like(nodal), year_index[:, None], per_hour)
        d_hours = -tf.einsum("st,sk,tk,stk,k->t", dh, amplitude, factor, sine, speed)
        return d_amp, d_lag, d_nodal, d_hours, None

    return height, grad


def predict(network, nodal, hours, year_index):
    return tide_height(network.amplitude, network.phase_lag, nodal, hours, year_index)


def make_steric_anomaly(thermal=2.1e-4, cabbeling=4.5e-6, haline=7.6e-4, depth_mean=False):
    def _expansion(t, s):
        return (thermal + cabbeling * t) * t - haline * s

    @tf.custom_gradient
    def steric_anomaly(temp, salt, dz, wet):
        w = tf.cast(wet, temp.dtype)
        t = tf.where(wet, temp, tf.zeros_like(temp))
        s = tf.where(wet, salt, tf.zeros_like(salt))
        strain = _expansion(t, s)
        column = tf.reduce_sum(w * dz * strain, axis=-1)
        depth = tf.reduce_sum(w * dz, axis=-1)
        norm = tf.where(depth > 0, depth, tf.ones_like(depth)) if depth_mean else tf.ones_like(depth)
        out = column / norm

        def grad(up):
            scaled = (up / norm)[..., None] * w
            g_strain = scaled * dz
            g_dz = scaled * (strain - out[..., None]) if depth_mean else scaled * strain
            return g_strain * (thermal + 2.0 * cabbeling * t), -haline * g_strain, _sum_like(g_dz, dz), None

        return out, grad

    return steric_anomaly


class StericHeight(tf.keras.layers.Layer):
    def __init__(self, dz, **options):
        super().__init__()
        self._dz = tf.convert_to_tensor(dz)
        self._rule = make_steric_anomaly(**options)

    def call(self, temp, salt, wet):
        return self._rule(temp, salt, tf.cast(self._dz, temp.dtype), wet)
