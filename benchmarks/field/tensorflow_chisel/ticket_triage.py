"""Triage of customer-support tickets.

Three heads share a ticket encoder:

``ThreadReader``
    reads the messages of a ticket (customer, agent, bot) into one vector, newer
    messages counting for more;
``AgentMatcher``
    scores the agents a router has shortlisted for each ticket;
``ResponsePromise``
    models the time to the first answer for each priority class and says how likely
    the service level is to be missed, by how many minutes, and what answer
    time may be promised to the customer.

The heads are trained jointly from the resolved tickets of the last quarter.
"""

import math
from typing import Any, Dict, List, NamedTuple, Optional

import numpy as np
import tensorflow as tf

COMMON_QUEUE_SCORE = 0.0     # score of a slot that no shortlisted agent fills
NO_AGENT = -1
SQRT_TWO = math.sqrt(2.0)
LOG_SQRT_TWO_PI = 0.5 * math.log(2.0 * math.pi)
DEFAULT_DEADLINES = {"urgent": 30.0, "high": 120.0, "normal": 480.0, "low": 1440.0}


class TicketBatch(NamedTuple):
    """One batch of tickets.

    messages: [batch, length, dim] encoded messages, zero padded
    ages:     [batch, length] hours since the message was posted
    mask:     [batch, length] 1 for a message, 0 for padding
    table:    [batch, slots] ids of shortlisted agents, NO_AGENT in unused slots
    chosen:   [batch] slot of the agent who resolved the ticket
    minutes:  [batch] time to first answer
    priority: [batch] index of the priority class
    """

    messages: Any
    ages: Any
    mask: Any
    table: Any
    chosen: Any
    minutes: Any
    priority: Any


# ---------------------------------------------------------------------------
# reading the thread
# ---------------------------------------------------------------------------

class ThreadReader(tf.Module):
    """Pools a thread by one learned query with a recency slope.

    Args:
        dim: width of the message encodings.
        temperature: divides the scores before the softmax.
    """

    def __init__(self, dim: int, temperature: float = 1.0, name: Optional[str] = None):
        super().__init__(name=name)
        self.dim = dim
        self.temperature = temperature
        self.query = tf.Variable(tf.random.stateless_normal([dim], [3, 5]), name="query")
        self.slope = tf.Variable(-2.0, name="slope")
        self._thread_read = self._build_read()

    def _build_read(self):
        gain = 1.0 / (self.temperature * math.sqrt(self.dim))
        cool = 1.0 / self.temperature

        @tf.custom_gradient
        def thread_read(messages, query, decay, ages, mask):
            """Weighted mean of a ticket's messages; all zero for an empty ticket.

            The weight of a message is softmax(gain * <message, query> - decay * age
            / temperature) among the ticket's messages.
            """
            score = gain * tf.einsum("bld,d->bl", messages, query) - cool * decay * ages
            low = tf.constant(score.dtype.min / 4, dtype=score.dtype)
            score = tf.where(mask > 0, score, low)
            peak = tf.reduce_max(score, axis=1, keepdims=True)
            unnormed = tf.exp(score - peak) * mask
            weight = tf.math.divide_no_nan(
                unnormed, tf.reduce_sum(unnormed, axis=1, keepdims=True))
            read = tf.einsum("bl,bld->bd", weight, messages)

            def grad(upstream):
                along = tf.einsum("bd,bld->bl", upstream, messages)
                centre = tf.reduce_sum(weight * along, axis=1, keepdims=True)
                d_score = weight * (along - centre)
                g_messages = (weight[:, :, None] * upstream[:, None, :]
                              + gain * d_score[:, :, None] * query)
                g_query = gain * tf.einsum("bl,bld->d", d_score, messages)
                g_decay = -cool * tf.reduce_sum(d_score * ages)
                g_ages = -cool * decay * d_score
                return g_messages, g_query, g_decay, g_ages, None

            return read, grad

        return thread_read

    @tf.Module.with_name_scope
    def __call__(self, messages, ages, mask):
        decay = tf.nn.softplus(self.slope)
        return self._thread_read(messages, tf.convert_to_tensor(self.query), decay,
                                 ages, mask)


# ---------------------------------------------------------------------------
# matching agents
# ---------------------------------------------------------------------------

@tf.custom_gradient
def shortlist_scores(tickets, agents, load_bias, table):
    """Scores of shortlisted agents.

    Args:
        tickets: [batch, dim] ticket vectors.
        agents: [agents, dim] skill vectors.
        load_bias: [agents] offset for the agent's present load.
        table: [batch, slots] int32, agent ids.  Unused slots hold NO_AGENT; they
            stand for the common queue, whose score is COMMON_QUEUE_SCORE.

    Returns:
        [batch, slots] scores.
    """
    filled = table >= 0
    safe = tf.maximum(table, 0)
    skill = tf.gather(agents, safe)
    raw = tf.einsum("bd,bsd->bs", tickets, skill) + tf.gather(load_bias, safe)
    scores = tf.where(filled, raw, tf.cast(COMMON_QUEUE_SCORE, raw.dtype))

    def grad(upstream):
        head_count = tf.shape(agents)[0]
        flat = tf.reshape(safe, [-1])
        live = tf.where(filled, upstream, tf.zeros_like(upstream))
        g_tickets = tf.einsum("bs,bsd->bd", live, skill)
        rows = live[:, :, None] * tickets[:, None, :]
        rows = tf.reshape(rows, [-1, agents.shape[-1]])
        g_agents = tf.math.unsorted_segment_sum(rows, flat, head_count)
        g_bias = tf.math.unsorted_segment_sum(
            tf.reshape(upstream, [-1]), flat, head_count)
        return g_tickets, g_agents, g_bias, None

    return scores, grad


class AgentMatcher(tf.Module):
    def __init__(self, agents: int, dim: int, name: Optional[str] = None):
        super().__init__(name=name)
        self.skill = tf.Variable(
            0.1 * tf.random.stateless_normal([agents, dim], [7, 11]), name="skill")
        self.load_bias = tf.Variable(tf.zeros([agents]), name="load_bias")

    def __call__(self, tickets, table):
        return shortlist_scores(tickets, tf.convert_to_tensor(self.skill),
                                tf.convert_to_tensor(self.load_bias), table)

    def loss(self, tickets, table, chosen):
        logits = self(tickets, table)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=chosen, logits=logits))


# ---------------------------------------------------------------------------
# time to first answer
# ---------------------------------------------------------------------------

def normal_cdf(x):
    return 0.5 * tf.math.erfc(-x / SQRT_TWO)


def normal_pdf(x):
    return tf.exp(-0.5 * tf.square(x) - LOG_SQRT_TWO_PI)


def response_promise(quantile: float = 0.9):
    """Service figures of a log-normal answer time.

    Parameters
    ----------
    quantile : float
        Share of tickets which are to be answered within the promised time.

    Returns
    -------
    callable
        ``figures(mu, sigma, deadline)`` with ``mu`` of shape (batch, classes),
        ``sigma`` and ``deadline`` of shape (classes,).  Gives three arrays of shape
        (batch, classes): the chance that the deadline is missed, the expected
        minutes past it (zero when met) and the promised time.
    """
    if not 0.0 < quantile < 1.0:
        raise ValueError("quantile must lie between 0 and 1")
    z = float(SQRT_TWO * tf.math.erfinv(tf.constant(2.0 * quantile - 1.0, tf.float64)))

    @tf.custom_gradient
    def figures(mu, sigma, deadline):
        near = (mu - tf.math.log(deadline)) / sigma
        far = near + sigma
        mean = tf.exp(mu + 0.5 * tf.square(sigma))
        breach = normal_cdf(near)
        beyond = normal_cdf(far)
        late = mean * beyond - deadline * breach
        promise = tf.exp(mu + z * sigma)

        def grad(g_breach, g_late, g_promise):
            bell = normal_pdf(near)
            g_near = g_breach * bell
            g_mu = g_near / sigma + g_late * mean * beyond + g_promise * promise
            g_sigma = (-g_near * near / sigma
                       + g_late * (sigma * mean * beyond + deadline * bell)
                       + g_promise * promise * z * sigma)
            g_deadline = -g_near / (sigma * deadline) - g_late * breach
            return g_mu, tf.reduce_sum(g_sigma, axis=0), tf.reduce_sum(g_deadline, axis=0)

        return (breach, late, promise), grad

    return figures


class ResponsePromise(tf.Module):
    """Head on the ticket vector; one log-normal for each priority class."""

    def __init__(self, dim: int, deadlines: Dict[str, float] = None,
                 quantile: float = 0.9, name: Optional[str] = None):
        super().__init__(name=name)
        deadlines = dict(deadlines or DEFAULT_DEADLINES)
        self.class_names: List[str] = list(deadlines)
        minutes = np.array(list(deadlines.values()), dtype=np.float32)
        self.deadline = tf.constant(minutes)
        self.kernel = tf.Variable(tf.zeros([dim, len(minutes)]), name="kernel")
        self.base = tf.Variable(np.log(minutes) - 0.7, name="base", dtype=tf.float32)
        self.log_sigma = tf.Variable(tf.zeros([len(minutes)]), name="log_sigma")
        self._figures = response_promise(quantile)

    def location(self, tickets):
        return tf.linalg.matmul(tickets, self.kernel) + self.base

    def __call__(self, tickets):
        """Dict of breach chance, late minutes and promised minutes."""
        breach, late, promise = self._figures(
            self.location(tickets), tf.exp(self.log_sigma), self.deadline)
        return {"breach": breach, "late": late, "promise": promise}

    def nll(self, tickets, minutes, priority):
        mu = tf.gather(self.location(tickets), priority, axis=1, batch_dims=1)
        log_sigma = tf.gather(self.log_sigma, priority)
        resid = (tf.math.log(minutes) - mu) * tf.exp(-log_sigma)
        return tf.reduce_mean(0.5 * tf.square(resid) + log_sigma)


# ---------------------------------------------------------------------------
# joint model
# ---------------------------------------------------------------------------

class TriageModel(tf.Module):
    """Reader, matcher and promise, with a penalty on long promises.

    ``promise_weight`` keeps the promised times short, ``late_weight`` the expected
    lateness; both are in units of the likelihood for each hour.
    """

    def __init__(self, dim, agents, promise_weight=0.02, late_weight=0.05):
        super().__init__()
        self.reader = ThreadReader(dim)
        self.matcher = AgentMatcher(agents, dim)
        self.promise = ResponsePromise(dim)
        self.promise_weight = promise_weight
        self.late_weight = late_weight

    def loss(self, batch: TicketBatch) -> tf.Tensor:
        vectors = self.reader(batch.messages, batch.ages, batch.mask)
        match = self.matcher.loss(vectors, batch.table, batch.chosen)
        times = self.promise.nll(vectors, batch.minutes, batch.priority)
        service = self.promise(vectors)
        late = tf.reduce_mean(service["late"]) / 60.0
        promised = tf.reduce_mean(service["promise"]) / 60.0
        return (match + times + self.late_weight * late
                + self.promise_weight * promised)

    def step(self, batch: TicketBatch, rate: float = 0.05) -> float:
        with tf.GradientTape() as tape:
            loss = self.loss(batch)
        variables = self.trainable_variables
        grads, _ = tf.clip_by_global_norm(tape.gradient(loss, variables), 1.0)
        for var, g in zip(variables, grads):
            var.assign_sub(rate * g)
        return float(loss)


def fake_batch(batch=16, length=6, dim=8, agents=12, slots=4, seed=0) -> TicketBatch:
    """Random tickets with threads of unequal length and part-filled shortlists."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, length + 1, size=batch)
    mask = (np.arange(length) < lengths[:, None]).astype(np.float32)
    table = np.stack([rng.permutation(agents)[:slots] for _ in range(batch)])
    table[:, -1] = np.where(rng.random(batch) < 0.4, NO_AGENT, table[:, -1])
    return TicketBatch(
        messages=tf.constant(rng.normal(size=(batch, length, dim)) * mask[..., None],
                             tf.float32),
        ages=tf.constant(rng.gamma(2.0, 3.0, size=(batch, length)), tf.float32),
        mask=tf.constant(mask),
        table=tf.constant(table, tf.int32),
        chosen=tf.constant(rng.integers(0, slots - 1, size=batch), tf.int32),
        minutes=tf.constant(rng.lognormal(4.0, 1.0, size=batch), tf.float32),
        priority=tf.constant(rng.integers(0, len(DEFAULT_DEADLINES), size=batch),
                             tf.int32),
    )


if __name__ == "__main__":
    model = TriageModel(dim=8, agents=12)
    batch = fake_batch()
    for epoch in range(5):
        print(epoch, model.step(batch))
