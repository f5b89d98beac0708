import math


def free_protons(ka, conc):
    """[H+] of a monoprotic acid from x**2 + ka*x - ka*conc = 0."""
    disc = ka * ka + 4.0 * ka * conc
    return (-ka + math.sqrt(disc)) / 2.0


def titration_start(acids):
    out = {}
    for name, (pka, conc) in acids.items():
        out[name] = free_protons(10.0 ** -pka, conc)
    return out
