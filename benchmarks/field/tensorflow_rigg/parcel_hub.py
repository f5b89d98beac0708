"""Soft throughput model of a parcel sorting hub.

The hub planner optimises arrival rates, belt priorities and departure slots by
gradient descent; the operators here have hand-written gradients because the
plan is re-evaluated several thousand times per night.
"""
import tensorflow as tf

HOURS_PER_SHIFT = 8.0


def _segment_total(values, ids, num):
    return tf.math.unsorted_segment_sum(values, ids, num)


def _sum_to(x, like):
    extra = x.shape.rank - like.shape.rank
    if extra > 0:
        x = tf.reduce_sum(x, axis=list(range(extra)))
    axes = [i for i, n in enumerate(like.shape) if n == 1 and x.shape[i] != 1]
    return tf.reduce_sum(x, axis=axes, keepdims=True) if axes else x


def make_dock_delay(dock_ids, num_docks):
    """Returns ``dock_delay(arrivals, service)`` for a fixed route-to-dock plan.

    Args:
      dock_ids: int [N], the dock at which each route unloads.
      num_docks: D.

    The returned function takes

      arrivals: [N] parcels per hour on each route,
      service:  [D] parcels per hour that a dock can unload, larger than the
                total arriving at it,

    and gives [N], the expected number of parcels of each route that stand
    waiting: ``arrivals / (service - load)`` with the M/M/1 sojourn time of the dock
    (Little's law).
    """
    dock_ids = tf.convert_to_tensor(dock_ids)

    @tf.custom_gradient
    def dock_delay(arrivals, service):
        load = _segment_total(arrivals, dock_ids, num_docks)
        sojourn = 1.0 / (service - load)
        per_route = tf.gather(sojourn, dock_ids)

        def grad(upstream):
            slope = tf.gather(tf.square(sojourn), dock_ids)
            pressure = upstream * arrivals * slope
            d_arrivals = upstream * per_route + pressure
            d_service = -_segment_total(pressure, dock_ids, num_docks)
            return d_arrivals, d_service

        return arrivals * per_route, grad

    return dock_delay


class ChuteAllocator:
    """Splits a sorter's capacity over its open chutes."""

    def __init__(self, open_mask, axis=-1):
        self.open_mask = tf.convert_to_tensor(open_mask)
        self.axis = axis

    def __call__(self, capacity, flow, priority):
        # capacity [B, 1], flow [B, C] (non-negative), priority [C] (positive);
        # a row without any open flow gets nothing
        @tf.custom_gradient
        def chute_shares(capacity, flow, priority):
            m = tf.cast(self.open_mask, flow.dtype)
            w = m * flow * priority
            total = tf.reduce_sum(w, self.axis, keepdims=True)
            live = total > 0
            safe = tf.where(live, total, tf.ones_like(total))
            frac = tf.where(live, w / safe, tf.zeros_like(w))

            def grad(dy):
                lead = tf.reduce_sum(dy * frac, self.axis, keepdims=True)
                dw = tf.where(live, capacity * (dy - lead) / safe, tf.zeros_like(dy)) * m
                return (_sum_to(dy * frac, capacity),
                        _sum_to(dw * priority, flow),
                        _sum_to(dw * flow, priority))

            return capacity * frac, grad

        return chute_shares(capacity, flow, priority)


def make_cutoff_penalty(softness=0.25, reduction="sum"):
    """Soft lateness against linehaul cutoffs; reduction is "sum", "mean" (weighted) or "none"."""
    if reduction not in ("sum", "mean", "none"):
        raise ValueError(f"unknown reduction {reduction!r}")

    @tf.custom_gradient
    def cutoff_penalty(eta, cutoff, weight):
        z = (eta - cutoff) / softness
        late = softness * tf.nn.softplus(z)
        cost = weight * late
        if reduction == "none":
            scale = tf.ones([], eta.dtype)
            out = cost
        elif reduction == "sum":
            scale = tf.ones([], eta.dtype)
            out = tf.reduce_sum(cost)
        else:
            scale = 1.0 / tf.reduce_sum(weight)
            out = tf.reduce_sum(cost) * scale

        def grad(dy):
            g = dy * scale
            d_eta = g * weight * tf.sigmoid(z)
            d_cutoff = -tf.reduce_sum(d_eta, axis=0)
            d_weight = g * late
            return d_eta, d_cutoff, d_weight

        return out, grad

    return cutoff_penalty


def make_trailer_fill(p=6.0):
    """How full a trailer is when volume, weight, floor metres ... all count.

    ``fill = (sum_r (usage_r / limit_r) ** p) ** (1 / p)``, a smooth maximum over
    the R resources.

    Shapes: usage [..., R] (non-negative, at least one entry positive in a row),
    limits [R] or any shape that broadcasts against usage with the same last axis
    (positive). Result [...]. p > 1.
    """

    @tf.custom_gradient
    def trailer_fill(usage, limits):
        ratio = usage / limits
        top = tf.reduce_max(ratio, axis=-1, keepdims=True)
        rel = ratio / top
        norm = tf.reduce_sum(rel ** p, axis=-1, keepdims=True) ** (1.0 / p)
        fill = tf.squeeze(top * norm, axis=-1)

        def grad(upstream):
            g = upstream[..., tf.newaxis] * (rel / norm) ** (p - 1.0)
            d_usage = g / limits
            d_limits = -g * ratio / limits
            return _sum_to(d_usage, usage), _sum_to(d_limits, limits)

        return fill, grad

    return trailer_fill


def shift_volume(arrivals):
    return HOURS_PER_SHIFT * tf.reduce_sum(arrivals)
