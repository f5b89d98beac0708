"""Training objectives: forecasting, contrastive, long-tailed and multi-label heads."""
import keras
from keras import ops


def _take(args, upstream):
    return args[0] if upstream is None else upstream


def _reduce(values, how):
    if how == "mean":
        return ops.mean(values)
    if how == "sum":
        return ops.sum(values)
    if how == "none":
        return values
    raise ValueError(f"unknown reduction {how!r}")


def _spread(dy, values, how):
    """Cotangent of `values` given the one of `_reduce(values, how)`."""
    if how == "mean":
        count = 1
        for n in values.shape:
            count *= n
        return ops.ones_like(values) * dy / count
    return ops.ones_like(values) * dy


# ---- quantile forecasts -----------------------------------------------------


class SmoothPinballLoss(keras.losses.Loss):
    """Pinball loss with the kink replaced by a softplus of width `kappa`,
    plus a squared hinge on quantiles that cross.

    y_true: (batch, horizon); y_pred: (batch, horizon, len(quantiles)), ascending.
    """

    def __init__(self, quantiles=(0.1, 0.5, 0.9), kappa=0.1, crossing=1.0, **kw):
        super().__init__(**kw)
        self.quantiles = tuple(quantiles)
        self.kappa = kappa
        self.crossing = crossing

    def call(self, y_true, y_pred):
        kappa, crossing = self.kappa, self.crossing
        tau = ops.convert_to_tensor(self.quantiles, dtype=y_pred.dtype)

        @ops.custom_gradient
        def pinball(target, pred):
            u = target[..., None] - pred
            smooth = tau * u + kappa * ops.softplus(-u / kappa)
            overlap = ops.relu(pred[..., :-1] - pred[..., 1:])
            loss = ops.mean(smooth, axis=-1) + crossing * ops.sum(ops.square(overlap), axis=-1)

            def grad(*args, upstream=None):
                dy = _take(args, upstream)[..., None]
                d_u = dy * (tau - ops.sigmoid(-u / kappa)) / len(self.quantiles)
                d_overlap = dy * 2.0 * crossing * overlap
                zero = ops.zeros_like(d_overlap[..., :1])
                d_pred = (
                    -d_u
                    + ops.concatenate([d_overlap, zero], axis=-1)
                    - ops.concatenate([zero, d_overlap], axis=-1)
                )
                return ops.sum(d_u, axis=-1), d_pred

            return loss, grad

        return pinball(ops.cast(y_true, y_pred.dtype), y_pred)


# ---- contrastive ------------------------------------------------------------


def make_nt_xent(temperature=0.5):
    """SimCLR loss of two views (n, d) and (n, d); embeddings are normalized inside."""

    def unit(z):
        norm = ops.sqrt(ops.sum(ops.square(z), axis=-1, keepdims=True))
        return z / norm, norm

    @ops.custom_gradient
    def nt_xent(view_a, view_b):
        n = view_a.shape[0]
        z, norm = unit(ops.concatenate([view_a, view_b], axis=0))
        self_pair = ops.eye(2 * n, dtype=z.dtype)
        partner = ops.roll(self_pair, n, axis=1)
        logits = ops.matmul(z, ops.transpose(z)) / temperature - 1e9 * self_pair
        logp = ops.log_softmax(logits, axis=-1)
        loss = -ops.sum(partner * logp) / (2 * n)

        def grad(*args, upstream=None):
            dy = _take(args, upstream)
            d_logits = dy * (ops.exp(logp) - partner) / (2 * n)
            d_unit = ops.matmul(d_logits + ops.transpose(d_logits), z) / temperature
            along = ops.sum(d_unit * z, axis=-1, keepdims=True)
            d_z = (d_unit - z * along) / norm
            return d_z[:n], d_z[n:]

        return loss, grad

    return nt_xent


class SimCLRLoss:
    def __init__(self, temperature=0.5):
        self.fn = make_nt_xent(temperature)

    def __call__(self, views):
        half = views.shape[0] // 2
        return self.fn(views[:half], views[half:])


# ---- long tails -------------------------------------------------------------


def make_focal_crossentropy(gamma=2.0, class_weights=None, reduction="mean"):
    """Multi-class focal loss on logits, `w[y] * (1 - p_y)^gamma * -log p_y`.

    gamma >= 1. Returns fn(labels, logits), labels (n,) int, logits (n, classes).
    """

    def focal(labels, logits):
        hot = ops.one_hot(labels, logits.shape[-1], dtype=logits.dtype)
        if class_weights is None:
            weight = ops.ones(logits.shape[:1], dtype=logits.dtype)
        else:
            table = ops.convert_to_tensor(class_weights, dtype=logits.dtype)
            weight = ops.take(table, labels)

        @ops.custom_gradient
        def rule(x):
            logp_all = ops.log_softmax(x, axis=-1)
            logp = ops.sum(hot * logp_all, axis=-1)
            p = ops.exp(logp)
            miss = -ops.expm1(logp)
            per_row = -weight * miss**gamma * logp

            def grad(*args, upstream=None):
                d_row = _spread(_take(args, upstream), per_row, reduction)
                d_logp = gamma * p * miss ** (gamma - 1.0) * logp - miss**gamma
                return (d_row * d_logp)[:, None] * (hot - ops.exp(logp_all))

            return _reduce(per_row, reduction), grad

        return rule(logits)

    return focal


# ---- agreement --------------------------------------------------------------


@ops.custom_gradient
def concordance_loss(target, pred):
    """1 - Lin's concordance correlation along the last axis: (b, t), (b, t) -> (b,)."""
    t = pred.shape[-1]
    dt = target - ops.mean(target, axis=-1, keepdims=True)
    dp = pred - ops.mean(pred, axis=-1, keepdims=True)
    gap = ops.mean(target, axis=-1) - ops.mean(pred, axis=-1)
    cov = ops.mean(dt * dp, axis=-1)
    den = ops.mean(ops.square(dt), axis=-1) + ops.mean(ops.square(dp), axis=-1) + ops.square(gap)
    ccc = 2.0 * cov / den

    def grad(*args, upstream=None):
        dy = _take(args, upstream)
        a = (-dy / den / t)[:, None]
        c, g = ccc[:, None], gap[:, None]
        d_target = a * (2.0 * dp - c * (2.0 * dt + 2.0 * g))
        d_pred = a * (2.0 * dt - c * (2.0 * dp - 2.0 * g))
        return d_target, d_pred

    return 1.0 - ccc, grad


# ---- multi-label ------------------------------------------------------------


class AsymmetricLoss:
    """ASL (Ridnik et al., 2021) on logits.

    positives: (1 - p)^gamma_pos * -log p
    negatives: q^gamma_neg * -log(1 - q) with q = max(p - margin, 0)

    Summed over labels; `reduction` ("mean" | "sum" | "none") is over the batch.
    """

    def __init__(self, gamma_pos=1.0, gamma_neg=4.0, margin=0.05, reduction="mean"):
        self.gamma_pos, self.gamma_neg = gamma_pos, gamma_neg
        self.margin, self.reduction = margin, reduction

    def __call__(self, y_true, logits):
        y = ops.cast(y_true, logits.dtype)
        gp, gn = self.gamma_pos, self.gamma_neg

        @ops.custom_gradient
        def asl(x):
            p = ops.sigmoid(x)
            np_ = ops.sigmoid(-x)
            logp = ops.log_sigmoid(x)
            q = ops.relu(p - self.margin)
            pos = -(np_**gp) * logp
            neg = -(q**gn) * ops.log1p(-q)
            per_row = ops.sum(y * pos + (1.0 - y) * neg, axis=-1)

            def grad(*args, upstream=None):
                d_row = _spread(_take(args, upstream), per_row, self.reduction)
                d_pos = np_**gp * (gp * p * logp - np_)
                d_neg = q**gn * p - gn * q ** (gn - 1.0) * ops.log1p(-q) * p * np_
                return d_row[:, None] * (y * d_pos + (1.0 - y) * d_neg)

            return _reduce(per_row, self.reduction), grad

        return asl(logits)
