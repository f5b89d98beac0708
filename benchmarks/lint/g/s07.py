import numpy as np


def forward_loglik(start, trans, emit, obs):
    alpha = start * emit[:, obs[0]]
    total = 0.0
    for o in obs[1:]:
        norm = alpha.sum()
        total += np.log(norm)
        alpha = (alpha / norm @ trans) * emit[:, o]
    return total + np.log(alpha.sum())


def classify(models, obs):
    return int(np.argmax([forward_loglik(*m, obs) for m in models]))
