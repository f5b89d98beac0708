import numpy as np


def metropolis(log_density, x0, n_steps, step_size, rng):
    x = np.array(x0, dtype=float)
    chain = np.empty((n_steps, x.size))
    current = log_density(x)
    for i in range(n_steps):
        cand = x + step_size * rng.standard_normal(x.size)
        proposed = log_density(cand)
        accept = np.exp(min(0.0, proposed - current))
        if rng.random() < accept:
            x, current = cand, proposed
        chain[i] = x
    return chain
