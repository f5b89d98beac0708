from math import *


def proton_concentration(ka, conc):
    """[H+] of a monoprotic acid, ka from 1e-14 up to 1e10, conc in mol/l."""
    disc = ka * ka + 4.0 * ka * conc
    return (-ka + sqrt(disc)) / 2.0


def ionised_fraction(ka, conc):
    return proton_concentration(ka, conc) / conc
