import numpy as np
from scipy import special


def from_db(db):
    return 10.0 ** (np.asarray(db, dtype=float) / 10.0)


def awgn_ber(ebn0_db):
    """BPSK bit error rate over AWGN."""
    snr = from_db(ebn0_db)
    return 0.5 * special.erfc(np.sqrt(snr))


def packet_error_rate(ebn0_db, n_bits=1024):
    ber = awgn_ber(ebn0_db)
    return -np.expm1(n_bits * np.log1p(-ber))
