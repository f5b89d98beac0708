"""Tree and plot equations used when calibrating the regional inventory."""
import tensorflow as tf

BREAST_HEIGHT = 1.3


@tf.custom_gradient
def height_diameter(dbh, species, asymptote, rate, shape):
    """Chapman-Richards heights of trees [N] from species tables [S]."""
    a = tf.gather(asymptote, species)
    b = tf.gather(rate, species)
    c = tf.gather(shape, species)
    decay = tf.exp(-b * dbh)
    base = -tf.math.expm1(-b * dbh)
    rise = a * base**c

    def grad(upstream):
        d_base = upstream * rise * c / base
        d_dbh = d_base * b * decay
        rows = tf.cast(species, tf.int32)[:, None]

        def to_table(table, values):
            return tf.tensor_scatter_nd_update(tf.zeros_like(table), rows, values)

        return (
            d_dbh,
            None,
            to_table(asymptote, upstream * rise / a),
            to_table(rate, d_base * dbh * decay),
            to_table(shape, upstream * rise * tf.math.log(base)),
        )

    return BREAST_HEIGHT + rise, grad


def hegyi_competition(dbh, distance, alive, search_radius=10.0, offset=1.0):
    """Hegyi's competition index of each tree from its neighbours.

    Args:
      dbh: [plots, N] diameters; padded entries may hold zero.
      distance: [plots, N, N] between stems, zero on the diagonal, not assumed symmetric
        (slope-corrected in the subject's frame).
      alive: [plots, N] bool; dead or padded trees neither compete nor get an index.
      search_radius: neighbours beyond it are left out.
      offset: metres added to the distance.

    Returns:
      [plots, N] sum_j (d_j / d_i) / (r_ij + offset).
    """
    n = dbh.shape[-1]

    @tf.custom_gradient
    def index(dbh, distance):
        both = tf.logical_and(alive[:, :, None], alive[:, None, :])
        near = tf.logical_and(both, distance <= search_radius)
        near = tf.logical_and(near, tf.logical_not(tf.eye(n, dtype=tf.bool)))
        inv_gap = tf.where(near, 1.0 / (distance + offset), tf.zeros_like(distance))
        subject = tf.where(alive, dbh, tf.ones_like(dbh))
        ci = tf.einsum("pij,pj->pi", inv_gap, dbh) / subject

        def grad(dci):
            scaled = dci / subject
            as_rival = tf.einsum("pij,pi->pj", inv_gap, scaled)
            d_distance = -scaled[:, :, None] * dbh[:, None, :] * inv_gap * inv_gap
            return as_rival - scaled * ci, d_distance

        return ci, grad

    return index(dbh, distance)


@tf.custom_gradient
def stem_taper(dbh, height, level, coef, knots):
    # dbh, height: [N, 1]; level: [N, K]; coef: b1..b4; knots: (upper, lower), relative heights
    b1, b2, b3, b4 = tf.unstack(coef)
    upper, lower = tf.unstack(knots)
    x = level / height
    over = tf.nn.relu(upper - x)
    under = tf.nn.relu(lower - x)
    square = b1 * (x - 1.0) + b2 * (x * x - 1.0) + b3 * over**2 + b4 * under**2
    root = tf.sqrt(tf.nn.relu(square))
    diameter = dbh * root

    def grad(g):
        d_dbh = tf.reduce_sum(g * root, axis=1, keepdims=True)
        inside = square > 0.0
        d_square = tf.where(inside, 0.5 * g * dbh / tf.where(inside, root, tf.ones_like(root)), tf.zeros_like(g))

        stem = b1 + 2.0 * b2 * x
        butt = stem - 2.0 * b3 * (upper - x) - 2.0 * b4 * (lower - x)
        d_x = d_square * tf.where(x < lower, butt, stem)

        d_coef = tf.stack([tf.reduce_sum(d_square * t) for t in (x - 1.0, x * x - 1.0, over**2, under**2)])
        d_knots = tf.stack([
            tf.reduce_sum(d_square * 2.0 * b3 * over),
            tf.reduce_sum(d_square * 2.0 * b4 * under),
        ])
        d_height = -tf.reduce_sum(d_x * x, axis=1, keepdims=True) / height
        return d_dbh, d_height, d_x / height, d_coef, d_knots

    return diameter, grad


def make_stand_density(num_plots, reference=25.0, exponent=1.605):
    """Reineke's density index by summation over trees; negative plot numbers are off-plot trees."""

    @tf.custom_gradient
    def density(dbh, expansion, plot):
        relative = (dbh / reference) ** exponent
        sdi = tf.math.unsorted_segment_sum(expansion * relative, plot, num_plots)

        def grad(g):
            per_tree = tf.where(plot >= 0, tf.gather(g, tf.maximum(plot, 0)), tf.zeros_like(dbh))
            slope = exponent / reference * (dbh / reference) ** (exponent - 1.0)
            return per_tree * expansion * slope, per_tree * relative, None

        return sdi, grad

    return density
