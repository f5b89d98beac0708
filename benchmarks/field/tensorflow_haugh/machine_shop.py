"""Cutting data for the process planner."""

from typing import Any, NamedTuple

from keras import ops


class TaylorTable(NamedTuple):
    log_c: Any  # [materials]
    n: Any  # [materials]
    feed_exp: Any  # [materials]
    depth_exp: Any  # [materials]


def tool_life(speed, feed, depth, table, material_ids, max_life=240.0):
    """Minutes of tool life by the extended Taylor equation, at most ``max_life``.

    ``speed``, ``feed`` and ``depth`` are positive and of shape [parts, cuts]; ``material_ids`` [parts]
    picks the row of the table. Capped cuts have no derivative.
    """
    ids = ops.cast(material_ids, "int32")
    n_materials = table.n.shape[0]

    @ops.custom_gradient
    def life(speed, feed, depth, log_c, n, a, b):
        def pick(p):
            return ops.take(p, ids, axis=0)[:, None]

        lv, lf, ld = ops.log(speed), ops.log(feed), ops.log(depth)
        ni, ai, bi = pick(n), pick(a), pick(b)
        exponent = (pick(log_c) - lv - ai * lf - bi * ld) / ni
        capped = exponent >= ops.log(ops.cast(max_life, exponent.dtype))
        minutes = ops.where(capped, max_life, ops.exp(ops.where(capped, 0.0, exponent)))

        def grad(*args, upstream=None):
            g = upstream if upstream is not None else args[0]
            ge = ops.where(capped, 0.0, g * minutes) / ni

            def by_material(values):
                return ops.segment_sum(ops.sum(values, axis=1), ids, num_segments=n_materials)

            return (
                -ge / speed,
                -ge * ai / feed,
                -ge * bi / depth,
                by_material(ge),
                -by_material(ge * exponent),
                -by_material(ge * lf),
                -by_material(ge * ld),
            )

        return minutes, grad

    return life(speed, feed, depth, *table)


class MillingCutter:
    def __init__(self, tooth_angles, entry, exit_):
        self.angles = tooth_angles
        self.entry, self.exit = entry, exit_

    def tangential_force(self, feed, width, kc1, mc):
        """Summed tangential force [n] of the engaged teeth; feed per tooth [n] > 0, width [n], scalar kc1 and mc."""
        phi = ops.convert_to_tensor(self.angles, dtype=feed.dtype)
        inside = ops.logical_and(phi > self.entry, phi < self.exit)
        engaged = ops.logical_and(inside, ops.sin(phi) > 0)
        sines = ops.where(engaged, ops.sin(phi), 1.0)

        @ops.custom_gradient
        def kienzle(feed, width, kc1, mc):
            chip = feed[:, None] * sines
            per_tooth = ops.where(engaged, ops.power(chip, 1.0 - mc), 0.0)
            area = ops.sum(per_tooth, axis=1)

            def grad(*args, upstream=None):
                g = upstream if upstream is not None else args[0]
                d_area = g * kc1 * width
                logs = ops.sum(per_tooth * ops.log(chip), axis=1)
                return (
                    d_area * (1.0 - mc) * area / feed,
                    g * kc1 * area,
                    ops.sum(g * width * area),
                    -ops.sum(d_area * logs),
                )

            return kc1 * width * area, grad

        return kienzle(feed, width, kc1, mc)
