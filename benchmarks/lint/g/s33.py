import numpy as np


def phi_coefficients(lin, h, m=32):
    r = np.exp(1j * np.pi * (np.arange(1, m + 1) - 0.5) / m)
    z = h * lin[:, None] + r[None, :]
    e = np.exp(z)
    q = h * np.mean(((np.exp(z / 2.0) - 1.0) / z).real, axis=1)
    f1 = h * np.mean(((-4.0 - z + e * (4.0 - 3.0 * z + z ** 2)) / z ** 3).real, axis=1)
    f2 = h * np.mean(((2.0 + z + e * (-2.0 + z)) / z ** 3).real, axis=1)
    f3 = h * np.mean(((-4.0 - 3.0 * z - z ** 2 + e * (4.0 - z)) / z ** 3).real, axis=1)
    return q, f1, f2, f3


def ks_symbol(n, length):
    k = 2.0 * np.pi * np.fft.rfftfreq(n, d=length / n)
    return k ** 2 - k ** 4
