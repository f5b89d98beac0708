import numpy as np

H_OVER_K = 4.799243e-11  # s K


def brightness(freq_hz, temperature):
    """Photon occupation and Planck spectrum (arbitrary units) of a sky map."""
    nu = np.asarray(freq_hz, dtype=np.float32)
    x = np.float32(H_OVER_K) * nu / np.float32(temperature)
    x = np.clip(x, np.float32(1e-7), np.float32(80.0))
    occupation = 1.0 / np.expm1(x)
    return occupation, (nu * np.float32(1e-9)) ** 3 * occupation
