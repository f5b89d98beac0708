import numpy as np
from scipy import special


def db_to_linear(db):
    return 10.0 ** (np.asarray(db, dtype=float) / 10.0)


def bpsk_ber(ebn0_db):
    """Theoretical bit error rate over AWGN."""
    snr = db_to_linear(ebn0_db)
    return 0.5 * (1.0 - special.erf(np.sqrt(snr)))


def frame_error_rate(ebn0_db, n_bits=1024):
    ber = bpsk_ber(ebn0_db)
    return -np.expm1(n_bits * np.log1p(-ber))
