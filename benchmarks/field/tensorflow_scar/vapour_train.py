"""Gas-side unit relations for differentiable flowsheets, backend agnostic."""
import dataclasses

import keras
from keras import ops


def _reduce_like(g, ref):
    shape = tuple(ref.shape)
    extra = len(g.shape) - len(shape)
    if extra:
        g = ops.sum(g, axis=tuple(range(extra)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and g.shape[i] != 1)
    return ops.sum(g, axis=axes, keepdims=True) if axes else g


def make_wilke(molar_mass):
    """Wilke's mixing rule for the viscosity of a low-pressure gas, species last."""

    @ops.custom_gradient
    def mixture_viscosity(fraction, viscosity):
        m = ops.convert_to_tensor(molar_mass, dtype=keras.backend.standardize_dtype(viscosity.dtype))
        ratio = m[:, None] / m[None, :]
        bottom = ops.sqrt(8.0 * (1.0 + ratio))
        t = ops.sqrt(viscosity[..., :, None] / viscosity[..., None, :]) * ratio ** (-0.25)
        phi = (1.0 + t) ** 2 / bottom
        crowd = ops.sum(phi * fraction[..., None, :], axis=-1)
        part = fraction * viscosity / crowd

        def grad(*args, upstream=None):
            dy = (upstream if upstream is not None else args[0])[..., None]
            pull = part / crowd
            d_fraction = viscosity / crowd - ops.sum(phi * pull[..., None, :], axis=-1)
            slope = (1.0 + t) * t / bottom
            pair = pull[..., :, None] * fraction[..., None, :] * slope
            d_log = part - ops.sum(pair, axis=-1) + ops.sum(pair, axis=-2)
            return dy * d_fraction, dy * d_log / viscosity

        return ops.sum(part, axis=-1), grad

    return mixture_viscosity


@dataclasses.dataclass(frozen=True)
class ValveTrim:
    """Gas and trim data of a control valve (IEC 60534-2-1)."""

    molar_mass: float = 28.96
    compressibility: float = 1.0
    heat_ratio: float = 1.4
    choke_ratio: float = 0.72  # x_T of the trim
    unit_factor: float = 2.73


def gas_valve(trim=ValveTrim()):
    """Builds the mass-flow function of a control valve in gas service.

    The function takes `(cv, p_up, p_down, temperature)`, which broadcast
    against each other, with positive pressures and temperature in kelvin. The
    flow is limited once the pressure-drop ratio passes the choking ratio of
    gas and trim, after which `p_down` has no influence. A valve with
    `p_down >= p_up` acts as a check valve: no flow, no gradient.
    """
    x_choke = trim.heat_ratio / 1.4 * trim.choke_ratio
    k = trim.unit_factor * (trim.molar_mass / trim.compressibility) ** 0.5

    @ops.custom_gradient
    def mass_flow(cv, p_up, p_down, temperature):
        drop = 1.0 - p_down / p_up
        flowing = drop > 0.0
        choked = drop >= x_choke
        x = ops.where(choked, x_choke, drop)
        x = ops.where(flowing, x, 0.25 * x_choke)
        expansion = 1.0 - x / (3.0 * x_choke)
        f = ops.where(flowing, expansion * ops.sqrt(x), ops.zeros_like(x))
        base = k / ops.sqrt(temperature)
        flow = base * cv * p_up * f

        def grad(*args, upstream=None):
            dy = upstream if upstream is not None else args[0]
            slope = 0.5 * expansion / ops.sqrt(x) - ops.sqrt(x) / (3.0 * x_choke)
            live = ops.logical_and(flowing, ops.logical_not(choked))
            slope = ops.where(live, slope, ops.zeros_like(slope))
            d_cv = dy * base * p_up * f
            d_up = dy * base * cv * (f + slope * p_down / p_up)
            d_down = -dy * base * cv * slope
            d_temp = -0.5 * dy * flow / temperature
            return (
                _reduce_like(d_cv, cv),
                _reduce_like(d_up, p_up),
                _reduce_like(d_down, p_down),
                _reduce_like(d_temp, temperature),
            )

        return flow, grad

    return mass_flow


VISCOUS, INERTIAL = 150.0, 1.75


def regenerator_drop(velocity, voidage, pellet, depth, rho=1.2, mu=1.8e-5):
    # velocity [batch], layers [n]; velocity < 0 while the bed is purged backwards

    @ops.custom_gradient
    def ergun(velocity, voidage, pellet, depth):
        v = velocity[:, None]
        solid = 1.0 - voidage
        lam = VISCOUS * mu * solid**2 / (voidage**3 * pellet**2)
        tur = INERTIAL * rho * solid / (voidage**3 * pellet)
        per_metre = lam * v + tur * v * ops.abs(v)

        def grad(*args, upstream=None):
            dy = (upstream if upstream is not None else args[0])[:, None]
            d_v = ops.sum(dy * depth * (lam + 2.0 * tur * v), axis=1)
            g = dy * depth
            lv, tv = g * lam * v, g * tur * v * ops.abs(v)
            d_void = -lv * (2.0 / solid + 3.0 / voidage) - tv * (1.0 / solid + 3.0 / voidage)
            d_pellet = -(2.0 * lv + tv) / pellet
            return (
                d_v,
                ops.sum(d_void, axis=0),
                ops.sum(d_pellet, axis=0),
                ops.sum(dy * per_metre, axis=0),
            )

        return ops.sum(per_metre * depth, axis=1), grad

    return ergun(velocity, voidage, pellet, depth)
