"""Network and market primitives for the policy-search experiments (Keras 3).

Every rule follows the backend-agnostic recipe from the Keras documentation, so
the same file runs on TensorFlow, JAX and PyTorch.
"""

from typing import Any, Optional

import keras
from keras import ops

Tensor = Any


def realized_volatility(
    returns: Tensor,
    mask: Optional[Tensor] = None,
    periods: int = 252,
    demean: bool = True,
) -> Tensor:
    """Annualised volatility of return series that may be padded.

    Args:
        returns: Periodic log returns, shape `(assets, time)`. What is stored at
            masked-out positions is arbitrary (forward-filled quotes, sentinels)
            and has no influence on the result.
        mask: Optional boolean or 0/1 tensor, shape `(assets, time)`, true where
            a return was observed. Defaults to all observed. Each row needs at
            least two observations.
        periods: Number of periods in a year.
        demean: Whether the mean of the observed returns is subtracted.

    Returns:
        Volatility of each asset, shape `(assets,)`:
        `sqrt(periods * sum(m * (r - mean) ** 2) / sum(m))`.
    """
    if mask is None:
        mask = ops.ones_like(returns)
    weight = ops.cast(mask, returns.dtype)

    @ops.custom_gradient
    def volatility(r):
        count = ops.sum(weight, axis=-1, keepdims=True)
        # Sentinels under the mask never enter the sums.
        centre = ops.sum(weight * r, axis=-1, keepdims=True) / count if demean else 0.0
        dev = r - centre
        var = ops.sum(weight * ops.square(dev), axis=-1, keepdims=True) / count
        vol = ops.sqrt(periods * var)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            # The mean does not contribute: the observed deviations sum to zero.
            scale = ops.expand_dims(upstream, -1) * periods / (count * vol)
            return scale * dev

        return ops.squeeze(vol, axis=-1), grad

    return volatility(returns)


def friedkin_johnsen(
    beliefs: Tensor,
    trust: Tensor,
    stubbornness: Tensor,
    steps: int = 1,
) -> Tensor:
    """Opinion dynamics with stubborn agents.

    Iterates `x[t + 1] = (1 - s) * (W @ x[t]) + s * x[0]`, starting from
    `x[0] = beliefs`. The trajectory is kept, one state a step.

    Args:
        beliefs: Initial opinions, shape `(agents, topics)`.
        trust: Influence matrix `W`, shape `(agents, agents)`. Row `i` holds the
            weight that agent `i` puts on each of the others. Need not be
            normalised and need not be symmetric.
        stubbornness: Attachment `s` to the initial opinion in `[0, 1]`, shape
            `(agents, 1)`.
        steps: Number of rounds, at least 1.

    Returns:
        Opinions after `steps` rounds, shape `(agents, topics)`.
    """

    @ops.custom_gradient
    def simulate(beliefs, trust, stubbornness):
        states, averages = [beliefs], []
        for _ in range(steps):
            averages.append(ops.matmul(trust, states[-1]))
            states.append((1.0 - stubbornness) * averages[-1] + stubbornness * beliefs)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            lam = upstream
            d_trust = ops.zeros_like(trust)
            d_stub = ops.zeros_like(stubbornness)
            anchor = stubbornness * upstream
            for t in reversed(range(steps)):
                d_stub = d_stub + ops.sum(lam * (beliefs - averages[t]), axis=-1, keepdims=True)
                pulled = (1.0 - stubbornness) * lam
                d_trust = d_trust + ops.matmul(pulled, ops.transpose(states[t]))
                lam = ops.matmul(ops.transpose(trust), pulled)
            return lam + anchor, d_trust, d_stub

        return states[-1], grad

    return simulate(beliefs, trust, stubbornness)


@ops.custom_gradient
def carbon_footprint(technical: Tensor, demand: Tensor, intensity: Tensor):
    """Emissions embodied in final demand (environmentally extended Leontief model).

    The gross output that serves a demand vector `d` is `x = (I - A)^-1 d`; its
    footprint is `intensity . x`. Only the emission multipliers
    `m = (I - A)^-T intensity` and the outputs are stored.

    Args:
        technical: Technical coefficients `A`, shape `(sectors, sectors)`, with
            spectral radius below one. `A[i, j]` is the input from sector `i`
            per unit of output of sector `j`.
        demand: Final demand, shape `(sectors, scenarios)`.
        intensity: Direct emissions per unit of output, shape `(sectors,)`.

    Returns:
        Footprint of each scenario, shape `(scenarios,)`.
    """
    leontief = ops.eye(technical.shape[0], dtype=technical.dtype) - technical
    multiplier = ops.solve(ops.transpose(leontief), ops.expand_dims(intensity, -1))
    footprint = ops.squeeze(ops.matmul(ops.transpose(multiplier), demand), axis=0)

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        weighted = ops.matmul(demand, ops.expand_dims(upstream, -1))
        output = ops.solve(leontief, weighted)
        d_technical = ops.matmul(multiplier, ops.transpose(output))
        d_demand = multiplier * ops.expand_dims(upstream, 0)
        return d_technical, d_demand, ops.squeeze(output, axis=-1)

    return footprint, grad


class TrustNetwork(keras.layers.Layer):
    """Learns who listens to whom from opinions before and after a discussion.

    Args:
        agents: Number of agents.
        steps: Rounds of discussion between the two surveys.
        seed: Seed of the initial trust logits.
    """

    def __init__(self, agents: int, steps: int = 3, seed: Optional[int] = None, **kwargs):
        super().__init__(**kwargs)
        self.agents, self.steps, self.seed = agents, steps, seed

    def build(self, input_shape):
        init = keras.initializers.RandomNormal(stddev=0.1, seed=self.seed)
        self.logits = self.add_weight(shape=(self.agents, self.agents), initializer=init)
        self.attachment = self.add_weight(shape=(self.agents, 1), initializer="zeros")

    def call(self, beliefs):
        trust = ops.softmax(ops.convert_to_tensor(self.logits), axis=-1)
        stubbornness = ops.sigmoid(ops.convert_to_tensor(self.attachment))
        return friedkin_johnsen(beliefs, trust, stubbornness, self.steps)
