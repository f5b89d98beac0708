import numpy as np


def selection_probs(fitness, temperature=1.0):
    """Boltzmann selection weights, one row per island."""
    z = np.asarray(fitness, dtype=np.float64) / temperature
    z = z - z.mean(axis=-1, keepdims=True)
    w = np.exp(z)
    return w / w.sum(axis=-1, keepdims=True)


def pick_parents(fitness, rng, temperature=1.0):
    probs = selection_probs(fitness, temperature)
    return [rng.choice(row.size, size=2, p=row) for row in probs]
