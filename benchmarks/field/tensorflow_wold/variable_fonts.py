"""Differentiable pieces of a variable-font rasteriser front end.

Outline coordinates are functions of the design axes (weight, width, optical size, ...).  The three steps of the
OpenType pipeline that depend on the axes are here: the remapping of the axis coordinates (``avar``), the scalars of the
variation regions, and the placement of the components of a composite glyph.  All of them are fitted to scans of printed
type by gradient descent.
"""

import tensorflow as tf


def _flat_ids(index, width):
    """Row-wise indices [rows, n] into a [rows, width] table, as ids into the flattened table."""
    rows = tf.range(tf.shape(index)[0], dtype=index.dtype)
    return index + rows[:, None] * tf.cast(width, index.dtype)


def _take(table, index):
    return tf.gather(table, index, axis=1, batch_dims=1)


@tf.custom_gradient
def avar_remap(coords, from_knots, to_knots):
    """Piecewise-linear remapping of axis coordinates.

    Args:
      coords: [batch, axes] user coordinates.
      from_knots: [axes, knots] strictly ascending knots on the user scale.
      to_knots: [axes, knots] values at the knots.

    Returns:
      [batch, axes]; coordinates beyond the outer knots take the value of the outer knot.
    """
    knots = from_knots.shape[1]
    c = tf.transpose(coords)  # axes, batch
    index = tf.searchsorted(from_knots, c, side="right") - 1
    index = tf.clip_by_value(index, 0, knots - 2)
    x0, x1 = _take(from_knots, index), _take(from_knots, index + 1)
    y0, y1 = _take(to_knots, index), _take(to_knots, index + 1)
    width = x1 - x0
    raw = (c - x0) / width
    t = tf.clip_by_value(raw, 0.0, 1.0)
    inside = tf.cast(tf.logical_and(raw >= 0.0, raw <= 1.0), c.dtype)

    def grad(dy):
        dy = tf.transpose(dy)
        along = dy * inside * (y1 - y0) / width
        ids = _flat_ids(index, knots)
        size = tf.size(from_knots)

        def spread(low, high):
            table = tf.math.unsorted_segment_sum(low, ids, size) + tf.math.unsorted_segment_sum(
                high, ids + 1, size
            )
            return tf.reshape(table, tf.shape(from_knots))

        d_from = spread(along * (t - 1.0), -along * t)
        d_to = spread(dy * (1.0 - t), dy * t)
        return tf.transpose(along), d_from, d_to

    return tf.transpose(y0 + t * (y1 - y0)), grad


@tf.custom_gradient
def region_scalars(coords, start, peak, end):
    """Scalars of variation regions: the product over the axes of a tent from ``start`` over ``peak`` to ``end``.

    coords is [batch, axes], the three corners [regions, axes] with start <= peak <= end.  An axis whose peak is zero
    takes no part in its region.  The result is [batch, regions].
    """
    c = coords[:, None, :]
    unused = tf.logical_and(tf.equal(peak, 0.0), tf.ones_like(c, dtype=tf.bool))
    active = tf.logical_not(unused)
    rising = tf.logical_and(active, tf.logical_and(c > start, c <= peak))
    falling = tf.logical_and(active, tf.logical_and(c > peak, c < end))
    plateau = tf.logical_or(unused, tf.equal(c, peak))
    up = tf.math.divide_no_nan(tf.ones_like(peak), peak - start)
    down = tf.math.divide_no_nan(tf.ones_like(peak), end - peak)
    tent = tf.where(
        rising, (c - start) * up, tf.where(falling, (end - c) * down, tf.cast(plateau, c.dtype))
    )
    scalar = tf.reduce_prod(tent, axis=-1)

    def grad(ds):
        others = tf.math.cumprod(tent, axis=-1, exclusive=True) * tf.math.cumprod(
            tent, axis=-1, exclusive=True, reverse=True
        )
        d_tent = ds[:, :, None] * others
        zero = tf.zeros_like(d_tent)
        d_up = tf.where(rising, d_tent * up, zero)
        d_down = tf.where(falling, d_tent * down, zero)
        d_coords = tf.reduce_sum(d_up - d_down, axis=1)
        d_start = tf.reduce_sum(d_up * (tent - 1.0), axis=0)
        d_peak = tf.reduce_sum((d_down - d_up) * tent, axis=0)
        d_end = tf.reduce_sum(d_down * (1.0 - tent), axis=0)
        return d_coords, d_start, d_peak, d_end

    return scalar, grad


def make_component_placer(scaled_offset=False):
    """Factory for the placement of composite glyphs.

    ``scaled_offset`` mirrors the SCALED_COMPONENT_OFFSET bit of the glyf table: where it is set, the offset of a
    component is itself subject to the transformation of the component.
    """

    @tf.custom_gradient
    def place(points, matrix, offset, point_ids, part_ids):
        """Points of the composite outline.

        points: [batch, points, 2] outline points of the base glyphs
        matrix: [parts, 2, 2] transformation of each component, acting on column vectors
        offset: [parts, 2] shift of each component
        point_ids, part_ids: [m] base point and component of each point of the composite (bases are reused)
        returns [batch, m, 2]
        """
        local = tf.gather(points, point_ids, axis=1)
        m_point = tf.gather(matrix, part_ids)
        o_point = tf.gather(offset, part_ids)
        if scaled_offset:
            out = tf.einsum("mij,bmj->bmi", m_point, local + o_point)
        else:
            out = tf.einsum("mij,bmj->bmi", m_point, local) + o_point

        def grad(dy):
            parts = tf.shape(matrix)[0]
            d_local = tf.einsum("mij,bmi->bmj", m_point, dy)
            by_point = tf.math.unsorted_segment_sum(
                tf.transpose(d_local, [1, 0, 2]), point_ids, tf.shape(points)[1]
            )
            d_matrix = tf.math.unsorted_segment_sum(
                tf.einsum("bmi,bmj->mij", dy, local), part_ids, parts
            )
            shift = d_local if scaled_offset else dy
            d_offset = tf.math.unsorted_segment_sum(tf.reduce_sum(shift, axis=0), part_ids, parts)
            return tf.transpose(by_point, [1, 0, 2]), d_matrix, d_offset, None, None

        return out, grad

    return place


class VariableGlyph(tf.Module):
    """A glyph with a default outline, deltas per region, and a fixed list of components.

    default: [points, 2]; deltas: [regions, points, 2]; corners: triple of [regions, axes].
    """

    def __init__(self, default, deltas, corners, parts, scaled_offset=False, name=None):
        super().__init__(name=name)
        self.default = tf.Variable(default)
        self.deltas = tf.Variable(deltas)
        self.corners = corners
        self.matrix = tf.Variable(parts["matrix"])
        self.offset = tf.Variable(parts["offset"])
        self.point_ids = tf.constant(parts["point_ids"])
        self.part_ids = tf.constant(parts["part_ids"])
        self._place = make_component_placer(scaled_offset)

    def __call__(self, coords):
        scalars = region_scalars(coords, *self.corners)
        outline = self.default + tf.einsum("br,rpd->bpd", scalars, self.deltas)
        matrix, offset = tf.identity(self.matrix), tf.identity(self.offset)
        return self._place(outline, matrix, offset, self.point_ids, self.part_ids)
