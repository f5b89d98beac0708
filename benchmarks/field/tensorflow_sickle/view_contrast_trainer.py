"""Losses and residual plumbing for self-supervised image encoders.

The pieces shared by our contrastive and self-distillation runs:

* ``lifted_structure`` -- labels define positives and negatives;
* ``queue_contrast`` -- one positive key against a queue of stored keys;
* ``make_view_distillation`` -- student/teacher cross entropy over crops with
  a running centre, no gradient to the teacher;
* ``ScaledResidual`` -- a residual branch with per-channel scale and
  per-sample dropping.

Everything runs in the dtype it is given.  Similarity matrices at our batch
sizes (4096 x 65536) dominate memory, hence the hand-written backward passes
which keep only the softmax.
"""

import dataclasses
from typing import Callable, Dict, Iterable, Optional, Tuple

import numpy as np
import tensorflow as tf

LARGE_NEGATIVE = -1.0e9
NORM_EPSILON = 1.0e-12
MAX_LOG_SCALE = float(np.log(100.0))


@dataclasses.dataclass(frozen=True)
class ContrastConfig:
    width: int = 64
    depth: int = 4
    patch: int = 4
    survival: float = 1.0
    scale_init: float = 1e-4
    margin: float = 1.0
    student_temperature: float = 0.1
    teacher_temperature: float = 0.04
    center_momentum: float = 0.9
    queue_size: int = 512


def unit_rows(x: tf.Tensor) -> tf.Tensor:
    """Rows scaled to unit length."""
    squared = tf.reduce_sum(tf.square(x), axis=-1, keepdims=True)
    return x * tf.math.rsqrt(tf.maximum(squared, NORM_EPSILON))


def _positive_pairs(labels: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
    same = tf.equal(labels[:, tf.newaxis], labels[tf.newaxis, :])
    itself = tf.eye(tf.shape(labels)[0], dtype=tf.bool)
    return tf.logical_and(same, tf.logical_not(itself)), itself


# ------------------------------------------------------------------ contrast


def _distances(x: tf.Tensor) -> tf.Tensor:
    squared = tf.reduce_sum(tf.square(x), axis=1)
    gram = tf.matmul(x, x, transpose_b=True)
    between = squared[:, tf.newaxis] + squared[tf.newaxis, :] - 2.0 * gram
    return tf.sqrt(tf.maximum(between, NORM_EPSILON))


@tf.custom_gradient
def lifted_structure(embeddings, labels, margin):
    """Generalised lifted-structure loss over one batch.

    For every anchor the soft maximum of the distances to its own class is
    asked to stay ``margin`` under the soft minimum of the distances to the
    other classes.

    Args:
      embeddings: [n, d], usually with unit rows.
      labels: [n] integer class ids. A class may occur once in the batch; such
        an anchor has no positive and does not count in the mean.
      margin: scalar tensor, may be trained.

    Returns:
      Scalar, mean of the hinges over the anchors that have a positive and a
      negative.
    """
    dtype = embeddings.dtype
    positive, itself = _positive_pairs(labels)
    negative = tf.logical_not(tf.logical_or(positive, itself))
    anchored = tf.logical_and(
        tf.reduce_any(positive, axis=1), tf.reduce_any(negative, axis=1)
    )

    distance = _distances(embeddings)
    excluded = tf.cast(LARGE_NEGATIVE, dtype)
    pulled = tf.where(positive, distance, excluded)
    pushed = tf.where(negative, margin - distance, excluded)
    gap = tf.reduce_logsumexp(pulled, axis=1) + tf.reduce_logsumexp(pushed, axis=1)
    anchors = tf.maximum(tf.reduce_sum(tf.cast(anchored, dtype)), 1.0)
    hinge = tf.where(anchored, tf.nn.relu(gap), tf.zeros_like(gap))
    loss = tf.reduce_sum(hinge) / anchors

    def grad(upstream):
        active = tf.cast(tf.logical_and(anchored, gap > 0.0), dtype)
        active *= upstream / tf.cast(tf.shape(embeddings)[0], dtype)
        residual = tf.nn.softmax(pulled, axis=1) - tf.nn.softmax(pushed, axis=1)
        residual *= active[:, tf.newaxis]
        spring = (residual + tf.transpose(residual)) / distance
        d_embeddings = tf.reduce_sum(
            spring, axis=1, keepdims=True
        ) * embeddings - tf.matmul(spring, embeddings)
        return d_embeddings, None, tf.reduce_sum(active)

    return loss, grad


@tf.custom_gradient
def queue_contrast(query, key, queue, log_scale, ignore):
    """InfoNCE of queries against their key and a queue of stored keys.

    query, key: [batch, d]; queue: [size, d]; log_scale: scalar, the logits
    are multiplied by its exponential; ignore: [batch, size] bool, queue
    entries that come from the same image as the query and drop out of the
    softmax.  Mean over the batch.  Returns the loss and the per-query rank
    surrogate ``1 - p(key)``.
    """
    scale = tf.exp(log_scale)
    own = tf.reduce_sum(query * key, axis=1, keepdims=True)
    stored = tf.matmul(query, queue, transpose_b=True)
    raw = tf.concat([own, stored], axis=1)
    dropped = tf.concat([tf.zeros_like(ignore[:, :1]), ignore], axis=1)
    logits = tf.where(dropped, tf.cast(LARGE_NEGATIVE, raw.dtype), scale * raw)
    log_prob = tf.nn.log_softmax(logits, axis=1)
    prob = tf.exp(log_prob)
    loss = -tf.reduce_mean(log_prob[:, 0])
    confusion = 1.0 - prob[:, 0]

    def grad(d_loss, d_confusion):
        size = tf.cast(tf.shape(query)[0], raw.dtype)
        is_key = tf.concat([tf.ones_like(own), tf.zeros_like(stored)], axis=1)
        weight = d_loss / size + d_confusion * prob[:, 0]
        d_logits = weight[:, tf.newaxis] * (prob - is_key)
        d_raw = scale * d_logits
        d_query = d_raw[:, :1] * key + tf.matmul(d_raw[:, 1:], queue)
        d_key = d_raw[:, :1] * query
        d_queue = tf.matmul(d_raw[:, 1:], query, transpose_a=True)
        d_log_scale = tf.reduce_sum(d_raw * raw)
        return d_query, d_key, d_queue, d_log_scale, None

    return (loss, confusion), grad


class KeyQueue:
    """First-in first-out store of key embeddings and their image ids."""

    def __init__(self, size: int, width: int, dtype=tf.float32, seed: int = 0):
        start = tf.random.stateless_normal([size, width], [seed, 1], dtype=dtype)
        self.keys = unit_rows(start)
        self.ids = tf.fill([size], tf.constant(-1, tf.int64))

    def push(self, keys: tf.Tensor, ids: tf.Tensor) -> None:
        n = tf.shape(keys)[0]
        self.keys = tf.concat([tf.stop_gradient(keys), self.keys[:-n]], axis=0)
        self.ids = tf.concat([tf.cast(ids, tf.int64), self.ids[:-n]], axis=0)

    def loss(self, query, key, ids, log_scale):
        ignore = tf.equal(
            tf.cast(ids, tf.int64)[:, tf.newaxis], self.ids[tf.newaxis, :]
        )
        log_scale = tf.minimum(log_scale, tf.cast(MAX_LOG_SCALE, query.dtype))
        return queue_contrast(
            unit_rows(query), unit_rows(key), self.keys, log_scale, ignore
        )


# -------------------------------------------------------------- distillation


def make_view_distillation(
    student_temperature: float = 0.1, teacher_temperature: float = 0.04
) -> Callable[..., Tuple[tf.Tensor, tf.Tensor]]:
    """Build the crop-to-crop distillation loss for fixed temperatures."""

    @tf.custom_gradient
    def view_distillation(student, teacher, center):
        """Cross entropy of every student crop with every other teacher crop.

        ``student`` is (crops, batch, prototypes) and ``teacher`` is (global
        crops, batch, prototypes); the global crops are the first ones of the
        student, and a crop is never compared with itself.  The teacher and
        its ``center`` are constants here: the teacher is an average of past
        students.  The second result, the mean teacher logits for the next
        centre, is a constant as well.
        """
        teacher = tf.stop_gradient(teacher)
        center = tf.stop_gradient(center)
        goal = tf.nn.softmax((teacher - center) / teacher_temperature, axis=-1)
        log_prob = tf.nn.log_softmax(student / student_temperature, axis=-1)

        n_goal, n_crop = tf.shape(goal)[0], tf.shape(student)[0]
        other = tf.not_equal(
            tf.range(n_goal)[:, tf.newaxis], tf.range(n_crop)[tf.newaxis, :]
        )
        other = tf.cast(other, student.dtype)
        pairs = tf.maximum(tf.reduce_sum(other), 1.0)
        samples = tf.cast(tf.shape(student)[1], student.dtype)

        cross = -tf.einsum("gbk,cbk,gc->", goal, log_prob, other)
        loss = cross / (pairs * samples)
        teacher_mean = tf.reduce_mean(teacher, axis=[0, 1])

        def grad(d_loss, _):
            wanted = tf.einsum("gbk,gc->cbk", goal, other)
            mass = tf.reduce_sum(other, axis=0)[:, tf.newaxis, tf.newaxis]
            d_student = mass * tf.exp(log_prob) - wanted
            d_student *= d_loss / (pairs * samples * student_temperature)
            return d_student, tf.zeros_like(teacher), tf.zeros_like(center)

        return (loss, teacher_mean), grad

    return view_distillation


class RunningCenter:
    def __init__(self, prototypes: int, momentum: float, dtype=tf.float32):
        self.momentum = momentum
        self.value = tf.zeros([prototypes], dtype)

    def update(self, teacher_mean: tf.Tensor) -> None:
        self.value = self.momentum * self.value + (1.0 - self.momentum) * teacher_mean


# ------------------------------------------------------------------ residual


class ScaledResidual(tf.Module):
    """``x + scale * branch(x)`` with whole branches dropped per sample.

    In training a sample keeps its branch with probability ``survival`` and
    the kept branches are divided by it, so that the expectation is that of
    the full network. ``survival=1`` switches dropping off.
    """

    def __init__(
        self,
        branch: Callable[[tf.Tensor], tf.Tensor],
        width: int,
        survival: float = 1.0,
        scale_init: float = 1e-4,
        dtype=tf.float32,
        name: Optional[str] = None,
    ):
        super().__init__(name=name)
        if not 0.0 < survival <= 1.0:
            raise ValueError(f"survival must lie in (0, 1], got {survival}")
        self.branch = branch
        self.survival = survival
        self.scale = tf.Variable(tf.fill([width], tf.cast(scale_init, dtype)))
        self._merge = self._make_merge(survival)

    @staticmethod
    def _make_merge(survival):
        @tf.custom_gradient
        def merge(skip, branch, scale, keep):
            # skip, branch: [batch, ..., width]; scale: [width]; keep: [batch] bool
            lead = [1] * (branch.shape.rank - 1)
            gate = tf.reshape(tf.cast(keep, branch.dtype), [-1] + lead)
            out = skip + gate * branch * scale / survival

            def grad(upstream):
                kept = upstream * gate
                d_branch = kept * scale / survival
                d_scale = tf.reduce_sum(
                    kept * branch, axis=list(range(branch.shape.rank - 1))
                )
                return upstream, d_branch, d_scale, None

            return out, grad

        return merge

    def __call__(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        branch = self.branch(x)
        if not training or self.survival == 1.0:
            return x + self.scale * branch
        keep = tf.random.uniform([tf.shape(x)[0]]) < self.survival
        return self._merge(x, branch, self.scale, keep)


class PatchEncoder(tf.Module):
    """Small token mixer used by the smoke tests and the demo."""

    def __init__(self, config: ContrastConfig, tokens: int, channels: int = 3):
        super().__init__()
        init = tf.initializers.GlorotUniform(seed=3)
        inputs = config.patch * config.patch * channels
        self.config = config
        self.embed = tf.Variable(init([inputs, config.width]))
        self.token_mix = [
            tf.Variable(init([tokens, tokens])) for _ in range(config.depth)
        ]
        self.channel_mix = [
            tf.Variable(init([config.width, config.width]))
            for _ in range(config.depth)
        ]
        self.blocks = [
            ScaledResidual(
                self._branch(t, c), config.width, config.survival, config.scale_init
            )
            for t, c in zip(self.token_mix, self.channel_mix)
        ]

    @staticmethod
    def _branch(token_mix, channel_mix):
        def apply(x):
            mixed = tf.einsum("btc,ts->bsc", x, token_mix)
            return tf.nn.gelu(tf.einsum("btc,cd->btd", mixed, channel_mix))

        return apply

    def __call__(self, images: tf.Tensor, training: bool = False) -> tf.Tensor:
        p = self.config.patch
        patches = tf.image.extract_patches(
            images, [1, p, p, 1], [1, p, p, 1], [1, 1, 1, 1], "VALID"
        )
        flat = tf.reshape(patches, [tf.shape(images)[0], -1, patches.shape[-1]])
        x = tf.einsum("bti,ic->btc", flat, self.embed)
        for block in self.blocks:
            x = block(x, training=training)
        return tf.reduce_mean(x, axis=1)


def train_step(
    encoder: PatchEncoder,
    images: tf.Tensor,
    labels: tf.Tensor,
    rate: float = 0.05,
) -> Dict[str, tf.Tensor]:
    """One SGD step on the lifted-structure loss."""
    with tf.GradientTape() as tape:
        features = unit_rows(encoder(images, training=True))
        loss = lifted_structure(
            features, labels, tf.constant(encoder.config.margin)
        )
    variables: Iterable[tf.Variable] = encoder.trainable_variables
    grads = tape.gradient(loss, variables)
    norm = tf.linalg.global_norm(grads)
    for var, g in zip(variables, grads):
        if g is not None:
            var.assign_sub(rate * g)
    return {"loss": loss, "gradient_norm": norm}


if __name__ == "__main__":
    cfg = ContrastConfig(width=16, depth=2, survival=0.8, scale_init=0.1)
    net = PatchEncoder(cfg, tokens=16)
    batch = tf.random.stateless_normal([12, 16, 16, 3], [1, 2])
    classes = tf.constant([0, 0, 1, 1, 2, 2, 3, 4, 5, 5, 0, 1])
    for _ in range(3):
        print({k: float(v) for k, v in train_step(net, batch, classes).items()})

    store = KeyQueue(cfg.queue_size, cfg.width)
    emb = net(batch)
    print(float(store.loss(emb, emb, tf.range(12), tf.constant(2.0))[0]))

    distil = make_view_distillation()
    center = RunningCenter(10, cfg.center_momentum)
    crops = tf.random.stateless_normal([5, 12, 10], [3, 4])
    value, mean_logits = distil(crops, crops[:2], center.value)
    center.update(mean_logits)
    print(float(value))
