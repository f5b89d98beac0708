"""Training objectives.

Classification losses take raw logits (class axis last) and integer labels.
``reduction`` is one of "none", "mean" and "sum" everywhere.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np


def _reduce(values: jax.Array, reduction: str) -> jax.Array:
  if reduction == "none":
    return values
  if reduction == "sum":
    return jnp.sum(values)
  if reduction == "mean":
    return jnp.mean(values)
  raise ValueError(f"reduction={reduction!r}")


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def token_cross_entropy(
    logits: jax.Array,
    labels: jax.Array,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> jax.Array:
  """Cross entropy for language models.

  The softmax is not stored for the backward pass.

  Args:
    logits: [..., vocab].
    labels: [...] integer labels.
    ignore_index: positions with this label do not take part.
    reduction: "mean" is the mean over the positions that take part.

  Returns:
    A scalar, or the loss of every position for "none".
  """
  return _token_ce_fwd(logits, labels, ignore_index, reduction)[0]


def _token_ce_fwd(logits, labels, ignore_index, reduction):
  valid = labels != ignore_index
  safe = jnp.where(valid, labels, 0)
  lse = jax.nn.logsumexp(logits, axis=-1)
  picked = jnp.take_along_axis(logits, safe[..., None], axis=-1)[..., 0]
  loss = jnp.where(valid, lse - picked, 0.0)
  if reduction == "mean":
    out = jnp.sum(loss) / jnp.maximum(jnp.sum(valid), 1)
  else:
    out = _reduce(loss, reduction)
  return out, (logits, labels, lse)


def _token_ce_bwd(ignore_index, reduction, res, g):
  logits, labels, lse = res
  valid = labels != ignore_index
  p = jnp.exp(logits - lse[..., None])
  onehot = jax.nn.one_hot(jnp.where(valid, labels, 0), logits.shape[-1], dtype=p.dtype)
  if reduction == "mean":
    g = g / labels.size
  g = jnp.where(valid, g, 0.0)
  return (p - onehot) * g[..., None], np.zeros(labels.shape, jax.dtypes.float0)


token_cross_entropy.defvjp(_token_ce_fwd, _token_ce_bwd)


def _smoothed_targets(labels, class_weights, smoothing):
  k = class_weights.shape[0]
  hard = jax.nn.one_hot(labels, k, dtype=class_weights.dtype)
  return ((1.0 - smoothing) * hard + smoothing / k) * class_weights


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def smoothed_cross_entropy(logits, labels, class_weights, smoothing=0.0, reduction="mean"):
  """Cross entropy with label smoothing and class weights.

  Follows torch.nn.CrossEntropyLoss: the class weights also apply to the smoothed part,
  and "mean" divides by the sum of the weights of the labels.

  Args:
    logits: [n, classes].
    labels: [n].
    class_weights: [classes], positive.
    smoothing: amount of label smoothing.
    reduction: see the module.
  """
  return _smoothed_ce_fwd(logits, labels, class_weights, smoothing, reduction)[0]


def _smoothed_ce_fwd(logits, labels, class_weights, smoothing, reduction):
  logp = jax.nn.log_softmax(logits, axis=-1)
  target = _smoothed_targets(labels, class_weights, smoothing)
  loss = -jnp.sum(target * logp, axis=-1)
  if reduction == "mean":
    out = jnp.sum(loss) / jnp.sum(class_weights[labels])
  else:
    out = _reduce(loss, reduction)
  return out, (logp, labels, class_weights, out)


def _smoothed_ce_bwd(smoothing, reduction, res, g):
  logp, labels, class_weights, out = res
  k = class_weights.shape[0]
  target = _smoothed_targets(labels, class_weights, smoothing)
  hard = jax.nn.one_hot(labels, k, dtype=logp.dtype)

  if reduction == "mean":
    total = jnp.sum(class_weights[labels])
    per_row = jnp.full(labels.shape, g / total)
  else:
    per_row = jnp.broadcast_to(g, labels.shape)

  mass = jnp.sum(target, axis=-1, keepdims=True)
  dlogits = (jnp.exp(logp) * mass - target) * per_row[:, None]

  share = (1.0 - smoothing) * hard + smoothing / k
  dweights = -jnp.sum(share * logp * per_row[:, None], axis=0)
  if reduction == "mean":
    dweights = dweights - (g * out / total) * jnp.sum(hard, axis=0)
  return dlogits, None, dweights


smoothed_cross_entropy.defvjp(_smoothed_ce_fwd, _smoothed_ce_bwd)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3, 4))
def sigmoid_focal_loss(logits, labels, alpha=0.25, gamma=2.0, reduction="none"):
  """Focal loss of Lin et al. (2017) for binary labels (integers 0 and 1)."""
  sign = 2.0 * labels.astype(logits.dtype) - 1.0
  z = sign * logits
  weight = jnp.where(labels > 0, alpha, 1.0 - alpha)
  modulation = jnp.exp(gamma * jax.nn.log_sigmoid(-z))
  return _reduce(weight * modulation * jax.nn.softplus(-z), reduction)


@sigmoid_focal_loss.defjvp
def _sigmoid_focal_loss_jvp(alpha, gamma, reduction, primals, tangents):
  logits, labels = primals
  logits_dot = tangents[0]
  out = sigmoid_focal_loss(logits, labels, alpha, gamma, reduction)
  sign = 2.0 * labels.astype(logits.dtype) - 1.0
  z = sign * logits
  weight = jnp.where(labels > 0, alpha, 1.0 - alpha)
  modulation = jnp.exp(gamma * jax.nn.log_sigmoid(-z))
  dz = -modulation * (gamma * jax.nn.sigmoid(z) * jax.nn.softplus(-z) + jax.nn.sigmoid(-z))
  return out, _reduce(weight * sign * dz * logits_dot, reduction)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def huber_loss(predictions: jax.Array, targets: jax.Array, delta: float = 1.0) -> jax.Array:
  """Huber loss, quadratic up to `delta` and linear beyond.

  Args:
    predictions: any shape.
    targets: shape of `predictions`.
    delta: where the loss gets linear.

  Returns:
    elementwise losses.
  """
  assert predictions.shape == targets.shape, (predictions.shape, targets.shape)
  err = jnp.abs(predictions - targets)
  return jnp.where(err <= delta, 0.5 * err**2, delta * (err - 0.5 * delta))


@huber_loss.defjvp
def _huber_loss_jvp(delta, primals, tangents):
  pred, target = primals
  pred_dot, target_dot = tangents
  diff = pred - target
  slope = jnp.where(jnp.abs(diff) <= delta, diff, jnp.sign(diff))
  return huber_loss(pred, target, delta), slope * (pred_dot - target_dot)


def detection_loss(cls_logits, cls_labels, boxes, gt_boxes, num_pos, delta=1.0):
  """RetinaNet-like sum of the focal and the box loss, per positive anchor."""
  cls = sigmoid_focal_loss(cls_logits, cls_labels, 0.25, 2.0, "sum")
  box = jnp.sum(huber_loss(boxes, gt_boxes, delta))
  return (cls + box) / jnp.maximum(num_pos, 1)
