"""Passive listening with a towed line array."""
import jax
import jax.numpy as jnp

C_WATER = 1500.0  # m/s


@jax.custom_vjp
def beam_power(
    w,  # (B, M) complex, one row of sensor weights per look direction
    x,  # (M, T) complex snapshots
):
    y = jnp.conj(w) @ x
    return jnp.mean(jnp.abs(y) ** 2, axis=-1)  # (B,)


def _bp_fwd(w, x):
    y = jnp.conj(w) @ x
    return jnp.mean(jnp.real(y) ** 2 + jnp.imag(y) ** 2, axis=-1), (w, x, y)


def _bp_bwd(res, g):
    w, x, y = res
    gy = (2.0 / y.shape[-1]) * g[:, None] * y
    gw = gy @ jnp.conj(x).T
    gx = jnp.conj(w.T @ gy)
    return gw, gx


beam_power.defvjp(_bp_fwd, _bp_bwd)


def _phasor(delay, freq):
    return jnp.exp(2j * jnp.pi * delay[:, None] * freq[None, :])


@jax.custom_vjp
def advance_sensors(
    spec,   # (M, F) complex, rfft of each sensor
    delay,  # (M,) seconds, real
    freq,   # (F,) Hz, fixed by the sampling
):
    """Undo the arrival delay of every sensor, in the frequency domain."""
    return spec * _phasor(delay, freq)


def _adv_fwd(spec, delay, freq):
    rot = _phasor(delay, freq)
    out = spec * rot
    return out, (rot, out, freq)


def _adv_bwd(res, g):
    rot, out, freq = res
    gspec = g * jnp.conj(rot)
    gdelay = jnp.sum(jnp.real(g * 2j * jnp.pi * freq * out), axis=-1)
    return gspec, gdelay, jnp.zeros_like(freq)


advance_sensors.defvjp(_adv_fwd, _adv_bwd)


@jax.custom_jvp
def pair_coherence(
    a,  # (K, F) complex, K >= 2 snapshots of one sensor
    b,  # (K, F) complex, the other sensor; no frequency is silent
):
    """Magnitude-squared coherence per frequency, between 0 and 1."""
    cross = jnp.sum(a * jnp.conj(b), axis=0)
    pa = jnp.sum(jnp.abs(a) ** 2, axis=0)
    pb = jnp.sum(jnp.abs(b) ** 2, axis=0)
    return jnp.abs(cross) ** 2 / (pa * pb)


@pair_coherence.defjvp
def _pair_coherence_jvp(primals, tangents):
    a, b = primals
    da, db = tangents
    cross = jnp.sum(a * jnp.conj(b), axis=0)
    pa = jnp.sum(jnp.real(a * jnp.conj(a)), axis=0)
    pb = jnp.sum(jnp.real(b * jnp.conj(b)), axis=0)
    coh = jnp.real(cross * jnp.conj(cross)) / (pa * pb)
    dcross = jnp.sum(da * jnp.conj(b) + a * jnp.conj(db), axis=0)
    half_pa = jnp.sum(jnp.real(jnp.conj(a) * da), axis=0)
    half_pb = jnp.sum(jnp.real(jnp.conj(b) * db), axis=0)
    dcoh = 2.0 * (
        jnp.real(jnp.conj(cross) * dcross) / (pa * pb)
        - coh * (half_pa / pa + half_pb / pb)
    )
    return coh, dcoh


class LineArray:
    """Sensor positions along the cable, metres from the head."""

    def __init__(self, positions, fs, nfft):
        self.positions = jnp.asarray(positions)
        self.freq = jnp.fft.rfftfreq(nfft, 1.0 / fs)
        self.nfft = nfft

    def spectra(self, audio):
        # audio (M, nfft)
        return jnp.fft.rfft(audio * jnp.hanning(self.nfft), axis=-1)

    def delays(self, bearing, stretch=0.0):
        return self.positions * (1.0 + stretch) * jnp.cos(bearing) / C_WATER

    def listen(self, audio, bearing, stretch=0.0):
        """Energy of the delay-and-sum beam at one bearing (radians)."""
        lined = advance_sensors(self.spectra(audio), self.delays(bearing, stretch), self.freq)
        taper = jnp.hamming(len(self.positions)).astype(lined.dtype)
        return beam_power(taper[None, :] / taper.sum(), lined)[0]


def refine_bearing(array, audio, bearing, lr=1e-4, steps=50):
    """Climb to the peak of the beam, and let the cable stretch a little."""
    obj = lambda p: jnp.log(array.listen(audio, p["bearing"], p["stretch"]))
    p = {"bearing": jnp.asarray(bearing), "stretch": jnp.asarray(0.0)}
    step = jax.jit(jax.grad(obj))
    for _ in range(steps):
        p = jax.tree.map(lambda v, d: v + lr * d, p, step(p))
    return p


def denoise_objective(gain, array, frames):
    """frames (K, M, nfft); gain (M, F) complex equaliser that is learned."""
    spec = jax.vmap(array.spectra)(frames) * gain
    return -jnp.mean(pair_coherence(spec[:, 0], spec[:, -1]))
