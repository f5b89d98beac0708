import math


def proton_conc(ka, conc):
    """[H+] of a monoprotic acid from x**2 + ka*x - ka*conc = 0."""
    disc = ka * ka + 4.0 * ka * conc
    return 2.0 * ka * conc / (ka + math.sqrt(disc))


def initial_state(acids):
    out = {}
    for name, (pka, conc) in acids.items():
        out[name] = proton_conc(10.0 ** -pka, conc)
    return out
