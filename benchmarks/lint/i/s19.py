import numpy as np
from scipy.special import logsumexp


def sequence_loglik(observations, log_start, log_transition, log_emission):
    """Forward algorithm; rows of transition and emission sum to one."""
    alpha = log_start + log_emission[:, observations[0]]
    for symbol in observations[1:]:
        alpha = logsumexp(alpha[:, None] + log_transition, axis=0)
        alpha += log_emission[:, symbol]
    return logsumexp(alpha)
