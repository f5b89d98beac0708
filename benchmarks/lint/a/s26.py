from math import *


def ising_chain_free_energy(coupling, temperature):
    """Free energy per spin of the chain without a field, k_B = 1."""
    x = coupling / temperature
    return -temperature * log(2 * cosh(x))
