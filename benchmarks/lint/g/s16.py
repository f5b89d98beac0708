from numpy import asarray, log10, sqrt


def proton_concentration(pka, conc):
    """Solves h^2 + Ka h - Ka c = 0 for a monoprotic acid, strong or weak; conc in mol/l."""
    ka = 10.0 ** -asarray(pka, dtype=float)
    disc = ka * ka + 4.0 * ka * conc
    return (-ka + sqrt(disc)) / 2.0


def ph(pka, conc):
    return -log10(proton_concentration(pka, conc))
