import numpy as np


def sequence_loglik(start, trans, emit, obs):
    alpha = start * emit[:, obs[0]]
    for o in obs[1:]:
        alpha = (alpha @ trans) * emit[:, o]
    return np.log(alpha.sum())


def best_model(models, obs):
    return int(np.argmax([sequence_loglik(*m, obs) for m in models]))
