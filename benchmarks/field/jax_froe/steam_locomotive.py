"""Working a steam locomotive: pull at the rail, steam and water, indicator cards, train resistance.

SI units (N, Pa, m, m/s, kg) unless a name says otherwise. All rules are used by the run planner, which
fits regulator and cutoff to a timetable by gradient descent.
"""
from dataclasses import dataclass

import jax
import jax.numpy as jnp

G = 9.80665


@dataclass(frozen=True)
class Engine:
    bore: float = 0.47
    stroke: float = 0.66
    wheel: float = 1.83          # driving wheel diameter
    cylinders: int = 2
    adhesive_mass: float = 53e3
    v_ref: float = 16.0          # where the ports begin to throttle


def make_wheel_pull(engine: Engine = Engine()):
    """Builds wheel_pull(pressure, cutoff, speed, mu): the pull at the wheel rim.

    The smaller of what the cylinders give and what the rail holds. Arguments broadcast; speed >= 0,
    0 < cutoff < 1 and mu is the dry friction coefficient at rest.
    """
    k = engine.cylinders * engine.bore**2 * engine.stroke / (2.0 * engine.wheel)
    weight = engine.adhesive_mass * G

    def _parts(pressure, cutoff, speed, mu):
        mean_eff = pressure * cutoff * (1.0 - jnp.log(cutoff))
        choke = 1.0 / (1.0 + (speed / engine.v_ref) ** 2)
        hold = weight * mu / (1.0 + 0.04 * speed)
        return k * mean_eff * choke, hold, choke

    @jax.custom_jvp
    def wheel_pull(pressure, cutoff, speed, mu):
        cyl, hold, _ = _parts(pressure, cutoff, speed, mu)
        return jnp.minimum(cyl, hold)

    @wheel_pull.defjvp
    def wheel_pull_jvp(primals, tangents):
        pressure, cutoff, speed, mu = primals
        dp, dc, ds, dmu = tangents
        cyl, hold, choke = _parts(*primals)
        d_cyl = (k * choke * cutoff * (1.0 - jnp.log(cutoff)) * dp
                 - k * choke * pressure * jnp.log(cutoff) * dc
                 - cyl * choke * 2.0 * speed / engine.v_ref**2 * ds)
        d_hold = weight / (1.0 + 0.04 * speed) * dmu - hold * 0.04 / (1.0 + 0.04 * speed) * ds
        return jnp.minimum(cyl, hold), jnp.where(cyl <= hold, d_cyl, d_hold)

    return wheel_pull


@jax.custom_vjp
def draw_boiler(start, steamed, feed):
    """Mass of water in the boiler after each section of the line.

    A section boils off the fraction steamed[t] of what is there and the injectors add feed[t]:
    water[t+1] = (1 - steamed[t]) * water[t] + feed[t].

    start (boilers,), steamed and feed (sections, boilers); returns (sections, boilers).
    """
    def section(water, inp):
        s, f = inp
        water = (1.0 - s) * water + f
        return water, water

    return jax.lax.scan(section, start, (steamed, feed))[1]


def _draw_fwd(start, steamed, feed):
    water = draw_boiler(start, steamed, feed)
    return water, (water, steamed)


def _draw_bwd(res, g):
    water, steamed = res

    def section(lam, inp):
        g_t, s_t, w_t = inp
        lam = lam + g_t
        return (1.0 - s_t) * lam, (-lam * w_t, lam)

    d_start, (d_steamed, d_feed) = jax.lax.scan(section, jnp.zeros_like(g[0]), (g, steamed, water),
                                                reverse=True)
    return d_start, d_steamed, d_feed


draw_boiler.defvjp(_draw_fwd, _draw_bwd)


def _to_shape(x, shape):
    """Sum x down to `shape`, the reverse of broadcasting."""
    extra = x.ndim - len(shape)
    x = x.sum(axis=tuple(range(extra)))
    thin = tuple(i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1)
    return x.sum(axis=thin, keepdims=True) if thin else x


@jax.custom_gradient
def cylinder_work(volume, pressure):
    """Work per stroke from an indicator card: the area of the closed p-V loop.

    Points go round the card in time order along the last axis and the last one joins on to the first.
    One volume trace may serve a whole stack of pressure traces, and the other way round.
    """
    nxt, prv = (lambda a: jnp.roll(a, -1, -1)), (lambda a: jnp.roll(a, 1, -1))
    area = 0.5 * jnp.sum(pressure * (nxt(volume) - prv(volume)), axis=-1)

    def pull(g):
        gp = 0.5 * (nxt(volume) - prv(volume)) * g[..., None]
        gv = 0.5 * (prv(pressure) - nxt(pressure)) * g[..., None]
        return _to_shape(gv, volume.shape), _to_shape(gp, pressure.shape)

    return area, pull


@jax.custom_vjp
def train_resistance(speed, headwind, grade, masses, davis):
    """Resistance in N and the power in W it takes, along a run.

    speed, headwind, grade: (T,); headwind is counted along the track, negative when it blows from
    behind, and may well be stronger than a goods train is fast. grade is rise over run.
    masses: (vehicles,) kg.  davis: (3,) the coefficients a (N/kg), b (N s/(kg m)), c (N s^2/m^2); the
    c term acts on the speed through the air and pushes when the wind overtakes the train.
    """
    a, b, c = davis
    total = masses.sum()
    air = speed + headwind
    force = total * (a + b * speed + G * grade) + c * air * jnp.abs(air)
    return force, force * speed


def _res_fwd(speed, headwind, grade, masses, davis):
    out = train_resistance(speed, headwind, grade, masses, davis)
    return out, (speed, headwind, grade, masses, davis, out[0])


def _res_bwd(res, cts):
    speed, headwind, grade, masses, davis, force = res
    g_force, g_power = cts
    a, b, c = davis
    total = masses.sum()
    air = speed + headwind
    gf = g_force + g_power * speed
    d_air = gf * 2.0 * c * air
    d_speed = gf * total * b + d_air + g_power * force
    d_mass = jnp.sum(gf * (a + b * speed + G * grade))
    d_davis = jnp.stack([gf.sum() * total, (gf * speed).sum() * total,
                         (gf * air * jnp.abs(air)).sum()])
    return d_speed, d_air, gf * total * G, jnp.full_like(masses, d_mass), d_davis


train_resistance.defvjp(_res_fwd, _res_bwd)


def balance_speed(pull, masses, davis, grade, v0=5.0, iters=40):
    """Newton iterations for the speed at which pull and resistance meet."""
    one = lambda x: jnp.reshape(jnp.asarray(x, jnp.result_type(float)), (1,))
    f = lambda v: pull(v) - train_resistance(one(v), one(0.0), one(grade), masses, davis)[0][0]
    v = v0
    for _ in range(iters):
        v = jnp.clip(v - f(v) / jax.grad(f)(v), 0.0, 60.0)
    return v


def main():
    pull = make_wheel_pull()
    speed = jnp.linspace(0.0, 30.0, 7)
    print(pull(1.2e6, 0.35, speed, 0.25))
    print(balance_speed(lambda v: pull(1.2e6, 0.25, v, 0.25), jnp.full(9, 34e3),
                        jnp.array([0.012, 1.2e-4, 9.0]), 0.002))


if __name__ == "__main__":
    main()
