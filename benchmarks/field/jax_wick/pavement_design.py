"""Mechanistic-empirical pavement design, differentiable in the mix and traffic.
"""
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

# single, tandem, tridem, steering
STANDARD_LOAD_KN = np.array([80.0, 148.0, 200.0, 65.0])


def default_traffic_params():
    return {
        "exponent": jnp.array([4.0, 4.2, 4.1, 3.8]),
        "reference": jnp.asarray(STANDARD_LOAD_KN),
    }


@jax.custom_vjp
def equivalent_thickness(thickness, modulus, factor):
    """Odemark's transformed depth of every interface.

    Args:
        thickness: Layer thicknesses, [sections, layers].
        modulus: Stiffness of the layers and of the subgrade below them,
            [sections, layers + 1].
        factor: Correction factor of each interface, [layers].

    Returns:
        Depth of each interface in material of the layer below it,
        [sections, layers].
    """
    root = jnp.cbrt(modulus)
    return factor * jnp.cumsum(thickness * root[:, :-1], axis=-1) / root[:, 1:]


def _odemark_fwd(thickness, modulus, factor):
    root = jnp.cbrt(modulus)
    depth = jnp.cumsum(thickness * root[:, :-1], axis=-1) / root[:, 1:]
    return factor * depth, (thickness, modulus, root, factor, depth)


def _odemark_bwd(res, g):
    thickness, modulus, root, factor, depth = res
    carried = jnp.flip(jnp.cumsum(jnp.flip(g * factor / root[:, 1:], -1), -1), -1)
    d_thickness = carried * root[:, :-1]
    d_log = jnp.zeros_like(modulus)
    d_log = d_log.at[:, :-1].add(d_thickness * thickness)
    d_log = d_log.at[:, 1:].add(-g * factor * depth)
    return d_thickness, d_log / (3.0 * modulus), jnp.sum(g * depth, axis=0)


equivalent_thickness.defvjp(_odemark_fwd, _odemark_bwd)


def _to_groups(values, group, like):
    return jnp.zeros_like(like).at[group].set(values)


@jax.custom_vjp
def axle_damage(params, counts, load, group):
    """Equivalent standard axles per day from a weigh-in-motion spectrum.

    Args:
        params: Dict with "exponent" [groups] and "reference" [groups], the
            damage exponent and the standard load of every axle group.
        counts: Axles per day and load bin, [days, bins].
        load: Mid-point of each load bin in kN, [bins].
        group: Axle group of each load bin (integers), [bins].

    Returns:
        Equivalent standard axles, [days].
    """
    ealf = (load / params["reference"][group]) ** params["exponent"][group]
    return counts @ ealf


def _axle_fwd(params, counts, load, group):
    ratio = load / params["reference"][group]
    ealf = ratio ** params["exponent"][group]
    return counts @ ealf, (params, counts, load, group, ratio, ealf)


def _axle_bwd(res, g):
    params, counts, load, group, ratio, ealf = res
    power = params["exponent"][group]
    weight = (g @ counts) * ealf
    d_params = {
        "exponent": _to_groups(weight * jnp.log(ratio), group, params["exponent"]),
        "reference": _to_groups(-weight * power / params["reference"][group], group, params["reference"]),
    }
    return d_params, g[:, None] * ealf, weight * power / load, None


axle_damage.defvjp(_axle_fwd, _axle_bwd)


def make_rut_model(hardening="time"):
    """Builds the permanent deformation model of a section.

    Args:
        hardening: "time" adds, season by season, the increment of the curve at
            the accumulated number of passes; "strain" restarts each season
            from the passes that would have given the present deformation.

    Returns:
        A function (strain [layers, seasons], passes [seasons],
        slope [layers], thickness [layers]) -> rut depth, scalar.
    """
    def curves(passes, slope):
        total = jnp.cumsum(passes)
        before = jnp.concatenate([jnp.zeros_like(total[:1]), total[:-1]])
        return total, before, total ** slope[:, None] - before ** slope[:, None]

    @jax.custom_vjp
    def rut_depth(strain, passes, slope, thickness):
        return fwd(strain, passes, slope, thickness)[0]

    def fwd(strain, passes, slope, thickness):
        _, _, rise = curves(passes, slope)
        if hardening == "time":
            layer = jnp.sum(strain * rise, axis=1)
            work = None
        else:
            work = jnp.sum(strain ** (1.0 / slope[:, None]) * passes, axis=1)
            layer = work**slope
        return thickness @ layer, (strain, passes, slope, thickness, rise, layer, work)

    def bwd(res, g):
        strain, passes, slope, thickness, rise, layer, work = res
        gh = g * thickness
        d_strain = gh[:, None] * rise
        if hardening == "time":
            total, before, _ = curves(passes, slope)
            m = slope[:, None]
            logs = jnp.log(jnp.where(before > 0, before, 1.0))
            d_slope = jnp.sum(strain * (total**m * jnp.log(total) - before**m * logs), axis=1)
            later = jnp.concatenate([strain[:, 1:], jnp.zeros_like(strain[:, :1])], axis=1)
            per_total = jnp.einsum("l,ls->s", gh, m * total ** (m - 1.0) * (strain - later))
            d_passes = jnp.cumsum(per_total[::-1])[::-1]
        else:
            base = strain ** (1.0 / slope[:, None])
            pull = work ** (slope - 1.0)
            d_slope = layer * jnp.log(work) - pull * ((base * jnp.log(strain)) @ passes) / slope
            d_passes = jnp.einsum("l,ls->s", gh * slope * pull, base)
        return d_strain, d_passes, gh * d_slope, g * layer

    rut_depth.defvjp(fwd, bwd)
    return rut_depth


@dataclasses.dataclass(frozen=True)
class MasterCurve:
    """Sigmoidal dynamic modulus of an asphalt mix; the shift is "quadratic" or "arrhenius"."""

    t_ref: float = 21.0
    shift: str = "quadratic"

    def log_shift(self, c, temperature):
        """Log10 of the shift factor with its slopes in c and temperature."""
        if self.shift == "quadratic":
            d = temperature - self.t_ref
            return c[0] * d + c[1] * d**2, (d, d**2), c[0] + 2.0 * c[1] * d
        kelvin = temperature + 273.15
        inv = 1.0 / kelvin - 1.0 / (self.t_ref + 273.15)
        return c[0] * inv, (inv, jnp.zeros_like(inv)), -c[0] / kelvin**2

    def evaluator(self):
        """Returns modulus(coef, temperature [T], frequency [F]) -> log10 modulus [T, F].

        `coef` is a dict with scalars "floor", "rise", "centre", "steep" and the
        two shift coefficients "shift".
        """

        @jax.custom_vjp
        def modulus(coef, temperature, frequency):
            return fwd(coef, temperature, frequency)[0]

        def fwd(coef, temperature, frequency):
            log_a, by_c, by_t = self.log_shift(coef["shift"], temperature)
            reduced = jnp.log10(frequency)[None, :] + log_a[:, None]
            s = jax.nn.sigmoid(coef["centre"] + coef["steep"] * reduced)
            return coef["floor"] + coef["rise"] * s, (coef, s, reduced, by_c, by_t, frequency)

        def bwd(res, g):
            coef, s, reduced, by_c, by_t, frequency = res
            g_arg = g * coef["rise"] * s * (1.0 - s)
            g_red = g_arg * coef["steep"]
            rows = g_red.sum(axis=1)
            d_coef = {
                "floor": g.sum(),
                "rise": jnp.sum(g * s),
                "centre": g_arg.sum(),
                "steep": jnp.sum(g_arg * reduced),
                "shift": jnp.stack([rows @ by_c[0], rows @ by_c[1]]),
            }
            return d_coef, rows * by_t, g_red.sum(axis=0) / (frequency * jnp.log(10.0))

        modulus.defvjp(fwd, bwd)
        return modulus
