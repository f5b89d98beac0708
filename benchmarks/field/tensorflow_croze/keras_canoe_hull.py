"""Lines of a cedar-strip canoe.

The hull is given by its half breadths, one number for each station along the boat and each waterline above the keel. A
designer fits them to a wanted trim and a wanted look by gradient descent. The two derivatives below are the costly ones.
"""

from typing import NamedTuple

from keras import ops


class Lines(NamedTuple):
    half_breadth: object  # (..., stations, waterlines), metres
    waterline: object  # (waterlines,), heights above the keel, rising


PLAIN_BATTEN = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)


@ops.custom_gradient
def bonjean(half_breadth, waterline):
    """Immersed section areas up to each waterline.

    The area below the first waterline is zero; from there it grows by the trapezoidal rule, both sides of the boat
    counted. The spacing of the waterlines need not be even.

    half_breadth: (..., stations, waterlines); waterline: (waterlines,); result as half_breadth.
    """
    span = waterline[1:] - waterline[:-1]
    both = half_breadth[..., 1:] + half_breadth[..., :-1]
    area = ops.cumsum(both * span, axis=-1)
    area = ops.concatenate([ops.zeros_like(half_breadth[..., :1]), area], axis=-1)

    def grad(*args, upstream=None):
        g = args[-1] if upstream is None else upstream
        above = ops.flip(ops.cumsum(ops.flip(g[..., 1:], axis=-1), axis=-1), axis=-1)
        g_both = above * span
        nil = ops.zeros_like(half_breadth[..., :1])
        g_half = ops.concatenate([g_both, nil], axis=-1) + ops.concatenate([nil, g_both], axis=-1)
        g_span = ops.sum(above * both, axis=tuple(range(len(half_breadth.shape) - 1)))
        end = ops.zeros_like(waterline[:1])
        g_water = ops.concatenate([end, g_span], axis=0) - ops.concatenate([g_span, end], axis=0)
        return g_half, g_water

    return area, grad


def _windows(curve, reach):
    """(..., n) -> (..., n, 2 * reach + 1): each point with its neighbours, nothing beyond the stems."""
    n = curve.shape[-1]
    padded = ops.pad(curve, [(0, 0)] * (len(curve.shape) - 1) + [(reach, reach)])
    return ops.stack([padded[..., k : k + n] for k in range(2 * reach + 1)], axis=-1)


@ops.custom_gradient
def batten_fair(curve, batten):
    """Draw curves (..., stations) fair with a batten of an odd number of weights.

    Station i becomes sum_k batten[k] * curve[i + k - reach], with reach = len(batten) // 2 and zero half breadth beyond
    the stems. A batten that is stiffer at one end, as for the bow of a racing boat, has unequal halves.
    """
    reach = batten.shape[0] // 2
    rows = _windows(curve, reach)
    fair = ops.matmul(rows, batten)

    def grad(*args, upstream=None):
        g = args[-1] if upstream is None else upstream
        g_curve = ops.matmul(_windows(g, reach), batten)
        g_batten = ops.sum(ops.expand_dims(g, -1) * rows, axis=tuple(range(len(curve.shape))))
        return g_curve, g_batten

    return fair, grad


def unfairness(curve, batten=PLAIN_BATTEN):
    """Mean square of what the batten takes away."""
    weights = ops.cast(ops.convert_to_tensor(batten), curve.dtype)
    return ops.mean(ops.square(curve - batten_fair(curve, weights)))


def displacement(lines: Lines, station_spacing, level=-1):
    """Volume below the waterline numbered `level`, by the trapezoidal rule along the boat."""
    area = bonjean(lines.half_breadth, lines.waterline)[..., level]
    inner = ops.sum(area, axis=-1)
    return station_spacing * (inner - 0.5 * (area[..., 0] + area[..., -1]))


if __name__ == "__main__":
    import numpy as np

    x = np.linspace(-1, 1, 9)[:, None]
    z = np.linspace(0, 0.3, 5)
    half = 0.4 * (1 - x**2) * np.sqrt(z / 0.3)
    boat = Lines(ops.convert_to_tensor(half), ops.convert_to_tensor(z))
    print("displacement [m3]:", displacement(boat, 0.6), "unfairness:", unfairness(boat.half_breadth[:, -1]))
