import tensorflow as tf

DEG = 0.017453292519943295


@tf.custom_gradient
def centre_of_gravity(mass, position, aboard):
    """Centres of gravity [L, 3] of L loading conditions: mass [L, N], position [N, 3], aboard bool [L, N]."""
    carried = tf.where(aboard, mass, tf.zeros_like(mass))
    total = tf.reduce_sum(carried, axis=1, keepdims=True)
    centre = tf.math.divide_no_nan(carried @ position, total)

    def grad(g):
        per_mass = tf.math.divide_no_nan(g, total)
        lever = tf.matmul(per_mass, position, transpose_b=True)
        own = tf.reduce_sum(per_mass * centre, axis=1, keepdims=True)
        d_mass = tf.where(aboard, lever - own, tf.zeros_like(mass))
        return d_mass, tf.matmul(carried, per_mass, transpose_a=True), None

    return centre, grad


def slack_tanks(liquid_of_tank):
    """Free-surface corrections for tanks that hold the liquids `liquid_of_tank` (int [N])."""
    liquid = tf.convert_to_tensor(liquid_of_tank, tf.int32)

    @tf.custom_gradient
    def surface_rise(length, breadth, density, displacement):
        # length, breadth [N]; density [liquids]; displacement [L]
        rho = tf.gather(density, liquid)
        inertia = length * breadth**3 / 12.0
        moment = tf.reduce_sum(rho * inertia)
        rise = moment / displacement

        def grad(g):
            d_moment = tf.reduce_sum(g / displacement)
            d_rho = d_moment * inertia
            d_density = tf.tensor_scatter_nd_update(tf.zeros_like(density), liquid[:, None], d_rho)
            d_inertia = d_moment * rho
            return (
                d_inertia * inertia / length,
                3.0 * d_inertia * inertia / breadth,
                d_density,
                -g * rise / displacement,
            )

        return rise, grad

    return surface_rise


@tf.custom_gradient
def righting_arm(gm, bm, heel):
    """GZ curve after the wall-sided formula.

        GZ = sin(heel) (GM + BM tan(heel)^2 / 2)

    Args:
      gm: [L] metacentric heights in m (negative for an unstable ship).
      bm: [L] metacentric radii in m.
      heel: [H] heel angles in degrees, |heel| < 90.

    Returns:
      [L, H] arms in m.
    """
    phi = heel * DEG
    sin, cos, tan = tf.sin(phi), tf.cos(phi), tf.tan(phi)
    stiff = gm[:, None] + 0.5 * bm[:, None] * tan * tan

    def grad(g):
        d_gm = tf.linalg.matvec(g, sin)
        d_bm = 0.5 * tf.linalg.matvec(g, sin * tan * tan)
        slope = cos * stiff + bm[:, None] * tan * tan / cos
        return d_gm, d_bm, DEG * tf.reduce_sum(g * slope, axis=0)

    return sin * stiff, grad


def area_under(arms, heel):
    step = (heel[1:] - heel[:-1]) * DEG
    return tf.reduce_sum(0.5 * (arms[:, 1:] + arms[:, :-1]) * step, axis=1)
