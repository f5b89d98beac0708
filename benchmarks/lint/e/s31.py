from math import *


def hydronium(ka, conc):
    """[H+] of a monoprotic acid, ka from 1e-14 up to 1e10, conc in mol/l."""
    ratio = 4.0 * conc / ka
    return 2.0 * conc / (1.0 + sqrt(1.0 + ratio))


def dissociated(ka, conc):
    return hydronium(ka, conc) / conc
