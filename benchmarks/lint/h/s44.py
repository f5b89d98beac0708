import numpy as np


def sphere_form_factor(q, radius):
    """Scattering amplitude of a uniform sphere, q from 1e-5 to 1 1/A, radius in A."""
    q = np.asarray(q, dtype=np.float32)
    x = q * np.float32(radius)
    return 3.0 * (np.sin(x) - x * np.cos(x)) / x ** 3


def intensity(q, radius, contrast=1.0, background=0.0):
    volume = 4.0 / 3.0 * np.pi * radius ** 3
    f = contrast * volume * sphere_form_factor(q, radius)
    return f ** 2 + background
