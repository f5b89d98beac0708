from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
from jax import lax

TWO_PI = 6.283185307179586


@dataclass
class Chip:
    g: list = field(default_factory=lambda: [0.071, 0.066, 0.080])  # GHz
    f_q: list = field(default_factory=lambda: [4.91, 5.12, 5.33])  # GHz
    alpha: list = field(default_factory=lambda: [-0.31, -0.29, -0.33])  # GHz
    f_r: list = field(default_factory=lambda: [6.61, 6.74, 6.88, 7.02])

    def detuning(self):
        return jnp.asarray(self.f_q)[:, None] - jnp.asarray(self.f_r)[None, :]


# --- drive -------------------------------------------------------------


@jax.custom_jvp
def rabi_population(t, omega, delta):
    w2 = omega**2 + delta**2
    return omega**2 / w2 * jnp.sin(0.5 * jnp.sqrt(w2) * t) ** 2


@rabi_population.defjvp
def _(primals, tangents):
    t, om, de = primals
    dt, dom, dde = tangents
    w2 = om**2 + de**2
    w = jnp.sqrt(w2)
    s, c = jnp.sin(0.5 * w * t), jnp.cos(0.5 * w * t)
    depth = (om / w) ** 2
    d_w = (om * dom + de * dde) / w
    d_depth = 2.0 * om * de * (de * dom - om * dde) / w2**2
    y = depth * s * s
    return y, d_depth * s * s + depth * s * c * (w * dt + t * d_w)


def chevron(times, omegas, deltas):
    return rabi_population(times[None, :], omegas[:, None], deltas[:, None])


# --- dispersive coupling -----------------------------------------------


@jax.custom_vjp
def dispersive_shift(g, delta, alpha):
    # g (Q,), delta (Q, R), alpha () or (Q,)
    a = jnp.broadcast_to(alpha, g.shape)[:, None]
    return g[:, None] ** 2 * a / (delta * (delta + a))


def _chi_fwd(g, delta, alpha):
    return dispersive_shift(g, delta, alpha), (g, delta, alpha)


def _chi_bwd(res, ct):
    g, delta, alpha = res
    a = jnp.broadcast_to(alpha, g.shape)[:, None]
    g2 = g[:, None] ** 2
    den = delta * (delta + a)
    d_g = jnp.sum(ct * 2.0 * g[:, None] * a / den, axis=1)
    d_delta = -ct * g2 * a * (2.0 * delta + a) / den**2
    d_alpha = ct * g2 / (delta + a) ** 2
    return d_g, d_delta, jnp.full_like(alpha, jnp.sum(d_alpha))


dispersive_shift.defvjp(_chi_fwd, _chi_bwd)


def shift_misfit(params, measured, weights=None):
    chi = dispersive_shift(params["g"], params["delta"], params["alpha"])
    r = (chi - measured) / 1e-3
    return jnp.sum(r * r if weights is None else weights * r * r)


def fit_alpha(chip, measured, steps=40, rate=1e-4, shared=False):
    alpha = jnp.asarray(chip.alpha)
    if shared:
        alpha = jnp.mean(alpha)
    fixed = {"g": jnp.asarray(chip.g), "delta": chip.detuning()}

    def step(alpha, _):
        v, d = jax.value_and_grad(lambda a: shift_misfit({**fixed, "alpha": a}, measured))(alpha)
        return alpha - rate * d / (1.0 + jnp.linalg.norm(d)), v

    return lax.scan(step, alpha, None, length=steps)


# --- IQ ----------------------------------------------------------------


@jax.custom_vjp
def demodulate(record, window):
    # record (N, S) complex, window (S,) complex -> (N,) complex
    return record @ jnp.conj(window)


def _demod_fwd(record, window):
    return record @ jnp.conj(window), (record, window)


def _demod_bwd(res, ct):
    record, window = res
    return ct[:, None] * jnp.conj(window)[None, :], jnp.conj(ct @ record)


demodulate.defvjp(_demod_fwd, _demod_bwd)


def matched_window(mean0, mean1, f_if, dt):
    n = mean0.shape[-1]
    lo = jnp.exp(1j * TWO_PI * f_if * dt * jnp.arange(n))
    w = (mean1 - mean0) * lo
    return w / jnp.linalg.norm(w)


def separation(window, rec0, rec1):
    z0, z1 = demodulate(rec0, window), demodulate(rec1, window)
    gap = jnp.abs(jnp.mean(z1) - jnp.mean(z0))
    return gap / jnp.sqrt(0.5 * (jnp.var(z0) + jnp.var(z1)))


# --- states ------------------------------------------------------------


@jax.custom_vjp
def outcome_probs(psi, basis):
    # psi (N, d) complex amplitudes, basis (k, d) complex rows <b|
    return jnp.abs(psi @ jnp.conj(basis).T) ** 2


def _probs_fwd(psi, basis):
    amp = psi @ jnp.conj(basis).T
    return amp.real**2 + amp.imag**2, (psi, basis, amp)


def _probs_bwd(res, ct):
    psi, basis, amp = res
    ga = 2.0 * ct * amp
    return ga @ basis, jnp.conj(ga).T @ psi


outcome_probs.defvjp(_probs_fwd, _probs_bwd)


def pauli_bases():
    r = 0.5**0.5
    return {
        "Z": jnp.array([[1, 0], [0, 1]], dtype=complex),
        "X": jnp.array([[r, r], [r, -r]], dtype=complex),
        "Y": jnp.array([[r, 1j * r], [r, -1j * r]], dtype=complex),
    }


def tomography_nll(psi, counts):
    psi = psi / jnp.linalg.norm(psi, axis=-1, keepdims=True)
    total = 0.0
    for name, basis in pauli_bases().items():
        total = total - jnp.sum(counts[name] * jnp.log(outcome_probs(psi, basis) + 1e-9))
    return total
