# Drug effect models for the closed-loop simulator.
# Concentrations: propofol ug/ml, remifentanil ng/ml, volatile agents vol%.
import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

AGE_SLOPE = 0.00269  # Mapleson 1996, log10 MAC lost per year
AGENTS = ("sevoflurane", "desflurane", "isoflurane", "nitrous oxide")
MAC40 = (1.80, 6.60, 1.17, 104.0)


class Surface(NamedTuple):
    c50_prop: jax.Array  # ug/ml, half effect of propofol alone
    c50_remi: jax.Array  # ng/ml, half effect of remifentanil alone
    alpha: jax.Array  # interaction; 0 additive, > 0 synergy
    gamma: jax.Array  # steepness
    e0: jax.Array  # BIS awake
    emax: jax.Array  # BIS at full effect


BOUILLON = Surface(*map(jnp.float32, (4.47, 19.3, 5.1, 1.43, 97.4, 0.0)))


@dataclasses.dataclass(frozen=True)
class Patient:
    age: float
    weight: float
    height: float
    male: bool = True

    @property
    def lean_mass(self):
        if self.male:
            return 1.1 * self.weight - 128 * (self.weight / self.height) ** 2
        return 1.07 * self.weight - 148 * (self.weight / self.height) ** 2


# -- effect compartment -------------------------------------------------------


@jax.custom_vjp
def effect_site(
    plasma,  # (T, P) plasma concentration held over each interval
    ke0,  # (P,)   1/min
    dt,  # (T,)   length of the intervals, min; need not be equal
):  # (T, P) effect-site concentration at the end of each interval
    return _effect_fwd(plasma, ke0, dt)[0]


def _effect_fwd(plasma, ke0, dt):
    keep = jnp.exp(-dt[:, None] * ke0)
    gain = -jnp.expm1(-dt[:, None] * ke0)

    def step(ce, x):
        k, b, cp = x
        new = k * ce + b * cp
        return new, (new, ce)

    _, (ce, before) = lax.scan(step, jnp.zeros_like(plasma[0]), (keep, gain, plasma))
    return ce, (keep, gain, before - plasma, ke0, dt)


def _effect_bwd(saved, g):
    keep, gain, excess, ke0, dt = saved

    def step(carry, x):
        k, gt = x
        lam = gt + carry
        return k * lam, lam

    _, lam = lax.scan(step, jnp.zeros_like(g[0]), (keep, g), reverse=True)
    d_rate = -lam * excess * keep  # w.r.t. the product ke0 * dt
    return lam * gain, d_rate.T @ dt, d_rate @ ke0


effect_site.defvjp(_effect_fwd, _effect_bwd)


# -- response surface ---------------------------------------------------------


@jax.custom_jvp
def bis_response(
    prop,  # effect-site propofol, > 0, any shape
    remi,  # effect-site remifentanil, >= 0, same shape
    model: Surface,  # scalars
):
    u, v = prop / model.c50_prop, remi / model.c50_remi
    units = u + v + model.alpha * u * v
    s = jax.nn.sigmoid(model.gamma * jnp.log(units))
    return model.e0 + (model.emax - model.e0) * s


@bis_response.defjvp
def _bis_jvp(primals, tangents):
    prop, remi, m = primals
    dprop, dremi, dm = tangents
    u, v = prop / m.c50_prop, remi / m.c50_remi
    du = (dprop - u * dm.c50_prop) / m.c50_prop
    dv = (dremi - v * dm.c50_remi) / m.c50_remi
    additive = u + v
    units = additive + m.alpha * u * v
    dunits = (1 + m.alpha * v) * du + (1 + m.alpha * u) * dv + u * v * dm.alpha
    s = jax.nn.sigmoid(m.gamma * jnp.log(units))
    dlogit = m.gamma * dunits / units + jnp.log(additive) * dm.gamma
    span = m.emax - m.e0
    out = m.e0 + span * s
    return out, (1 - s) * dm.e0 + s * dm.emax + span * s * (1 - s) * dlogit


# -- inhaled agents -----------------------------------------------------------


@jax.custom_vjp
def mac_multiple(
    end_tidal,  # (P, K) vol% read at the K vaporiser slots
    age,  # (P,)   years
    mac40,  # (G,)   MAC of the agents at forty
    agent,  # (P, K) int, index into mac40; two slots may hold one agent
):  # (P,)
    mac = mac40[agent] * 10.0 ** (-AGE_SLOPE * (age[:, None] - 40.0))
    return (end_tidal / mac).sum(-1)


def _mac_fwd(end_tidal, age, mac40, agent):
    per_slot = 1.0 / (mac40[agent] * 10.0 ** (-AGE_SLOPE * (age[:, None] - 40.0)))
    share = end_tidal * per_slot
    return share.sum(-1), (per_slot, share, mac40, agent)


def _mac_bwd(saved, g):
    per_slot, share, mac40, agent = saved
    ln10 = jnp.log(jnp.asarray(10.0, share.dtype))
    d_age = g * share.sum(-1) * AGE_SLOPE * ln10
    rows = jnp.arange(agent.shape[0])[:, None]
    d_log = jnp.zeros((agent.shape[0], mac40.shape[0]), share.dtype)
    d_log = d_log.at[rows, agent].set(-g[:, None] * share)
    return g[:, None] * per_slot, d_age, d_log.sum(0) / mac40, None


mac_multiple.defvjp(_mac_fwd, _mac_bwd)


def session_loss(params, record):
    """Squared BIS error of P patients over T intervals."""
    prop = effect_site(record["prop"], params["ke0_prop"], record["dt"])
    remi = effect_site(record["remi"], params["ke0_remi"], record["dt"])
    bis = bis_response(prop, remi, params["surface"])
    return jnp.mean(record["seen"] * (bis - record["bis"]) ** 2)


def fit(params, record, rate=1e-3, steps=200):
    slope = jax.jit(jax.grad(session_loss))
    for _ in range(steps):
        g = slope(params, record)
        params = jax.tree.map(lambda p, d: p - rate * d, params, g)
    return params


def awareness_alarm(end_tidal, age, agent, floor=0.7):
    return mac_multiple(end_tidal, age, jnp.asarray(MAC40), agent) < floor
