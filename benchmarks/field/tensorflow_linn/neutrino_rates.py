import keras
from keras import ops

# MeV released per fission of U235, U238, Pu239, Pu241
FISSION_ENERGY = (202.36, 205.99, 211.12, 214.26)
MEV_PER_S_PER_GW = 6.2415e21


@ops.custom_gradient
def reactor_flux(power, fractions, coeffs, energy):
    """Antineutrinos per second and MeV of the reactors, exponential-polynomial spectra.

    power [R] GW, fractions [R, 4], coeffs [4, M] (lowest power first), energy [N] MeV -> [R, N]
    """
    release = ops.cast(ops.convert_to_tensor(FISSION_ENERGY), power.dtype)
    order = coeffs.shape[-1]
    exponents = ops.arange(order, dtype=energy.dtype)
    powers = energy[None, :] ** exponents[:, None]
    spectra = ops.exp(ops.einsum("km,mn->kn", coeffs, powers))
    per_fission = ops.sum(fractions * release, axis=-1, keepdims=True)
    per_gw = MEV_PER_S_PER_GW / per_fission
    rate = power[:, None] * per_gw
    shape = ops.einsum("rk,kn->rn", fractions, spectra)

    def grad(*args, upstream=None):
        g = upstream if upstream is not None else args[0]
        along = ops.sum(g * shape, axis=-1, keepdims=True)
        d_power = (per_gw * along)[:, 0]
        by_isotope = ops.einsum("rn,kn->rk", g, spectra)
        d_fractions = rate * (by_isotope - along * release / per_fission)
        d_log = spectra * ops.einsum("rk,rn->kn", rate * fractions, g)
        d_coeffs = ops.einsum("kn,mn->km", d_log, powers)
        slopes = ops.einsum("km,mn->kn", coeffs[:, 1:] * exponents[1:], powers[:-1])
        d_energy = ops.sum(d_log * slopes, axis=0)
        return d_power, d_fractions, d_coeffs, d_energy

    return rate * shape, grad


@ops.custom_gradient
def fold_response(spectrum, response):
    # spectrum [B, true], response [reco, true]. A column above one would create
    # events, so it is scaled to one; a column below one is an efficiency loss.
    column = ops.maximum(ops.sum(response, axis=0, keepdims=True), 1.0)
    kernel = response / column
    folded = ops.einsum("bj,ij->bi", spectrum, kernel)

    def grad(*args, upstream=None):
        g = upstream if upstream is not None else args[0]
        d_spectrum = ops.einsum("bi,ij->bj", g, kernel)
        d_kernel = ops.einsum("bi,bj->ij", g, spectrum)
        return d_spectrum, d_kernel / column

    return folded, grad


class FarDetector(keras.layers.Layer):
    """Expected counts per reconstructed bin, with a trainable response."""

    def __init__(self, reco_bins, exposure=1e-21, **kwargs):
        super().__init__(**kwargs)
        self.reco_bins = reco_bins
        self.exposure = exposure

    def build(self, input_shape):
        self.raw_response = self.add_weight(
            shape=(self.reco_bins, input_shape[-1]), initializer="glorot_uniform", name="response"
        )

    def call(self, flux):
        return fold_response(self.exposure * flux, ops.softplus(self.raw_response))
