import numpy as np


def sphere_form_factor(q, radius):
    """Scattering amplitude of a uniform sphere, q from 1e-5 to 1 1/A, radius in A."""
    q = np.asarray(q, dtype=np.float32)
    x = q * np.float32(radius)
    near = x < 0.3
    xs = np.where(near, np.float32(1.0), x)
    body = 3.0 * (np.sin(xs) - xs * np.cos(xs)) / xs ** 3
    return np.where(near, 1.0 - x ** 2 / 10.0 + x ** 4 / 280.0, body)


def intensity(q, radius, contrast=1.0, background=0.0):
    volume = 4.0 / 3.0 * np.pi * radius ** 3
    f = contrast * volume * sphere_form_factor(q, radius)
    return f ** 2 + background
