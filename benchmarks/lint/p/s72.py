import numpy as np


def metropolis(log_density, x0, n_steps, step_size, rng):
    x = np.array(x0, dtype=float)
    chain = np.empty((n_steps, x.size))
    density = np.exp(log_density(x))
    for i in range(n_steps):
        cand = x + step_size * rng.standard_normal(x.size)
        cand_density = np.exp(log_density(cand))
        accept = cand_density / density
        if rng.random() < accept:
            x, density = cand, cand_density
        chain[i] = x
    return chain
