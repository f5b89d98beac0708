import keras
from keras import ops


class SeparationMeter:
    """Between/within scatter of labelled embeddings, for use as a regulariser."""

    def __init__(self, num_classes, eps=1e-8, weight=1.0):
        self.num_classes = num_classes
        self.eps = eps
        self.weight = weight

    def __call__(self, embeddings, labels):
        return self.weight * class_separation(embeddings, labels, self.num_classes, self.eps)


def class_separation(embeddings, labels, num_classes, eps=1e-8):
    onehot = ops.one_hot(labels, num_classes, dtype=embeddings.dtype)
    counts = ops.maximum(ops.sum(onehot, axis=0), 1.0)
    present = ops.cast(ops.any(onehot > 0, axis=0), embeddings.dtype)

    @keras.ops.custom_gradient
    def scatter_ratio(x):
        centroids = ops.einsum("nc,nd->cd", onehot, x) / counts[:, None]
        own = ops.einsum("nc,cd->nd", onehot, centroids)
        between = ops.sum((own - ops.mean(x, axis=0)) ** 2)
        within = ops.sum((x - own) ** 2) + eps

        def grad(*args, upstream=None):
            upstream = upstream if upstream is not None else args[0]
            grand = ops.sum(present[:, None] * centroids, axis=0) / ops.sum(present)
            d_between = 2.0 * (own - grand)
            d_within = 2.0 * (x - own)
            return upstream * (d_between - between / within * d_within) / within

        return between / within, grad

    return scatter_ratio(embeddings)


def participation_ratio(features, mask=None, center=True, normalize=False):
    """Effective dimension ``tr(C)^2 / tr(C^2)`` of a set of feature vectors.

    Args:
        features: ``[..., items, dim]``.
        mask: optional ``[..., items]``, nonzero for the items that count; at
            least two of them differ in each set.
        center: take the second moment about the mean of the counted items
            (the covariance) and not about zero.
        normalize: divide by ``dim``, which gives values in (0, 1].

    Returns:
        ``[...]``. Masked items get no gradient.
    """
    dim = features.shape[-1]

    @keras.ops.custom_gradient
    def ratio(x):
        if mask is None:
            keep = ops.ones_like(x[..., :1])
        else:
            keep = ops.expand_dims(ops.cast(ops.convert_to_tensor(mask) != 0, x.dtype), -1)
        count = ops.sum(keep, axis=-2, keepdims=True)
        centred = x * keep
        if center:
            centred = keep * (x - ops.sum(centred, axis=-2, keepdims=True) / count)
        moment = ops.einsum("...ia,...ib->...ab", centred, centred) / count
        trace = ops.sum(centred**2, axis=(-2, -1)) / count[..., 0, 0]
        square = ops.sum(moment**2, axis=(-2, -1))
        scale = 1.0 / dim if normalize else 1.0

        def grad(*args, upstream=None):
            upstream = upstream if upstream is not None else args[0]
            along = (upstream * scale * trace / square)[..., None, None]
            pull = (trace / square)[..., None, None]
            # centred rows sum to zero, so the mean needs no term of its own
            return (
                4.0
                / count
                * along
                * (centred - pull * ops.einsum("...ia,...ab->...ib", centred, moment))
            )

        return scale * trace**2 / square, grad

    return ratio(features)
