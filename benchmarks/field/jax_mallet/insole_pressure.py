"""Instrumented insoles: foam response, load centre, regional peaks, gait windows.

A sole carries a grid of pressure cells. The chain below goes from prescribed
midsole strain to what a clinician looks at, and is used in two directions: to
analyse recordings and, through its gradients, to shape the foam (modulus per
cell) so that forefoot peaks come down.

Conventions
-----------
frames (``B`` or ``T``) first, then cells; the grid has ``H`` rows from heel to
toe and ``W`` columns from medial to lateral. Pressures are in kPa and never
negative. ``mask`` marks cells which lie within the outline.
"""

import functools
from typing import Any, Dict, NamedTuple, Tuple

import jax
import jax.numpy as jnp
import numpy as np

REGIONS = ("heel", "midfoot", "metatarsal", "hallux", "toes")
PEAK_EXPONENT = 8.0
MIN_LOAD = 1e-9
CELL_PITCH = 7.5  # mm


class FoamGrade(NamedTuple):
    """Shape of a foam's compression curve; hashable, passed as static."""

    yield_strain: float = 0.06
    hardening: float = 0.18
    densify_strain: float = 0.55
    densify_gain: float = 9.0


EVA = FoamGrade()
PU = FoamGrade(0.09, 0.25, 0.62, 7.0)
PEBA = FoamGrade(0.12, 0.32, 0.70, 5.5)


# ------------------------------------------------------------------ midsole


def _foam_regions(strain, grade):
    return strain > grade.yield_strain, strain > grade.densify_strain


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def foam_stress(strain, modulus, grade):
    """Compressive stress of a midsole foam.

    Linear up to the yield strain, then a plateau of slope
    ``hardening * modulus``; past ``densify_strain`` the collapsed cells add a
    quadratic ``densify_gain * modulus * (strain - densify_strain)**2``.

    Parameters
    ----------
    strain : array
        Between 0 and about 0.85.
    modulus : array
        Broadcasts with ``strain``.
    grade : FoamGrade
    """
    past_yield, dense = _foam_regions(strain, grade)
    plateau = grade.yield_strain + grade.hardening * (strain - grade.yield_strain)
    shape = jnp.where(past_yield, plateau, strain)
    crush = jnp.where(dense, strain - grade.densify_strain, 0.0)
    return modulus * (shape + grade.densify_gain * crush ** 2)


@foam_stress.defjvp
def _foam_stress_jvp(grade, primals, tangents):
    strain, modulus = primals
    d_strain, d_modulus = tangents
    past_yield, dense = _foam_regions(strain, grade)
    plateau = grade.yield_strain + grade.hardening * (strain - grade.yield_strain)
    shape = jnp.where(past_yield, plateau, strain)
    crush = jnp.where(dense, strain - grade.densify_strain, 0.0)
    stress = modulus * (shape + grade.densify_gain * crush ** 2)
    tangent_modulus = modulus * (
        jnp.where(past_yield, grade.hardening, 1.0)
        + 2.0 * grade.densify_gain * crush)
    return stress, tangent_modulus * d_strain + shape * d_modulus


# -------------------------------------------------------------- load centre


def _moments(pressure, mask, xs, ys):
    load = jnp.where(mask, pressure, 0.0)
    total = load.sum(axis=(1, 2))
    touching = total > MIN_LOAD
    safe = jnp.where(touching, total, 1.0)
    cx = jnp.einsum("bhw,w->b", load, xs) / safe
    cy = jnp.einsum("bhw,h->b", load, ys) / safe
    cx = jnp.where(touching, cx, 0.0)
    cy = jnp.where(touching, cy, 0.0)
    return load, safe, touching, cx, cy


@jax.custom_vjp
def centre_of_pressure(pressure, mask, xs, ys):
    """(B, H, W) pressures, (H, W) boolean mask -> (B, 2) centre, x then y.

    Frames in which the foot is off the ground get (0, 0) and no gradient.
    """
    _, _, _, cx, cy = _moments(pressure, mask, xs, ys)
    return jnp.stack([cx, cy], axis=-1)


def _cop_fwd(pressure, mask, xs, ys):
    load, safe, touching, cx, cy = _moments(pressure, mask, xs, ys)
    return jnp.stack([cx, cy], axis=-1), (load, safe, touching, cx, cy, mask, xs, ys)


def _cop_bwd(res, g):
    load, safe, touching, cx, cy, mask, xs, ys = res
    g = jnp.where(touching[:, None], g, 0.0) / safe[:, None]
    gx, gy = g[:, 0], g[:, 1]
    arm_x = (xs[None, :] - cx[:, None]) * gx[:, None]
    arm_y = (ys[None, :] - cy[:, None]) * gy[:, None]
    g_pressure = jnp.where(mask, arm_x[:, None, :] + arm_y[:, :, None], 0.0)
    g_xs = jnp.einsum("bhw,b->w", load, gx)
    g_ys = jnp.einsum("bhw,b->h", load, gy)
    return g_pressure, None, g_xs, g_ys


centre_of_pressure.defvjp(_cop_fwd, _cop_bwd)


# ----------------------------------------------------------- regional peaks


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def regional_peak(pressure, region, n_regions, exponent=PEAK_EXPONENT):
    """Smooth peak of every anatomical region.

    Args:
      pressure: ``(frames, cells)``, non-negative.
      region: ``(cells,)`` integer label of each cell.
      n_regions: number of labels.
      exponent: of the generalised mean. Larger is closer to the hard maximum.

    Returns:
      ``(frames, n_regions)``; zero where a region is not loaded.
    """
    return _power_mean(pressure, region, n_regions, exponent)[0]


def _power_mean(pressure, region, n_regions, exponent):
    ones = jnp.ones(region.shape, pressure.dtype)
    count = jnp.maximum(
        jax.ops.segment_sum(ones, region, num_segments=n_regions), 1.0)
    summed = jax.ops.segment_sum((pressure ** exponent).T, region,
                                 num_segments=n_regions).T
    return (summed / count) ** (1.0 / exponent), count


def _regional_peak_fwd(pressure, region, n_regions, exponent):
    peak, count = _power_mean(pressure, region, n_regions, exponent)
    return peak, (pressure, region, peak, count)


def _regional_peak_bwd(n_regions, exponent, res, g):
    pressure, region, peak, count = res
    loaded = peak > 0.0
    relative = pressure / jnp.where(loaded, peak, 1.0)[:, region]
    spread = jnp.where(loaded, g, 0.0) / count
    return spread[:, region] * relative ** (PEAK_EXPONENT - 1.0), None


regional_peak.defvjp(_regional_peak_fwd, _regional_peak_bwd)


# ------------------------------------------------------------- gait windows


def make_stance_average(frames: int, softness: float = 1.5):
    """Factory of a soft average over the stance phase.

    The window of a step opens at heel strike and closes at toe off, both real
    frame numbers predicted by an event network, with logistic flanks of width
    ``softness`` frames.
    """
    clock = np.arange(frames, dtype=np.float64)

    @jax.custom_gradient
    def stance_average(signal, strike, toe_off):
        """signal (B, T, C), strike (B,), toe_off (B,) -> (B, C)"""
        t = jnp.asarray(clock, signal.dtype)
        opening = jax.nn.sigmoid((t - strike[:, None]) / softness)
        closing = jax.nn.sigmoid((toe_off[:, None] - t) / softness)
        window = opening * closing
        area = window.sum(axis=1)
        mean = jnp.einsum("bt,btc->bc", window, signal) / area[:, None]

        def vjp(g):
            share = window / area[:, None]
            g_signal = share[:, :, None] * g[:, None, :]
            lever = jnp.einsum("btc,bc->bt", signal - mean[:, None, :], g) * share
            g_strike = -jnp.sum(lever * (1.0 - opening), axis=1) / softness
            g_toe = jnp.sum(lever * (1.0 - closing), axis=1) / softness
            return g_signal, g_strike, g_toe

        return mean, vjp

    return stance_average


# ------------------------------------------------------------------- insole


def outline_mask(rows: int, cols: int) -> np.ndarray:
    """A crude shoe-shaped outline."""
    r = np.linspace(0.0, 1.0, rows)[:, None]
    c = np.linspace(-1.0, 1.0, cols)[None, :]
    half = 0.62 + 0.33 * np.sin(np.pi * np.clip(r - 0.2, 0, 0.8) / 0.8)
    return np.abs(c) <= half


def label_regions(rows: int, cols: int) -> np.ndarray:
    r = np.linspace(0.0, 1.0, rows)
    row_label = np.digitize(r, [0.3, 0.55, 0.8])
    labels = np.repeat(row_label[:, None], cols, axis=1)
    labels[row_label == 3, cols // 2:] = 4
    return labels.reshape(-1)


class InsoleModel:
    """Maps a recorded strain sequence to the clinical summary."""

    def __init__(self, rows=12, cols=6, frames=40, grade: FoamGrade = EVA):
        self.rows, self.cols = rows, cols
        self.grade = grade
        self.mask = jnp.asarray(outline_mask(rows, cols))
        self.region = jnp.asarray(label_regions(rows, cols))
        self.stance_average = make_stance_average(frames)

    def init(self) -> Dict[str, Any]:
        return {
            "modulus": jnp.full((self.rows, self.cols), 900.0),
            "xs": CELL_PITCH * (jnp.arange(self.cols) - (self.cols - 1) / 2.0),
            "ys": CELL_PITCH * jnp.arange(self.rows),
        }

    def pressure(self, params, strain):
        """(T, H, W) strain to pressure."""
        modulus = jnp.broadcast_to(params["modulus"], strain.shape)
        return foam_stress(strain, modulus, self.grade)

    def summary(self, params, strain, strike, toe_off) -> Tuple:
        p = self.pressure(params, strain)
        path = centre_of_pressure(p, self.mask, params["xs"], params["ys"])
        flat = jnp.where(self.mask, p, 0.0).reshape(p.shape[0], -1)
        peaks = regional_peak(flat, self.region, len(REGIONS))
        mean_path = self.stance_average(path[None], strike[None], toe_off[None])[0]
        mean_peak = self.stance_average(peaks[None], strike[None], toe_off[None])[0]
        return mean_path, mean_peak

    def cost(self, params, strain, strike, toe_off, wanted_path):
        path, peak = self.summary(params, strain, strike, toe_off)
        return (jnp.sum((path - wanted_path) ** 2)
                + 1e-3 * jnp.sum(peak ** 2))


def walking_strain(frames=40, rows=12, cols=6, seed=1):
    rng = np.random.default_rng(seed)
    t = np.linspace(0.0, 1.0, frames)[:, None, None]
    r = np.linspace(0.0, 1.0, rows)[None, :, None]
    roll = np.exp(-((r - t) / 0.25) ** 2)
    return jnp.asarray(0.5 * roll * rng.uniform(0.7, 1.0, (frames, rows, cols)))


if __name__ == "__main__":
    model = InsoleModel()
    theta = model.init()
    batch = walking_strain()
    value, grads = jax.value_and_grad(model.cost)(
        theta, batch, jnp.asarray(4.2), jnp.asarray(34.5), jnp.asarray([0.0, 40.0]))
    print(float(value), {k: float(jnp.linalg.norm(v)) for k, v in grads.items()})
