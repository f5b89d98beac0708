from math import *


def chain_free_energy(coupling, temperature):
    """Free energy per spin of the chain without a field, k_B = 1."""
    x = fabs(coupling) / temperature
    return -temperature * (x + log1p(exp(-2 * x)))
