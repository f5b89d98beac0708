import numpy as np


def sequence_loglik(observations, start, transition, emission):
    """Forward algorithm; rows of transition and emission sum to one."""
    alpha = start * emission[:, observations[0]]
    for symbol in observations[1:]:
        alpha = alpha @ transition
        alpha *= emission[:, symbol]
    return np.log(alpha.sum())
