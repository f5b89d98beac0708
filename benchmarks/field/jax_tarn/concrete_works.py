"""Early-age concrete: maturity of cast sections and grading of the aggregate."""

import jax
import jax.numpy as jnp

GAS_CONSTANT = 8.314e-3  # kJ / (mol K)
KELVIN = 273.15
REFERENCE_C = 20.0


@jax.custom_vjp
def nurse_saul_index(temps, datum, hours):
    """Temperature-time factor at every reading.

    Args:
      temps: Readings in degrees Celsius, shape (sensors, readings).
      datum: Datum temperature of each sensor's mix, shape (sensors,). Below it
        the mix does not mature.
      hours: Increasing clock times of the readings, shape (readings,), common to
        the sensors of a logger.

    Returns:
      Degree-hours from the first reading on, shape (sensors, readings); each
      interval counts with the mean of its two ends.
    """
    return _nurse_saul_fwd(temps, datum, hours)[0]


def _nurse_saul_fwd(temps, datum, hours):
    excess = temps - datum[:, None]
    active = excess > 0
    excess = jnp.where(active, excess, 0)
    steps = jnp.diff(hours)
    level = 0.5 * (excess[:, 1:] + excess[:, :-1])
    index = jnp.pad(jnp.cumsum(level * steps, axis=1), ((0, 0), (1, 0)))
    return index, (active, steps, level)


def _nurse_saul_bwd(res, g):
    active, steps, level = res
    # what every interval still contributes to: all the readings after it
    later = jnp.cumsum(g[:, :0:-1], axis=1)[:, ::-1]
    starts = jnp.pad(later, ((0, 0), (0, 1)))
    ends = jnp.pad(later, ((0, 0), (1, 0)))
    span = jnp.pad(steps, (0, 1), mode="edge")
    d_excess = jnp.where(active, 0.5 * span * (starts + ends), 0)
    d_steps = jnp.sum(later * level, axis=0)
    d_hours = jnp.pad(d_steps, (1, 0)) - jnp.pad(d_steps, (0, 1))
    return d_excess, -d_excess.sum(axis=1), d_hours


nurse_saul_index.defvjp(_nurse_saul_fwd, _nurse_saul_bwd)


def make_equivalent_age(hours, valid=None):
    """Equivalent age at 20 degrees for a fixed logging schedule.

    Args:
      hours: Length of the intervals, shape (intervals,).
      valid: Optional mask (sections, intervals), False where the logger dropped
        out; such an interval adds nothing.

    Returns:
      A function of (temps, base_energy, cold_slope).
    """

    def rates(temps, base_energy, cold_slope):
        cold = jnp.maximum(REFERENCE_C - temps, 0.0)
        energy = base_energy[:, None] + cold_slope * cold
        shift = 1.0 / (KELVIN + REFERENCE_C) - 1.0 / (KELVIN + temps)
        rate = jnp.exp(energy * shift / GAS_CONSTANT)
        weight = hours if valid is None else jnp.where(valid, hours, 0.0)
        return rate * weight, energy, shift, cold

    @jax.custom_vjp
    def equivalent_age(temps, base_energy, cold_slope):
        """temps (sections, intervals) in Celsius, base_energy (sections,) in
        kJ/mol, cold_slope a scalar in kJ/(mol K); gives hours, (sections,)."""
        return rates(temps, base_energy, cold_slope)[0].sum(axis=1)

    def fwd(temps, base_energy, cold_slope):
        aged, energy, shift, cold = rates(temps, base_energy, cold_slope)
        return aged.sum(axis=1), (aged, energy, shift, cold, temps, cold_slope)

    def bwd(res, g):
        aged, energy, shift, cold, temps, cold_slope = res
        d_exponent = g[:, None] * aged / GAS_CONSTANT
        d_energy = d_exponent * shift
        d_temps = d_exponent * energy / (KELVIN + temps) ** 2
        d_temps = d_temps - jnp.where(cold > 0, d_energy * cold_slope, 0.0)
        return d_temps, d_energy.sum(axis=1), jnp.sum(d_energy * cold)

    equivalent_age.defvjp(fwd, bwd)
    return equivalent_age


# ---------------------------------------------------------------------------
# grading


def make_fuller_misfit(sieves):
    """Distance from the Fuller curve on a set of sieves.

    Args:
      sieves: Openings in mm, shape (sieves,), the largest last.

    Returns:
      A function of (doses, passing, exponent).
    """
    log_size = jnp.log(jnp.asarray(sieves) / sieves[-1])
    n_sieves = log_size.shape[0]

    @jax.custom_gradient
    def fuller_misfit(doses, passing, exponent):
        """Mean squared distance per mix, (mixes,).

        Args:
          doses: Masses of the stockpiles in each mix, (mixes, piles), positive;
            any unit, since only the shares count.
          passing: Share of each pile that passes each sieve, (piles, sieves).
          exponent: Exponent of the Fuller curve of each mix, (mixes,).
        """
        total = doses.sum(axis=1, keepdims=True)
        share = doses / total
        ideal = jnp.exp(exponent[:, None] * log_size)
        gap = share @ passing - ideal

        def grad(g):
            d_gap = 2 * g[:, None] * gap / n_sieves
            d_share = d_gap @ passing.T
            centred = d_share - jnp.sum(d_share * share, axis=1, keepdims=True)
            d_exponent = -jnp.sum(d_gap * ideal * log_size, axis=1)
            return centred / total, share.T @ d_gap, d_exponent

        return jnp.mean(gap**2, axis=1), grad

    return fuller_misfit


def strength_from_index(index, params):
    """Plowman's logarithmic law, with ``params`` a dict of "a" and "b"."""
    return params["a"] + params["b"] * jnp.log10(jnp.maximum(index, 1.0))


def ready_to_strike(temps, datum, hours, params, required):
    """Smooth indicator that the formwork may be struck, (sensors,)."""
    index = nurse_saul_index(temps, datum, hours)[:, -1]
    return jax.nn.sigmoid(strength_from_index(index, params) - required)
