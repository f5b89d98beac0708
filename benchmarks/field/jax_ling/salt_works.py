"""Solar salt works: concentrating ponds and crystallisers.

Sea water enters the first pond of a circuit and loses water by evaporation while it
moves from pond to pond.  Gypsum falls out half way, halite in the crystallisers and
the bitterns leave at the end.  This module contains the pieces which are
calibrated on pond logs:

* the activity of water over a brine, which slows the evaporation down,
* the steady march of flow and salinity through a circuit,
* the make-up of a deposit in mass shares.

Units: salinity as mass fraction, flows in m3 per day, areas in m2, evaporation in m
per day.
"""

import functools
import string

import jax
import jax.numpy as jnp

SEA_SALINITY = 0.035
MIN_DEPOSIT = 1e-12

# Quadratic fit of water activity over NaCl-dominated brines
ACTIVITY_LINEAR = 0.55
ACTIVITY_SQUARE = 1.42

# Halite saturation, mass fraction at 20 C and its slope per kelvin
SATURATION_20 = 0.264
SATURATION_SLOPE = 0.00021

# g/mol: calcite, gypsum, halite, kieserite, sylvite
MOLAR_MASS = jnp.array([100.09, 172.17, 58.44, 138.38, 74.55])
SPECIES = ("calcite", "gypsum", "halite", "kieserite", "sylvite")


def saturation(temperature):
    """Salinity at which halite starts to fall out."""
    return SATURATION_20 + SATURATION_SLOPE * (temperature - 20.0)


def activity_polynomial(salinity):
    return 1.0 - ACTIVITY_LINEAR * salinity - ACTIVITY_SQUARE * salinity**2


# ------------------------------------------------------------------ activity


@jax.custom_jvp
def brine_activity(salinity, temperature):
    """Activity of water over the brine.

    Saturated brine keeps the activity it has at saturation however much further
    it is concentrated, since halite leaves the solution.

    :param salinity: mass fraction, array
    :param temperature: Celsius, same shape as ``salinity``
    """
    return activity_polynomial(jnp.minimum(salinity, saturation(temperature)))


@brine_activity.defjvp
def _brine_activity_jvp(primals, tangents):
    salinity, temperature = primals
    salinity_dot, temperature_dot = tangents
    limit = saturation(temperature)
    dissolved = jnp.minimum(salinity, limit)
    dissolved_dot = jnp.where(
        salinity < limit, salinity_dot, SATURATION_SLOPE * temperature_dot
    )
    slope = -ACTIVITY_LINEAR - 2.0 * ACTIVITY_SQUARE * dissolved
    return activity_polynomial(dissolved), slope * dissolved_dot


# ------------------------------------------------------------------ circuit


def _pond(flow, salinity, loss, suppression):
    """Outlet of one pond. ``loss`` is fresh-water evaporation times area."""
    outflow = flow - loss * (1.0 - suppression * salinity)
    return outflow, salinity * flow / outflow


@jax.custom_vjp
def march_circuit(inflow, intake_salinity, areas, evaporation, suppression):
    """March brine through the ponds of one circuit.

    inflow, intake_salinity, suppression: scalars.
    areas, evaporation: (ponds,).

    Returns the salinity leaving each pond and the flow leaving each pond, both
    (ponds,).
    """

    def step(state, loss):
        flow, salt = _pond(*state, loss, suppression)
        return (flow, salt), (salt, flow)

    _, (salts, flows) = jax.lax.scan(
        step, (inflow, intake_salinity), areas * evaporation
    )
    return salts, flows


def _march_fwd(inflow, intake_salinity, areas, evaporation, suppression):
    salts, flows = march_circuit(inflow, intake_salinity, areas, evaporation, suppression)
    saved = (inflow, intake_salinity, areas, evaporation, suppression, salts, flows)
    return (salts, flows), saved


def _march_bwd(saved, cotangents):
    inflow, intake_salinity, areas, evaporation, suppression, salts, flows = saved
    salts_bar, flows_bar = cotangents
    flow_in = jnp.concatenate([jnp.reshape(inflow, (1,)), flows[:-1]])
    salt_in = jnp.concatenate([jnp.reshape(intake_salinity, (1,)), salts[:-1]])
    losses = areas * evaporation

    def back(carry, pond):
        flow_bar, salt_bar = carry
        q, s, q_out, loss, s_out_bar = pond
        salt_bar = salt_bar + s_out_bar
        # s_out = s q / q_out
        q_out_bar = flow_bar - salt_bar * s * q / q_out**2
        drying = 1.0 - suppression * s
        q_bar = q_out_bar + salt_bar * s / q_out
        s_bar = salt_bar * q / q_out + q_out_bar * loss * suppression
        loss_bar = -q_out_bar * drying
        suppression_bar = q_out_bar * loss * s
        return (q_bar, s_bar), (loss_bar, suppression_bar)

    start = (flows_bar[-1], jnp.zeros_like(salts_bar[-1]))
    (inflow_bar, intake_bar), (loss_bar, suppression_bar) = jax.lax.scan(
        back, start, (flow_in, salt_in, flows, losses, salts_bar), reverse=True
    )
    return (
        inflow_bar,
        intake_bar,
        loss_bar * evaporation,
        loss_bar * areas,
        jnp.sum(suppression_bar),
    )


march_circuit.defvjp(_march_fwd, _march_bwd)


# ------------------------------------------------------------------ deposits


@functools.lru_cache(maxsize=None)
def make_deposit_shares(axis: int = -1):
    """Mass shares of the species in a deposit.

    Parameters
    ----------
    axis : int
        Axis of the moles array which holds the species.  Pond logs are stored with
        species last, core sections with species first.
    """

    @jax.custom_gradient
    def deposit_shares(moles, molar_mass):
        """moles: any shape with the species on `axis`; molar_mass: (species,)."""
        place = axis % moles.ndim
        shape = [1] * moles.ndim
        shape[place] = molar_mass.shape[0]
        heavy = molar_mass.reshape(shape)
        mass = moles * heavy
        total = jnp.sum(mass, axis=place, keepdims=True) + MIN_DEPOSIT
        shares = mass / total
        others = tuple(i for i in range(moles.ndim) if i != place)

        def pullback(shares_bar):
            drag = jnp.sum(shares_bar * shares, axis=-1, keepdims=True)
            mass_bar = (shares_bar - drag) / total
            return mass_bar * heavy, jnp.sum(mass_bar * moles, axis=others)

        return shares, pullback

    return deposit_shares


# ------------------------------------------------------------------ plant


class SaltWorks:
    """A plant with several parallel circuits.

    Parameters live in a dict ``{"circuits": [...], "suppression": ...}``; each circuit
    is a dict with the inflow and the pond areas.
    """

    def __init__(self, names, evaporation):
        self.names = tuple(names)
        self.evaporation = evaporation

    def init(self, inflows, areas):
        circuits = [
            {"inflow": jnp.asarray(q), "areas": jnp.asarray(a)}
            for q, a in zip(inflows, areas)
        ]
        return {"circuits": circuits, "suppression": jnp.asarray(1.6)}

    def run(self, params):
        """Salinities and flows of each circuit, keyed by name."""
        out = {}
        for name, circuit in zip(self.names, params["circuits"]):
            rate = jnp.broadcast_to(self.evaporation, circuit["areas"].shape)
            out[name] = march_circuit(
                circuit["inflow"],
                jnp.asarray(SEA_SALINITY),
                circuit["areas"],
                rate,
                params["suppression"],
            )
        return out

    def misfit(self, params, readings):
        """Squared differences to the hydrometer and weir readings of all ponds."""
        total = 0.0
        for name, (salts, flows) in self.run(params).items():
            seen = readings[name]
            total += jnp.sum(((salts - seen["salinity"]) / 0.01) ** 2)
            total += jnp.sum(((flows - seen["flow"]) / 10.0) ** 2)
        return total


def deposit_purity(moles, species_axis=-1, species="halite"):
    """Mass share of one species, with the species axis removed."""
    shares = make_deposit_shares(species_axis)(moles, MOLAR_MASS)
    return jnp.take(shares, SPECIES.index(species), axis=species_axis)


def evaporation_rate(fresh, salinity, temperature, humidity):
    """Dalton-type scaling of a fresh-water rate, all arguments alike in shape."""
    drive = brine_activity(salinity, temperature) - humidity
    return fresh * jnp.maximum(drive, 0.0) / (1.0 - humidity)


def purity_target(core_moles, wanted):
    """Misfit of a core, moles given as (species, sections)."""
    return jnp.mean((deposit_purity(core_moles, species_axis=0) - wanted) ** 2)


def label_ponds(count):
    return [f"pond {string.ascii_uppercase[i]}" for i in range(count)]


def main():
    works = SaltWorks(("north", "south"), evaporation=0.006)
    params = works.init([900.0, 640.0], [[2.0e4, 3.0e4, 2.5e4, 1.5e4], [3.0e4, 2.0e4, 1.0e4]])
    for name, (salts, flows) in works.run(params).items():
        for label, salt, flow in zip(label_ponds(salts.size), salts, flows):
            print(f"{name:6s} {label}: {float(salt):.4f} {float(flow):8.2f}")

    readings = {
        "north": {
            "salinity": jnp.array([0.040, 0.049, 0.060, 0.070]),
            "flow": jnp.array([790.0, 640.0, 510.0, 440.0]),
        },
        "south": {
            "salinity": jnp.array([0.049, 0.060, 0.068]),
            "flow": jnp.array([470.0, 380.0, 330.0]),
        },
    }
    value, grads = jax.value_and_grad(works.misfit)(params, readings)
    print("misfit", value, "suppression gradient", grads["suppression"])

    core = jnp.abs(jax.random.normal(jax.random.PRNGKey(0), (5, 7))) + 0.1
    print("core purity", deposit_purity(core, species_axis=0))
    print("core gradient", jax.grad(purity_target)(core, 0.95).shape)
    print(
        "rate",
        evaporation_rate(
            jnp.full((3,), 0.007),
            jnp.array([0.04, 0.2, 0.3]),
            jnp.array([24.0, 27.0, 31.0]),
            0.5,
        ),
    )


if __name__ == "__main__":
    main()
