"""Off-policy learning from the logs of a recommender, for any Keras backend.

The logs hold, for every impression, which item (or which slate of items) the
production policy showed, with what probability, and what came of it. A new
policy is trained by maximising an estimate of its value on these logs:

* single items: the doubly robust estimator of Dudik et al. (2011), importance
  weights clipped at a cap;
* slates: the pseudo-inverse weight of Swaminathan et al. (2017) for policies
  that fill the slots independently.

What was shown is bound when an estimator is made for a batch, since the integer
tables take no part in differentiation.
"""

import dataclasses

import numpy as np
import keras
from keras import ops

DEFAULT_CAP = 10.0
MIN_PROPENSITY = 1e-4


@dataclasses.dataclass
class LoggedBatch:
    """Impressions with a single item.

    context    (impressions, features) float
    action     (impressions,) int
    reward     (impressions,) float
    propensity (impressions,) float, probability under the production policy
    """

    context: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    propensity: np.ndarray

    def __len__(self):
        return len(self.action)

    def log_propensity(self):
        return np.log(np.maximum(self.propensity, MIN_PROPENSITY)).astype("float32")


@dataclasses.dataclass
class SlateBatch:
    """Impressions with slates; slots beyond ``length`` are empty.

    slate          (impressions, slots) int
    length         (impressions,) int
    log_propensity (impressions, slots) float
    reward         (impressions,) float
    """

    context: np.ndarray
    slate: np.ndarray
    length: np.ndarray
    log_propensity: np.ndarray
    reward: np.ndarray

    def filled(self):
        slots = self.slate.shape[1]
        return (np.arange(slots)[None, :] < self.length[:, None]).astype("float32")


def _one_hot(index, size, dtype):
    return ops.one_hot(ops.convert_to_tensor(index, dtype="int32"), size, dtype=dtype)


def make_doubly_robust(action, cap=DEFAULT_CAP):
    """Doubly robust values of single impressions.

    Args:
        action: (impressions,) int array, the items shown.
        cap: importance weights pi/mu above this count as ``cap``.

    Returns:
        Function of ``(logits, predicted, reward, log_propensity)``.
    """

    @ops.custom_gradient
    def value(logits, predicted, reward, log_propensity):
        """Value of the policy softmax(logits) at each impression.

        Args:
            logits: (impressions, items).
            predicted: (impressions, items), the reward model.
            reward: (impressions,).
            log_propensity: (impressions,), logs of the logged probabilities.

        Returns:
            (impressions,) model value plus weighted residual of what was shown.
        """
        shown = _one_hot(action, logits.shape[-1], logits.dtype)
        log_policy = ops.log_softmax(logits, axis=-1)
        policy = ops.exp(log_policy)
        weight = ops.exp(ops.sum(shown * log_policy, axis=-1) - log_propensity)
        clipped = ops.minimum(weight, cap)
        model = ops.sum(policy * predicted, axis=-1)
        residual = reward - ops.sum(shown * predicted, axis=-1)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            free = ops.cast(weight < cap, logits.dtype)
            d_log_weight = upstream * free * weight * residual
            g = upstream[:, None]
            d_logits = g * policy * (predicted - model[:, None])
            d_logits = d_logits + d_log_weight[:, None] * (shown - policy)
            d_predicted = g * (policy - weight[:, None] * shown)
            return d_logits, d_predicted, upstream * clipped, -d_log_weight

        return model + clipped * residual, grad

    return value


class SlateWeights:
    """Pseudo-inverse weights of logged slates.

    Parameters
    ----------
    num_items : int
        Items that can fill a slot.
    """

    def __init__(self, num_items):
        self.num_items = num_items

    def bind(self, slate, filled):
        """Fixes the slates of a batch.

        Parameters
        ----------
        slate : int array (impressions, slots)
        filled : array (impressions, slots)
            1 for slots that were shown, 0 for empty ones.
        """
        num_items = self.num_items
        filled = np.asarray(filled, "float32")

        @ops.custom_gradient
        def slate_weight(logits, temperature, log_propensity):
            # logits [impressions, slots, items]; temperature [slots], positive;
            # log_propensity [impressions, slots] -> [impressions]
            shown = _one_hot(slate, num_items, logits.dtype)
            present = ops.cast(ops.convert_to_tensor(filled), logits.dtype)
            scaled = logits / temperature[None, :, None]
            log_policy = ops.log_softmax(scaled, axis=-1)
            ratio = present * ops.exp(
                ops.sum(shown * log_policy, axis=-1) - log_propensity
            )
            weight = 1.0 - ops.sum(present, axis=-1) + ops.sum(ratio, axis=-1)

            def grad(*args, upstream=None):
                if upstream is None:
                    (upstream,) = args
                d_ratio = upstream[:, None] * ratio
                d_scaled = d_ratio[:, :, None] * (shown - ops.exp(log_policy))
                d_logits = d_scaled / temperature[None, :, None]
                d_temperature = -ops.sum(d_logits * scaled, axis=(0, 2))
                return d_logits, d_temperature, -d_ratio

            return weight, grad

        return slate_weight


class ItemPolicy(keras.Model):
    """Softmax policy over items with a reward model of the same width."""

    def __init__(self, num_items, hidden=32, **kwargs):
        super().__init__(**kwargs)
        self.trunk = keras.layers.Dense(hidden, activation="tanh")
        self.policy_head = keras.layers.Dense(num_items)
        self.reward_head = keras.layers.Dense(num_items)

    def call(self, context):
        h = self.trunk(context)
        return self.policy_head(h), self.reward_head(h)


class SlotPolicy(keras.layers.Layer):
    """One softmax per slot; slots have their own temperatures.

    Lower slots are shown to fewer people, and their logits are fitted on less
    data: a temperature above 1 keeps them close to uniform.
    """

    def __init__(self, num_slots, num_items, **kwargs):
        super().__init__(**kwargs)
        self.num_slots = num_slots
        self.num_items = num_items
        self.dense = keras.layers.Dense(num_slots * num_items)

    def build(self, input_shape):
        self.dense.build(input_shape)
        self.temperature = self.add_weight(
            name="temperature", shape=(self.num_slots,), initializer="ones"
        )

    def call(self, context):
        flat = self.dense(context)
        return ops.reshape(flat, (-1, self.num_slots, self.num_items))

    def slate_value(self, batch):
        """Estimated mean reward of this policy on a ``SlateBatch``."""
        weights = SlateWeights(self.num_items).bind(batch.slate, batch.filled())
        w = weights(
            self(ops.convert_to_tensor(batch.context)),
            1.0 * self.temperature,
            ops.convert_to_tensor(batch.log_propensity),
        )
        return ops.mean(w * ops.convert_to_tensor(batch.reward))


def doubly_robust_value(policy, batch, cap=DEFAULT_CAP):
    """Mean value of ``policy`` on a ``LoggedBatch``."""
    logits, predicted = policy(ops.convert_to_tensor(batch.context))
    rule = make_doubly_robust(batch.action, cap=cap)
    return ops.mean(
        rule(
            logits,
            predicted,
            ops.convert_to_tensor(batch.reward),
            ops.convert_to_tensor(batch.log_propensity()),
        )
    )


def effective_sample_size(weight):
    """Kish's effective sample size of importance weights."""
    weight = np.asarray(weight, "float64")
    return float(weight.sum() ** 2 / np.maximum((weight**2).sum(), 1e-300))


def simulate_log(rng, impressions=64, features=5, num_items=6):
    """Logs of a skewed production policy."""
    context = rng.normal(size=(impressions, features)).astype("float32")
    skew = np.exp(rng.normal(scale=1.5, size=(impressions, num_items)))
    mu = skew / skew.sum(-1, keepdims=True)
    action = np.array([rng.choice(num_items, p=row) for row in mu])
    chance = 1.0 / (1.0 + np.exp(-context[:, 0] - 0.3 * action))
    reward = (rng.uniform(size=impressions) < chance).astype("float32")
    propensity = mu[np.arange(impressions), action].astype("float32")
    return LoggedBatch(context, action, reward, propensity)


def simulate_slates(rng, impressions=32, slots=3, features=5, num_items=6):
    context = rng.normal(size=(impressions, features)).astype("float32")
    slate = rng.integers(0, num_items, (impressions, slots))
    length = rng.integers(1, slots + 1, impressions)
    log_propensity = np.full((impressions, slots), -np.log(num_items), "float32")
    reward = rng.poisson(1.0, impressions).astype("float32")
    return SlateBatch(context, slate, length, log_propensity, reward)


if __name__ == "__main__":
    rng = np.random.default_rng(5)
    policy = ItemPolicy(num_items=6)
    print("doubly robust", float(doubly_robust_value(policy, simulate_log(rng))))
    slots = SlotPolicy(3, 6)
    print("slates", float(slots.slate_value(simulate_slates(rng))))
