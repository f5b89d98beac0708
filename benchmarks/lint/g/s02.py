import numpy as np


def etdrk4_coefficients(lin, h):
    z = h * lin
    e = np.exp(z)
    q = h * (np.exp(z / 2.0) - 1.0) / z
    f1 = h * (-4.0 - z + e * (4.0 - 3.0 * z + z ** 2)) / z ** 3
    f2 = h * (2.0 + z + e * (-2.0 + z)) / z ** 3
    f3 = h * (-4.0 - 3.0 * z - z ** 2 + e * (4.0 - z)) / z ** 3
    return q, f1, f2, f3


def kuramoto_sivashinsky_symbol(n, length):
    k = 2.0 * np.pi * np.fft.rfftfreq(n, d=length / n)
    return k ** 2 - k ** 4
