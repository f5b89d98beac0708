import numpy as np


def boltzmann_policy(q_values, temperature=0.5):
    prefs = np.array(q_values, dtype=np.float64)
    prefs /= max(temperature, 1e-2)
    np.exp(prefs, out=prefs)
    prefs /= prefs.sum(axis=-1, keepdims=True)
    return prefs


def sample_action(rng, q_values):
    probs = boltzmann_policy(q_values)
    return rng.choice(len(probs), p=probs)
