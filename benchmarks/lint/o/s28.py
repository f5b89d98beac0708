import numpy as np


def boltzmann_weights(fitness, temperature=1.0):
    """Boltzmann selection weights, one row per island."""
    z = np.asarray(fitness, dtype=np.float64) / temperature
    z = z - z.max(axis=-1, keepdims=True)
    w = np.exp(z)
    return w / w.sum(axis=-1, keepdims=True)


def choose_pairs(fitness, rng, temperature=1.0):
    probs = boltzmann_weights(fitness, temperature)
    return [rng.choice(row.size, size=2, p=row) for row in probs]
