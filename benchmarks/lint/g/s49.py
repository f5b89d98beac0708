from numpy import asarray, log10, sqrt


def hydronium(pka, conc):
    """Solves h^2 + Ka h - Ka c = 0 for a monoprotic acid, strong or weak; conc in mol/l."""
    ka = 10.0 ** -asarray(pka, dtype=float)
    disc = ka * ka + 4.0 * ka * conc
    return 2.0 * ka * conc / (ka + sqrt(disc))


def acidity(pka, conc):
    return -log10(hydronium(pka, conc))
