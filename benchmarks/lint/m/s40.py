import numpy as np
from scipy import special


def q_function(x):
    z = np.asarray(x) / np.sqrt(2.0)
    return 0.5 * (1.0 - special.erf(z))


def bpsk_ber(snr_db):
    snr = np.power(10.0, np.asarray(snr_db) / 10.0)
    return q_function(np.sqrt(2.0 * snr))
