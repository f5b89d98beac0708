"""Acoustic bench of a violin workshop, with Keras ops.

A maker thins a spruce or maple plate until its free-plate "tap tones" sit where
they should, fits bridge and strings, and varnishes the instrument.  The workshop
model predicts, from what can be measured on the bench,

* the tap tones of a plate from its thickness map and wood constants (Rayleigh
  quotient over assumed mode shapes),
* the static down-force of the strings on the bridge,
* the colour of a varnished plate, coat upon coat over a ground.

It is fitted to bench notes of earlier instruments, and used to recommend
thicknesses.  Everything runs with any Keras backend.
"""

import math
from typing import Sequence

import keras
import numpy as np
from keras import ops

A4_HZ = 440.0
SEMITONES_PER_OCTAVE = 12.0
LN2 = math.log(2.0)
# G3, D4, A4, E5 above or below A4
VIOLIN_STRINGS = (-14.0, -7.0, 0.0, 7.0)
VIOLA_STRINGS = (-21.0, -14.0, -7.0, 0.0)
POISSON_BLOCK = 0.96            # 1 - nu_xy * nu_yx of quarter-sawn spruce
GRAVITY = 9.80665


def plate_grid(rows: int, cols: int):
    """Cell centres on the unit square, x along the grain."""
    x = (np.arange(rows) + 0.5) / rows
    y = (np.arange(cols) + 0.5) / cols
    return np.meshgrid(x, y, indexing="ij")


def assumed_modes(rows: int, cols: int, length: float = 0.355, width: float = 0.2):
    """Deflections and curvatures of the "X" (2) and ring (5) modes of a free plate.

    Returns:
        shapes, bend_long, bend_cross: arrays (modes, rows, cols).
    """
    x, y = plate_grid(rows, cols)
    u, v = 2.0 * x - 1.0, 2.0 * y - 1.0
    shapes = np.stack([u ** 2 - v ** 2, u ** 2 + v ** 2 - 0.66])
    long = np.stack([np.full_like(u, 2.0), np.full_like(u, 2.0)]) * 4.0 / length ** 2
    cross = np.stack([np.full_like(u, -2.0), np.full_like(u, 2.0)]) * 4.0 / width ** 2
    return shapes, long * (1.0 + 0.1 * v ** 2), cross * (1.0 + 0.1 * u ** 2)


def plate_modes(shapes, bend_long, bend_cross):
    """Make the tap-tone function for the given mode shapes.

    Parameters
    ----------
    shapes, bend_long, bend_cross : np.ndarray
        Deflection and its curvatures along and across the grain, (modes, H, W).
    """
    inertia = np.asarray(shapes) ** 2
    along = np.asarray(bend_long) ** 2 / (12.0 * POISSON_BLOCK)
    across = np.asarray(bend_cross) ** 2 / (12.0 * POISSON_BLOCK)

    @ops.custom_gradient
    def tap_tones(thickness, stiff_long, stiff_cross, density):
        """Tap tones in Hz, (plates, modes).

        thickness is (plates, H, W) in metres; stiff_long, stiff_cross (Pa) and
        density (kg/m3) are (plates,).
        """
        dtype = thickness.dtype
        mass_w = ops.convert_to_tensor(inertia, dtype=dtype)
        long_w = ops.convert_to_tensor(along, dtype=dtype)
        cross_w = ops.convert_to_tensor(across, dtype=dtype)
        cube = thickness * thickness * thickness
        bend_l = ops.einsum("bhw,mhw->bm", cube, long_w)
        bend_c = ops.einsum("bhw,mhw->bm", cube, cross_w)
        energy = stiff_long[:, None] * bend_l + stiff_cross[:, None] * bend_c
        column = ops.einsum("bhw,mhw->bm", thickness, mass_w)
        mass = density[:, None] * column
        tones = ops.sqrt(energy / mass) / (2.0 * math.pi)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            half = 0.5 * upstream * tones
            g_energy = half / energy
            g_mass = -half / mass
            g_long = ops.sum(g_energy * bend_l, axis=1)
            g_cross = ops.sum(g_energy * bend_c, axis=1)
            g_density = ops.sum(g_mass * column, axis=1)
            rigid = (ops.einsum("bm,mhw->bhw", g_energy * stiff_long[:, None], long_w)
                     + ops.einsum("bm,mhw->bhw", g_energy * stiff_cross[:, None],
                                  cross_w))
            heavy = ops.einsum("bm,mhw->bhw", g_mass * density[:, None], mass_w)
            g_thickness = 3.0 * thickness * thickness * rigid + heavy
            return g_thickness, g_long, g_cross, g_density

        return tones, grad

    return tap_tones


@ops.custom_gradient
def bridge_downforce(length, gauge, pitch, front, after):
    """Down-force of all strings on the bridge.

    Args:
        length: vibrating length in metres, one for each instrument. (B,)
        gauge: mass of a metre of string, kg. (S,)
        pitch: semitones from A4 to which each string is tuned. (B, S)
        front: angle between string and bridge plane's normal on the nut side,
            radians. (B,)
        after: the same on the tailpiece side. (B,)

    Returns:
        Newton, (B,).
    """
    freq = A4_HZ * ops.exp(pitch * (LN2 / SEMITONES_PER_OCTAVE))
    wave = 2.0 * length[:, None] * freq
    square = wave * wave
    tension = square * gauge[None, :]
    total = ops.sum(tension, axis=1)
    lean = ops.sin(front) + ops.sin(after)

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        g_total = upstream * lean
        g_length = 2.0 * g_total * total / length
        g_gauge = ops.sum(g_total[:, None] * square, axis=0)
        g_pitch = g_total[:, None] * tension * (2.0 * LN2 / SEMITONES_PER_OCTAVE)
        g_front = upstream * total * ops.cos(front)
        g_after = upstream * total * ops.cos(after)
        return g_length, g_gauge, g_pitch, g_front, g_after

    return total * lean, grad


@ops.custom_gradient
def varnish_colour(reflect, transmit, ground):
    """Reflectance of a ground under varnish coats, with inter-reflection.

    reflect, transmit: (B, coats, bands), lowest coat first
    ground: (B, bands)

    A coat of reflectance r and transmittance t over a surface of reflectance R shows
    r + t^2 R / (1 - r R).
    """
    coats = reflect.shape[1]
    below = [ground]
    for k in range(coats):
        r, t = reflect[:, k], transmit[:, k]
        below.append(r + t * t * below[k] / (1.0 - r * below[k]))

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        clear = [1.0 / (1.0 - reflect[:, k] * below[k]) for k in range(coats)]
        gain = [ops.square(transmit[:, k] * clear[k]) for k in range(coats)]
        g_reflect = [None] * coats
        g_transmit = [None] * coats
        adjoint = upstream
        for k in reversed(range(coats)):
            g_reflect[k] = adjoint * (1.0 + gain[k] * ops.square(below[k]))
            g_transmit[k] = adjoint * 2.0 * transmit[:, k] * below[k] * clear[k]
            adjoint = adjoint * gain[k - 1]
        return ops.stack(g_reflect, axis=1), ops.stack(g_transmit, axis=1), adjoint

    return below[-1], grad


class TapToneLayer(keras.layers.Layer):
    """Thickness maps to tap tones, with trainable wood constants of a wood lot.

    Args:
        rows, cols: grid of the thickness map.
        density: starting density of the lot.
    """

    def __init__(self, rows, cols, density=410.0, **kwargs):
        super().__init__(**kwargs)
        self.rows, self.cols = rows, cols
        self.start_density = density
        self._tones = plate_modes(*assumed_modes(rows, cols))

    def build(self, input_shape):
        constant = keras.initializers.Constant
        self.log_long = self.add_weight(shape=(), name="log_long",
                                        initializer=constant(math.log(1.3e10)))
        self.log_cross = self.add_weight(shape=(), name="log_cross",
                                         initializer=constant(math.log(8.0e8)))
        self.log_density = self.add_weight(
            shape=(), name="log_density",
            initializer=constant(math.log(self.start_density)))

    def call(self, thickness_mm):
        ones = ops.ones_like(thickness_mm[:, 0, 0])
        return self._tones(thickness_mm * 1e-3, ones * ops.exp(self.log_long),
                           ones * ops.exp(self.log_cross),
                           ones * ops.exp(self.log_density))


class VarnishStack(keras.layers.Layer):
    """Predicts the colour after each number of coats from one recipe."""

    def __init__(self, coats: int, bands: int = 3, **kwargs):
        super().__init__(**kwargs)
        self.coats, self.bands = coats, bands

    def build(self, input_shape):
        shape = (self.coats, self.bands)
        self.scatter = self.add_weight(shape=shape, name="scatter",
                                       initializer=keras.initializers.Constant(-3.0))
        self.absorb = self.add_weight(shape=shape, name="absorb",
                                      initializer=keras.initializers.Constant(-1.5))

    def coefficients(self, batch):
        reflect = ops.sigmoid(self.scatter)
        transmit = (1.0 - reflect) * ops.exp(-ops.softplus(self.absorb))
        spread = lambda c: ops.broadcast_to(c[None], (batch, self.coats, self.bands))
        return spread(reflect), spread(transmit)

    def call(self, ground):
        reflect, transmit = self.coefficients(ground.shape[0])
        return varnish_colour(reflect, transmit, ground)


def setup_downforce(lengths, gauges, strings: Sequence[float] = VIOLIN_STRINGS,
                    detune=None, front=1.45, after=1.30):
    """Down-force in kilogram-force for a row of instruments; angles in radians.

    The two angles are taken from the string to the bridge's standing line, and are
    turned into break angles here.
    """
    lengths = ops.convert_to_tensor(lengths)
    pitch = ops.convert_to_tensor(np.tile(strings, (lengths.shape[0], 1)),
                                  dtype=lengths.dtype)
    if detune is not None:
        pitch = pitch + detune
    ones = ops.ones_like(lengths)
    force = bridge_downforce(lengths, ops.convert_to_tensor(gauges, dtype=lengths.dtype),
                             pitch, ones * (math.pi / 2 - front),
                             ones * (math.pi / 2 - after))
    return force / GRAVITY


def graduation_scheme(rows, cols, centre=3.2, edge=2.4, seed=None):
    """Thickness map in mm: thick centre, thin edges, and the scraper's unevenness."""
    x, y = plate_grid(rows, cols)
    radius = np.sqrt((2 * x - 1) ** 2 + (2 * y - 1) ** 2) / math.sqrt(2.0)
    scheme = centre + (edge - centre) * radius
    if seed is not None:
        scheme = scheme + 0.05 * np.random.default_rng(seed).normal(size=scheme.shape)
    return scheme.astype("float32")


def main():
    rows, cols = 12, 8
    plates = np.stack([graduation_scheme(rows, cols, c, seed=i)
                       for i, c in enumerate((3.0, 3.2, 3.5))])
    layer = TapToneLayer(rows, cols)
    print("tap tones", ops.convert_to_numpy(layer(plates)).round(1))
    force = setup_downforce(np.array([0.328, 0.330], "float32"),
                            [2.8e-3, 1.3e-3, 0.7e-3, 0.4e-3])
    print("down-force kgf", ops.convert_to_numpy(force).round(2))
    stack = VarnishStack(coats=4)
    ground = np.array([[0.72, 0.58, 0.36], [0.66, 0.50, 0.30]], "float32")
    print("colour", ops.convert_to_numpy(stack(ground)).round(3))


if __name__ == "__main__":
    main()
