"""Differentiable husbandry model of a multi-tank reef aquarium.

The facility runs several display tanks on one sump.  The model is used to fit
husbandry parameters (species respiration coefficients, lamp mounting, calcium
uptake) to the logbook, and to plan dosing:

* toxic (un-ionised) ammonia from total ammonia nitrogen, pH, temperature and
  salinity;
* light reaching each coral from the lamp gantry;
* metabolic load of each tank from the animals living in it;
* the alkalinity trace under daily dosing, uptake and water changes.

Everything is plain TensorFlow 2.  The pieces that sit in the inner loop of the
fit carry their own gradients, as the automatic ones keep a tape of several
hundred days times several hundred animals.
"""

import math

import numpy as np
import tensorflow as tf

KELVIN = 273.15
LN10 = math.log(10.0)

# Whitfield / Bell et al. dissociation of ammonium in sea water.
PKA_INTERCEPT = 0.0901821
PKA_INVERSE_T = 2729.92
PKA_ION = 0.1552
PKA_ION_T = 3.142e-4
ION_A = 19.9273
ION_B = 1.005109

# Kleiber exponent for resting metabolism.
RESTING_EXPONENT = 0.75
MIN_DROP = 1e-6

QUARANTINE = -1


def _sum_to(x, shape):
    """Sum a broadcast gradient back to ``shape``."""
    shape = tf.TensorShape(shape).as_list()
    extra = x.shape.rank - len(shape)
    if extra:
        x = tf.reduce_sum(x, axis=list(range(extra)))
    axes = [i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1]
    if axes:
        x = tf.reduce_sum(x, axis=axes, keepdims=True)
    return x


def ionic_strength(salinity):
    """Molal ionic strength of sea water of practical salinity ``salinity``."""
    return ION_A * salinity / (1000.0 - ION_B * salinity)


def ammonium_pka(temp_c, salinity):
    """Stoichiometric pKa of NH4+ in sea water."""
    strength = ionic_strength(salinity)
    return (
        PKA_INTERCEPT
        + PKA_INVERSE_T / (temp_c + KELVIN)
        + (PKA_ION - PKA_ION_T * temp_c) * strength
    )


@tf.custom_gradient
def free_ammonia(tan, ph, temp_c, salinity):
    """Un-ionised ammonia, in the unit of ``tan``.

    Parameters
    ----------
    tan, ph : tf.Tensor, shape (tanks, days)
        Total ammonia nitrogen (mg/L) and pH of the evening test.
    temp_c, salinity : tf.Tensor
        Water temperature (deg C) and practical salinity; anything that
        broadcasts against ``tan``, commonly ``(tanks, 1)`` or ``()``.

    Returns
    -------
    tf.Tensor
        Same shape as ``tan``.
    """
    pka = ammonium_pka(temp_c, salinity)
    fraction = tf.sigmoid(LN10 * (ph - pka))
    out = tan * fraction

    def grad(upstream):
        d_ph = upstream * tan * LN10 * fraction * (1.0 - fraction)
        strength = ionic_strength(salinity)
        pka_t = -PKA_INVERSE_T / tf.square(temp_c + KELVIN) - PKA_ION_T * strength
        pka_s = (PKA_ION - PKA_ION_T * temp_c) * (
            1000.0 * ION_A / tf.square(1000.0 - ION_B * salinity)
        )
        return (
            _sum_to(upstream * fraction, tan.shape),
            _sum_to(d_ph, ph.shape),
            _sum_to(-d_ph * pka_t, temp_c.shape),
            _sum_to(-d_ph * pka_s, salinity.shape),
        )

    return out, grad


def make_lamp_par(beam_exponent=1.0):
    """Build the gantry light model for lamps with a ``cos**beam_exponent`` beam.

    1.0 is a bare Lambertian emitter; reflectors and 60 degree lenses are
    specified by their makers at 2.5 to 6.

    Returns ``lamp_par(flux, lamp_xyz, coral_xyz, lit, attenuation)``.
    """
    m = float(beam_exponent)
    spread = (m + 1.0) / (2.0 * math.pi)

    @tf.custom_gradient
    def lamp_par(flux, lamp_xyz, coral_xyz, lit, attenuation):
        # flux (L,), lamp_xyz (L, 3), coral_xyz (N, 3), lit (L,) of 0/1 -> (N,)
        ray = lamp_xyz[None, :, :] - coral_xyz[:, None, :]
        drop = ray[..., 2]
        above = tf.cast(drop > MIN_DROP, flux.dtype)
        drop = tf.maximum(drop, MIN_DROP)
        r2 = tf.reduce_sum(tf.square(ray), axis=-1)
        r = tf.sqrt(r2)
        cosine = drop / r
        unit = above * spread * tf.pow(cosine, m) * tf.exp(-attenuation * r) / r2
        par = tf.reduce_sum(unit * lit * flux, axis=1)

        def grad(upstream):
            share = upstream[:, None] * unit
            d_flux = tf.reduce_sum(share * lit, axis=0)
            d_lit = tf.reduce_sum(share * flux, axis=0)
            weight = share * lit * flux
            down = tf.constant([0.0, 0.0, 1.0], dtype=flux.dtype)
            slope = (
                down / drop[..., None]
                - 3.0 * ray / r2[..., None]
                - attenuation * ray / r[..., None]
            )
            pull = weight[..., None] * slope
            return (
                d_flux,
                tf.reduce_sum(pull, axis=0),
                -tf.reduce_sum(pull, axis=1),
                d_lit,
                -tf.reduce_sum(weight * r),
            )

        return par, grad

    return lamp_par


class BioloadPool(tf.Module):
    """Metabolic load (mg O2 per hour) of every tank.

    Args:
      species_of: integer table (animals,), row of the respiration table.
      tank_of: integer table (animals,), tank the animal lives in;
        ``QUARANTINE`` for animals presently outside the system.
      num_species: rows of the respiration table.
      num_tanks: length of the result.
    """

    def __init__(self, species_of, tank_of, num_species, num_tanks, name=None):
        super().__init__(name=name)
        self.species_of = tf.constant(np.asarray(species_of, np.int32))
        self.tank_of = tf.constant(np.asarray(tank_of, np.int32))
        self.num_species = int(num_species)
        self.num_tanks = int(num_tanks)

    def __call__(self, respiration, mass, exponent):
        """Sum ``respiration[species] * mass ** exponent`` tank by tank.

        Args:
          respiration: (num_species,)
          mass: (animals,), grams, positive.
          exponent: scalar allometric exponent.
        """
        species_of, tank_of = self.species_of, self.tank_of
        num_species, num_tanks = self.num_species, self.num_tanks

        @tf.custom_gradient
        def pooled_bioload(respiration, mass, exponent):
            base = tf.pow(mass, exponent)
            coef = tf.gather(respiration, species_of)
            load = tf.math.unsorted_segment_sum(coef * base, tank_of, num_tanks)

            def grad(upstream):
                here = tf.cast(tank_of >= 0, mass.dtype)
                g = here * tf.gather(upstream, tf.maximum(tank_of, 0))
                d_resp = tf.math.unsorted_segment_sum(g * base, species_of, num_species)
                d_mass = g * coef * exponent * base / mass
                d_exponent = tf.reduce_sum(g * coef * base * tf.math.log(mass))
                return d_resp, d_mass, d_exponent

            return load, grad

        return pooled_bioload(respiration, mass, exponent)


@tf.custom_gradient
def alkalinity_trace(initial, dose, change, uptake):
    """Evening alkalinity of each tank, day by day.

    In the morning a fraction of the water is exchanged with zero-alkalinity
    make-up water, corals then consume over the day, and the doser adds its
    amount in the evening:

        a[t] = exp(-uptake) * (1 - change[t]) * a[t-1] + dose[t]

    ``initial`` (tanks,) is the alkalinity on the evening before the first day,
    ``dose`` and ``change`` are (tanks, days), ``uptake`` (tanks,) per day.
    """
    rho = tf.exp(-uptake)
    kept = rho[:, None] * (1.0 - change)
    days = dose.shape[1]
    level = initial
    before, after = [], []
    for t in range(days):
        before.append(level)
        level = kept[:, t] * level + dose[:, t]
        after.append(level)
    before = tf.stack(before, axis=1)
    trace = tf.stack(after, axis=1)

    def grad(upstream):
        adjoint = [None] * days
        carry = tf.zeros_like(initial)
        for t in reversed(range(days)):
            carry = carry + upstream[:, t]
            adjoint[t] = carry
            if t > 0:
                carry = kept[:, t] * carry
        lam = tf.stack(adjoint, axis=1)
        d_initial = rho * carry
        d_change = -lam * rho[:, None] * before
        d_uptake = -tf.reduce_sum(lam * kept * before, axis=1)
        return d_initial, lam, d_change, d_uptake

    return trace, grad


class ReefModel(tf.Module):
    """All of the facility, with its fitted weights."""

    def __init__(self, bioload, num_tanks, beam_exponent=1.0, name=None):
        super().__init__(name=name)
        self.bioload = bioload
        self.light = make_lamp_par(beam_exponent)
        self.log_respiration = tf.Variable(tf.zeros([bioload.num_species]))
        self.exponent = tf.Variable(RESTING_EXPONENT)
        self.log_uptake = tf.Variable(tf.fill([num_tanks], -2.5))
        self.excretion = tf.Variable(0.05)
        self.attenuation = tf.Variable(0.12)

    def tank_load(self, mass):
        return self.bioload(tf.exp(self.log_respiration), mass, self.exponent)

    def alkalinity(self, initial, dose, change):
        return alkalinity_trace(initial, dose, change, tf.exp(self.log_uptake))

    def toxicity(self, mass, ph, temp_c, salinity):
        """Un-ionised ammonia of each tank and day, from the animals' load."""
        tan = self.excretion * self.tank_load(mass)[:, None]
        tan = tan * tf.ones_like(ph)
        return free_ammonia(tan, ph, temp_c, salinity)

    def coral_light(self, flux, lamp_xyz, coral_xyz, lit):
        return self.light(flux, lamp_xyz, coral_xyz, lit, self.attenuation)


def logbook_loss(model, book):
    """Squared misfit to the logbook (a dict of tensors)."""
    alk = model.alkalinity(book["alk0"], book["dose"], book["change"])
    nh3 = model.toxicity(book["mass"], book["ph"], book["temp"], book["salinity"])
    par = model.coral_light(book["flux"], book["lamps"], book["corals"], book["lit"])
    return (
        tf.reduce_mean(tf.square(alk - book["alk"]))
        + tf.reduce_mean(tf.square(nh3 - book["nh3"]))
        + 1e-4 * tf.reduce_mean(tf.square(par - book["par"]))
    )


def synthetic_logbook(rng, tanks=3, days=12, animals=9, lamps=4, corals=6):
    f = lambda *s: rng.uniform(size=s).astype(np.float32)
    change = np.zeros((tanks, days), np.float32)
    change[:, 6::7] = 0.15
    book = {
        "alk0": 7.0 + f(tanks),
        "dose": 0.4 + 0.2 * f(tanks, days),
        "change": change,
        "alk": 7.5 + f(tanks, days),
        "mass": 5.0 + 60.0 * f(animals),
        "ph": 7.9 + 0.4 * f(tanks, days),
        "temp": 25.0 + 2.0 * f(tanks, 1),
        "salinity": 33.0 + 3.0 * f(tanks, 1),
        "nh3": 0.02 * f(tanks, days),
        "flux": 200.0 + 50.0 * f(lamps),
        "lamps": f(lamps, 3) * [2.0, 1.0, 0.1] + [0.0, 0.0, 1.2],
        "corals": f(corals, 3) * [2.0, 1.0, 0.5],
        "lit": (f(lamps) > 0.2).astype(np.float32),
        "par": 150.0 + 50.0 * f(corals),
    }
    return {k: tf.constant(v, tf.float32) for k, v in book.items()}


if __name__ == "__main__":
    rng = np.random.default_rng(4)
    pool = BioloadPool(
        species_of=[0, 1, 1, 2, 0, 3, 2, 1, 0],
        tank_of=[0, 0, 1, 2, QUARANTINE, 1, 1, 2, 0],
        num_species=4,
        num_tanks=3,
    )
    reef = ReefModel(pool, num_tanks=3, beam_exponent=2.5)
    book = synthetic_logbook(rng)
    optimiser = tf.keras.optimizers.Adam(1e-2)
    for step in range(5):
        with tf.GradientTape() as tape:
            loss = logbook_loss(reef, book)
        grads = tape.gradient(loss, reef.trainable_variables)
        optimiser.apply_gradients(zip(grads, reef.trainable_variables))
        print(step, float(loss))
