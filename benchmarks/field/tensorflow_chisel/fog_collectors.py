"""Water yield of fog-collector fields.

Fog collectors are upright meshes on ridges above a cloud deck.  Droplets carried
by the wind strike the fibres, run down into a gutter and leave through a tree of
pipes to a cistern which a village draws from.  The module holds the pieces of a
differentiable field model, used to calibrate mesh properties from daily tank
readings and to size new installations:

* the aerodynamic yield of a mesh of a given shade coefficient (after Rivera),
* capture of a droplet spectrum by fibres of a given width (inertial impaction),
* routing of the gutter water through the pipe tree, with leakage,
* the cistern's daily bookkeeping.

All pieces carry their own derivatives, since the calibration runs over many
thousand hours and the intermediate (hour, mesh, droplet bin) blocks are large.

Units: metres per second for wind, grams per cubic metre for liquid water,
micrometres for droplets, millimetres for fibres, litres for water volumes.
"""

import argparse
from typing import Dict, NamedTuple, Sequence, Tuple

import numpy as np
import tensorflow as tf

WATER_DENSITY = 1000.0          # kg m-3
AIR_VISCOSITY = 1.81e-5         # Pa s, 15 degrees C
SECONDS_PER_HOUR = 3600.0
IMPACTION_OFFSET = float(np.pi / 2.0)
PRESSURE_LINEAR = 1.3           # Idelchik's coefficient for thin screens

# Raschel 35 % double layer, as woven in Chile; stainless vertical wires ("harp")
RASCHEL = dict(shade=0.58, drag=1.18, fibre_mm=1.0)
WIRE_HARP = dict(shade=0.36, drag=1.30, fibre_mm=0.25)


class MeshParams(NamedTuple):
    """Trainable description of N meshes."""

    shade: tf.Tensor    # (N,)
    drag: tf.Tensor     # (N,)
    fibre: tf.Tensor    # (N,) mm


class CisternState(NamedTuple):
    level: tf.Tensor
    spill: tf.Tensor
    shortage: tf.Tensor


# ----------------------------------------------------------------------------
# Mesh aerodynamics
# ----------------------------------------------------------------------------

@tf.custom_gradient
def mesh_yield(wind, liquid, shade, drag):
    """Hourly water flux through meshes, before impaction losses.

    Parameters
    ----------
    wind : tf.Tensor, shape (T,)
        Wind speed normal to the mesh.
    liquid : tf.Tensor, shape (T,)
        Liquid water content.
    shade : tf.Tensor, shape (N,)
        Shade coefficient, between 0 and 1 (exclusive).
    drag : tf.Tensor, shape (N,)
        Drag coefficient of the frame, positive.

    Returns
    -------
    tf.Tensor, shape (T, N)
        Litres per square metre of mesh and hour.
    """
    scale = tf.cast(SECONDS_PER_HOUR * 1e-3, wind.dtype)
    open_part = 1.0 - shade
    ratio = shade / open_part
    pressure = PRESSURE_LINEAR * ratio + ratio * ratio
    root = tf.sqrt(pressure / drag)
    efficiency = shade / (1.0 + root)
    flux = scale * wind * liquid
    out = flux[:, None] * efficiency[None, :]

    def grad(upstream):
        g_flux = tf.linalg.matvec(upstream, efficiency)
        g_eff = tf.linalg.matvec(upstream, flux, transpose_a=True)
        d_pressure = (PRESSURE_LINEAR + 2.0 * ratio) / (open_part * open_part)
        d_root = 0.5 * root / pressure * d_pressure
        d_eff_root = -shade / tf.square(1.0 + root)
        g_shade = g_eff * (1.0 / (1.0 + root) + d_eff_root * d_root)
        g_drag = g_eff * d_eff_root * (-0.5 * root / drag)
        return (g_flux * scale * liquid, g_flux * scale * wind, g_shade, g_drag)

    return out, grad


# ----------------------------------------------------------------------------
# Droplet capture
# ----------------------------------------------------------------------------

def stokes_prefactor(diameters_um: np.ndarray) -> np.ndarray:
    """rho d^2 / (9 mu) for a fibre width given in mm, one value for each bin."""
    d = np.asarray(diameters_um, dtype=np.float64) * 1e-6
    return WATER_DENSITY * d ** 2 / (9.0 * AIR_VISCOSITY * 1e-3)


def impaction_rule(diameters_um: Sequence[float], exponent: float = 1.0):
    """Builds the capture efficiency for a fixed set of droplet bins.

    Args:
        diameters_um: bin centres in micrometres, K of them.
        exponent: power on the impaction curve St / (St + pi/2).  1.0 suits flat
            ribbons (Raschel), 2.0 round wires (the curve of Landahl and
            Herrmann's kind).

    Returns:
        A function of (speed, fibre, counts).
    """
    prefactor = stokes_prefactor(diameters_um)
    volume = (np.asarray(diameters_um, dtype=np.float64) / 10.0) ** 3

    @tf.custom_gradient
    def capture(speed, fibre, counts):
        # speed (S,), fibre (N,), counts (S, K) -> (S, N)
        pre = tf.constant(prefactor, dtype=speed.dtype)
        vol = tf.constant(volume, dtype=speed.dtype)
        stokes = speed[:, None, None] * pre / fibre[None, :, None]
        curve = stokes / (stokes + IMPACTION_OFFSET)
        eta = tf.pow(curve, exponent)
        mass = counts * vol
        total = tf.reduce_sum(mass, axis=-1, keepdims=True)
        mean = tf.einsum("snk,sk->sn", eta, mass) / total

        def grad(upstream):
            share = mass / total
            d_log_stokes = exponent * eta * (1.0 - eta)
            slope = tf.einsum("sn,snk,sk->sn", upstream, d_log_stokes, share)
            g_speed = tf.reduce_sum(slope, axis=1) / speed
            g_fibre = -tf.reduce_sum(slope, axis=0) / fibre
            excess = eta - mean[:, :, None]
            g_counts = tf.einsum("sn,snk->sk", upstream, excess) * vol / total
            return g_speed, g_fibre, g_counts

        return mean, grad

    return capture


# ----------------------------------------------------------------------------
# Gutters and pipes
# ----------------------------------------------------------------------------

def check_tree(parents: Sequence[int]) -> Tuple[int, ...]:
    """Validates a pipe tree: every pipe drains into a later one, or out (-1)."""
    parents = tuple(int(p) for p in parents)
    for i, p in enumerate(parents):
        if p != -1 and not i < p < len(parents):
            raise ValueError(f"pipe {i} drains into {p}; want a later pipe or -1")
    return parents


def gutter_tree(parents: Sequence[int]):
    """Routing through a pipe tree; `parents[i]` is the pipe that pipe i drains into."""
    parents = check_tree(parents)
    count = len(parents)

    @tf.custom_gradient
    def drained(inflow, keep):
        """Flow at the head of each pipe.

        inflow: (days, pipes) water which enters a pipe from its own gutter.
        keep: (pipes,) the fraction a pipe delivers at its foot.
        """
        flow = [inflow[:, i] for i in range(count)]
        for i, p in enumerate(parents):
            if p >= 0:
                flow[p] = flow[p] + keep[i] * flow[i]
        total = tf.stack(flow, axis=1)

        def grad(upstream):
            adjoint = [None] * count
            g_keep = [None] * count
            for i in reversed(range(count)):
                p = parents[i]
                adjoint[i] = upstream[:, i]
                if p >= 0:
                    adjoint[i] = adjoint[i] + keep[i] * adjoint[p]
                    g_keep[i] = tf.reduce_sum(adjoint[p] * flow[i])
                else:
                    g_keep[i] = tf.zeros([], dtype=keep.dtype)
            return tf.stack(adjoint, axis=1), tf.stack(g_keep)

        return total, grad

    return drained


# ----------------------------------------------------------------------------
# Cistern
# ----------------------------------------------------------------------------

@tf.custom_gradient
def cistern_balance(inflow, draw, capacity, start):
    """Day-by-day balance of cisterns.

    Each day the tank takes the inflow and gives the draw.  What exceeds the
    capacity spills, what the tank cannot give is the day's shortage.

    Args:
        inflow: (B, T) litres a day.
        draw: (B, T) litres a day wanted by the village.
        capacity: (B,) tank volumes.
        start: (B,) volumes on the eve of the first day.

    Returns:
        level, spill, shortage: each (B, T).
    """
    days = inflow.shape[1]
    level, spill, shortage, full_days, dry_days = [], [], [], [], []
    held = start
    for t in range(days):
        raw = held + inflow[:, t] - draw[:, t]
        full = raw > capacity
        dry = raw < 0.0
        held = tf.clip_by_value(raw, 0.0, capacity)
        level.append(held)
        spill.append(tf.nn.relu(raw - capacity))
        shortage.append(tf.nn.relu(-raw))
        full_days.append(full)
        dry_days.append(dry)

    def grad(g_level, g_spill, g_shortage):
        carry = tf.zeros_like(start)
        g_capacity = tf.zeros_like(capacity)
        g_net = [None] * days
        zero = tf.zeros_like(start)
        for t in reversed(range(days)):
            carry = carry + g_level[:, t]
            full, dry = full_days[t], dry_days[t]
            g_capacity += tf.where(full, carry - g_spill[:, t], zero)
            carry = tf.where(full, g_spill[:, t], carry)
            carry = carry - tf.where(dry, g_shortage[:, t], zero)
            g_net[t] = carry
        g_inflow = tf.stack(g_net, axis=1)
        return g_inflow, -g_inflow, g_capacity, carry

    outputs = (tf.stack(level, axis=1), tf.stack(spill, axis=1),
               tf.stack(shortage, axis=1))
    return outputs, grad


# ----------------------------------------------------------------------------
# The field
# ----------------------------------------------------------------------------

class FogField(tf.Module):
    """A field of meshes which drain through one pipe tree into one cistern.

    Args:
        meshes: list of dicts with keys shade, drag and fibre_mm.
        areas: square metres of each mesh.
        parents: pipe tree; pipe i takes the water of mesh i.
        diameters_um: droplet bins.
        round_wires: whether fibres are round wires rather than ribbons.
    """

    def __init__(self, meshes, areas, parents, diameters_um, round_wires=False,
                 dtype=tf.float32, name=None):
        super().__init__(name=name)
        col = lambda key: np.array([m[key] for m in meshes])
        shade = col("shade")
        self.shade_logit = tf.Variable(np.log(shade / (1 - shade)), dtype=dtype)
        self.log_drag = tf.Variable(np.log(col("drag")), dtype=dtype)
        self.log_fibre = tf.Variable(np.log(col("fibre_mm")), dtype=dtype)
        self.keep_logit = tf.Variable(np.full(len(meshes), 3.0), dtype=dtype)
        self.areas = tf.constant(areas, dtype=dtype)
        self._capture = impaction_rule(diameters_um, 2.0 if round_wires else 1.0)
        self._drained = gutter_tree(parents)
        self._outlets = [i for i, p in enumerate(parents) if p == -1]

    def params(self) -> MeshParams:
        return MeshParams(tf.sigmoid(self.shade_logit), tf.exp(self.log_drag),
                          tf.exp(self.log_fibre))

    def daily_inflow(self, weather: Dict[str, tf.Tensor]) -> tf.Tensor:
        """Litres that reach the cistern each day; hours come in whole days."""
        mesh = self.params()
        flux = mesh_yield(weather["wind"], weather["liquid"], mesh.shade, mesh.drag)
        caught = flux * self._capture(weather["wind"], mesh.fibre, weather["counts"])
        hourly = caught * self.areas
        daily = tf.reduce_sum(tf.reshape(hourly, [-1, 24, hourly.shape[-1]]), axis=1)
        routed = self._drained(daily, tf.sigmoid(self.keep_logit))
        return tf.add_n([routed[:, i] for i in self._outlets])

    def run(self, weather, draw, capacity, start) -> CisternState:
        inflow = self.daily_inflow(weather)[None, :]
        state = cistern_balance(inflow, draw[None, :], tf.reshape(capacity, [1]),
                                tf.reshape(start, [1]))
        return CisternState(*[x[0] for x in state])


def tank_misfit(state: CisternState, readings: tf.Tensor) -> tf.Tensor:
    """Mean squared misfit of the dipped level, in cubic metres."""
    return tf.reduce_mean(tf.square((state.level - readings) * 1e-3))


def synthetic_weather(days: int, bins: int, seed: int = 0, dtype=tf.float32):
    """A foggy season: wind, water content and gamma-shaped droplet spectra."""
    rng = np.random.default_rng(seed)
    hours = 24 * days
    wind = 3.0 + 2.0 * rng.random(hours)
    liquid = 0.05 + 0.25 * rng.random(hours)
    centre = 8.0 + 6.0 * rng.random(hours)
    diameters = np.linspace(4.0, 36.0, bins)
    counts = diameters ** 2 * np.exp(-3.0 * diameters / centre[:, None])
    weather = dict(wind=wind, liquid=liquid, counts=counts)
    return diameters, {k: tf.constant(v, dtype=dtype) for k, v in weather.items()}


def calibrate(field: FogField, weather, draw, readings, capacity, start,
              steps: int = 20, rate: float = 0.02):
    """Plain gradient descent on the tank misfit; returns the misfits."""
    history = []
    for _ in range(steps):
        with tf.GradientTape() as tape:
            loss = tank_misfit(field.run(weather, draw, capacity, start), readings)
        grads = tape.gradient(loss, field.trainable_variables)
        for var, g in zip(field.trainable_variables, grads):
            var.assign_sub(rate * tf.clip_by_norm(g, 1.0))
        history.append(float(loss))
    return history


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=10)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    diameters, weather = synthetic_weather(args.days, 9)
    field = FogField([RASCHEL, RASCHEL, WIRE_HARP], [40.0, 40.0, 24.0], [2, 2, -1],
                     diameters)
    draw = tf.fill([args.days], 250.0)
    capacity, start = tf.constant(3000.0), tf.constant(1200.0)
    truth = field.run(weather, draw, capacity, start)
    field.log_drag.assign_add([0.2, -0.1, 0.1])
    history = calibrate(field, weather, draw, truth.level, capacity, start, args.steps)
    print("misfit", history[0], "->", history[-1])


if __name__ == "__main__":
    main()
