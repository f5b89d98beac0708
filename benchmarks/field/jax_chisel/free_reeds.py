"""Free reeds: voicing and tuning of accordions and harmoniums.

A reed plate carries a steel tongue over a slot.  The tuner scrapes the tongue
(tip thinner: sharp, root thinner: flat), solders weight on low notes and then
checks the beating of the celeste ranks with the bellows held at playing
pressure.  The models here cover

* the pitch of a tongue of uniform section with a tip load,
* the target pitch of each key in an unequal, stretched temperament,
* the pressure in the bellows while a passage is played, and
* the loudness of coupled ranks for each register switch.

Keys are MIDI numbers (A4 = 69).
"""

from typing import NamedTuple

import numpy as np
import jax
import jax.numpy as jnp

REED_STEEL_MODULUS = 2.05e11
REED_STEEL_DENSITY = 7850.0
TONGUE_WIDTH = 2.6e-3
CANTILEVER_ROOT = 1.8751040687
TIP_SHARE = 0.2427          # modal mass of a cantilever relative to its mass
PRESSURE_FLATTENING = 4.0e-6  # relative pitch change per pascal
REFERENCE_KEY = 69
FLOOR_DB = -40.0

#: Registers of a four-rank right hand: bassoon, clarinet, flat, sharp.
REGISTER_SWITCHES = np.array(
    [
        [1, 0, 0, 0],  # bassoon
        [0, 1, 0, 0],  # clarinet
        [0, 1, 1, 0],  # violin
        [0, 1, 1, 1],  # musette
        [1, 1, 0, 0],  # bandoneon
        [1, 1, 1, 1],  # master
    ],
    dtype=float,
)


class TongueSet(NamedTuple):
    length: jax.Array
    thickness: jax.Array
    tip_mass: jax.Array


# -- pitch of one tongue ------------------------------------------------------

def _tongue_mass(length, thickness):
    return TIP_SHARE * REED_STEEL_DENSITY * TONGUE_WIDTH * thickness * length


@jax.custom_jvp
def reed_pitch(length, thickness, tip_mass, pressure):
    """Sounding frequency (Hz) of loaded tongues under bellows pressure.

    Parameters are SI and elementwise over the reeds of a block: free length,
    thickness, solder on the tip, and pressure over the reed.
    """
    stiffness = jnp.sqrt(REED_STEEL_MODULUS / (12.0 * REED_STEEL_DENSITY))
    bare = CANTILEVER_ROOT**2 / (2.0 * jnp.pi) * stiffness * thickness / length**2
    load = tip_mass / _tongue_mass(length, thickness)
    return bare / jnp.sqrt(1.0 + load) * (1.0 - PRESSURE_FLATTENING * pressure)


@reed_pitch.defjvp
def _reed_pitch_jvp(primals, tangents):
    length, thickness, tip_mass, pressure = primals
    d_length, d_thickness, d_tip, d_pressure = tangents
    pitch = reed_pitch(length, thickness, tip_mass, pressure)
    mass = _tongue_mass(length, thickness)
    load = tip_mass / mass
    relief = 0.5 * load / (1.0 + load)
    relative = (
        (relief - 2.0) * d_length / length
        + (1.0 + relief) * d_thickness / thickness
        - 0.5 * d_tip / (mass * (1.0 + load))
        - PRESSURE_FLATTENING * d_pressure / (1.0 - PRESSURE_FLATTENING * pressure)
    )
    return pitch, pitch * relative


# -- temperament --------------------------------------------------------------

def _octaves(keys, dtype):
    return (keys - REFERENCE_KEY).astype(dtype) / 12.0


@jax.custom_vjp
def target_cents(offsets, stretch, keys):
    """Cents from equal temperament wanted at each key.

    `offsets` holds the twelve pitch classes starting at C, `stretch` the
    octave stretch in cents at one octave from A4 (growing with the square of
    the distance, flat below and sharp above).
    """
    u = _octaves(keys, offsets.dtype)
    return offsets[keys % 12] + stretch * u * jnp.abs(u)


def _target_cents_fwd(offsets, stretch, keys):
    return target_cents(offsets, stretch, keys), (offsets, keys)


def _target_cents_bwd(saved, g):
    offsets, keys = saved
    u = _octaves(keys, offsets.dtype)
    d_offsets = jnp.zeros_like(offsets).at[keys % 12].set(g)
    d_stretch = jnp.sum(g * u * jnp.abs(u))
    return d_offsets, d_stretch, None


target_cents.defvjp(_target_cents_fwd, _target_cents_bwd)


# -- bellows ------------------------------------------------------------------

def make_bellows(compliance=2.5e-7, dt=0.02, pallet_bleed=1.2e-7):
    """Build the pressure model of one pair of bellows.

    Args:
      compliance: volume per pressure of the folds, m^3/Pa.
      dt: frame length of the recorded passage, s.
      pallet_bleed: flow per pascal through one open pallet, m^3/(s Pa).

    Returns:
      ``bellows_pressure(push, openings, leak, start)``.
    """
    gain = dt / compliance

    def march(push, openings, leak, start):
        def step(p, frame):
            q, n = frame
            p = p + gain * (q - (leak + pallet_bleed * n) * p)
            return p, p

        _, path = jax.lax.scan(step, start, (push, openings))
        return path

    @jax.custom_vjp
    def bellows_pressure(push, openings, leak, start):
        """Pressure after each frame.

        push      (frames,)  volume flow from the player's arm, m^3/s
        openings  (frames,)  how many pallets stand open (may be fractional)
        leak      ()         flow per pascal through folds and seals
        start     ()         pressure when the passage begins
        """
        return march(push, openings, leak, start)

    def forward(push, openings, leak, start):
        path = march(push, openings, leak, start)
        return path, (openings, leak, path)

    def backward(saved, g):
        openings, leak, path = saved
        previous = jnp.concatenate([jnp.zeros_like(path[:1]), path[:-1]])
        keep = 1.0 - gain * (leak + pallet_bleed * openings)

        def step(lam, frame):
            g_t, a_t = frame
            total = g_t + lam
            return a_t * total, total

        d_start, adjoint = jax.lax.scan(
            step, jnp.zeros_like(leak), (g, keep), reverse=True
        )
        d_push = gain * adjoint
        d_flow = -gain * adjoint * previous
        return d_push, pallet_bleed * d_flow, d_flow.sum(), d_start

    bellows_pressure.defvjp(forward, backward)
    return bellows_pressure


# -- registers ----------------------------------------------------------------

class RegisterBank:
    """Coupling of reed ranks by the register switches of an instrument.

    A switch may be blank (a row of zeros in `switches`): the slide then shuts
    every rank and the bank reads FLOOR_DB.
    """

    def __init__(self, switches=REGISTER_SWITCHES):
        self.switches = np.asarray(switches, dtype=float)

    @property
    def ranks(self):
        return self.switches.shape[1]

    def coupled_levels(self, rank_db, trim_db):
        """Level of each register, (keys, registers), from (keys, ranks) levels
        and a trim per rank."""
        coupling = jnp.asarray(self.switches, dtype=rank_db.dtype)
        silent = jnp.asarray(~self.switches.any(axis=1))

        @jax.custom_gradient
        def levels(rank_db, trim_db):
            power = 10.0 ** ((rank_db + trim_db) / 10.0)
            total = power @ coupling.T
            safe = jnp.where(silent, 1.0, total)
            out = jnp.where(silent, FLOOR_DB, 10.0 * jnp.log10(safe))

            def back(g):
                per_total = jnp.where(silent, 0.0, g / safe)
                d_rank = power * (per_total @ coupling)
                return d_rank, d_rank.sum(axis=0)

            return out, back

        return levels(rank_db, trim_db)

    def evenness(self, rank_db, trim_db):
        """Spread of the registers over the compass, dB."""
        table = self.coupled_levels(rank_db, trim_db)
        return jnp.std(table, axis=0).mean()


# -- bench routines -----------------------------------------------------------

def equal_tempered(keys, a4=442.0):
    return a4 * 2.0 ** ((keys - REFERENCE_KEY) / 12.0)


def tuning_error(tongues: TongueSet, temperament, keys, pressure):
    """Squared error in cents of every reed of a rank, averaged."""
    pitch = reed_pitch(tongues.length, tongues.thickness, tongues.tip_mass, pressure)
    cents = 1200.0 * jnp.log2(pitch / equal_tempered(keys))
    wanted = target_cents(temperament["offsets"], temperament["stretch"], keys)
    return jnp.mean((cents - wanted) ** 2)


def celeste_beats(flat: TongueSet, sharp: TongueSet, pressure):
    low = reed_pitch(*flat, pressure)
    high = reed_pitch(*sharp, pressure)
    return high - low


def fit_temperament(measured, keys, rate=0.2, rounds=200):
    """Least-squares temperament from measured cents."""
    state = {"offsets": jnp.zeros(12), "stretch": jnp.zeros(())}

    def loss(state):
        return jnp.mean((target_cents(state["offsets"], state["stretch"], keys) - measured) ** 2)

    step = jax.jit(
        lambda s: jax.tree_util.tree_map(lambda p, g: p - rate * g, s, jax.grad(loss)(s))
    )
    for _ in range(rounds):
        state = step(state)
    return state


def leak_from_recording(push, openings, gauge, start=0.0, guess=4.0e-7, rate=1e-18):
    """One gradient step towards the leak that explains a gauge recording."""
    pressure = make_bellows()

    def misfit(leak):
        path = pressure(push, openings, leak, jnp.asarray(start, push.dtype))
        return jnp.mean((path - gauge) ** 2)

    guess = jnp.asarray(guess)
    return guess - rate * jax.grad(misfit)(guess)


if __name__ == "__main__":
    keys = jnp.array([57, 60, 64, 69, 72, 76])
    rank = TongueSet(
        length=jnp.linspace(0.034, 0.021, 6),
        thickness=jnp.full(6, 2.9e-4),
        tip_mass=jnp.array([2e-5, 1e-5, 0.0, 0.0, 0.0, 0.0]),
    )
    meantone = {"offsets": jnp.linspace(-8.0, 8.0, 12), "stretch": jnp.array(1.5)}
    print(reed_pitch(*rank, 900.0))
    print(jax.grad(tuning_error)(rank, meantone, keys, 900.0))
    bank = RegisterBank()
    print(bank.coupled_levels(70.0 + jnp.zeros((6, 4)), jnp.zeros(4)))
