import tensorflow as tf


def _split(b):
    return tf.unstack(b, axis=-1)


@tf.custom_gradient
def generalized_iou(pred, gt):
    """GIoU of matched boxes.

    pred, gt: [N, 4] as (ymin, xmin, ymax, xmax), positive width and height.
    Returns [N] in (-1, 1].
    """
    py0, px0, py1, px1 = _split(pred)
    gy0, gx0, gy1, gx1 = _split(gt)
    ih_raw = tf.minimum(py1, gy1) - tf.maximum(py0, gy0)
    iw_raw = tf.minimum(px1, gx1) - tf.maximum(px0, gx0)
    ih, iw = tf.nn.relu(ih_raw), tf.nn.relu(iw_raw)
    eh = tf.maximum(py1, gy1) - tf.minimum(py0, gy0)
    ew = tf.maximum(px1, gx1) - tf.minimum(px0, gx0)
    inter = ih * iw
    hull = eh * ew
    union = (py1 - py0) * (px1 - px0) + (gy1 - gy0) * (gx1 - gx0) - inter
    giou = inter / union - (hull - union) / hull

    def grad(dy):
        # giou = inter / union - 1 + union / hull
        d_union = dy * (-inter / union**2 + 1.0 / hull)
        d_hull = -dy * union / hull**2
        d_inter = dy / union - d_union
        touch_h = tf.cast(ih_raw > 0, dy.dtype)
        touch_w = tf.cast(iw_raw > 0, dy.dtype)
        d_ih, d_iw = d_inter * iw * touch_h, d_inter * ih * touch_w
        d_eh, d_ew = d_hull * ew, d_hull * eh

        def side(lo, hi, lo_other, hi_other, other_extent, d_i, d_e):
            area = d_union * other_extent
            own_hi = tf.cast(hi > hi_other, dy.dtype)
            own_lo = tf.cast(lo < lo_other, dy.dtype)
            d_hi = area + d_i * (1.0 - own_hi) + d_e * own_hi
            d_lo = -area - d_i * (1.0 - own_lo) - d_e * own_lo
            return d_lo, d_hi

        def box(a, b):
            y0, x0, y1, x1 = a
            v0, u0, v1, u1 = b
            dy0, dy1 = side(y0, y1, v0, v1, x1 - x0, d_ih, d_eh)
            dx0, dx1 = side(x0, x1, u0, u1, y1 - y0, d_iw, d_ew)
            return tf.stack([dy0, dx0, dy1, dx1], axis=-1)

        p = (py0, px0, py1, px1)
        t = (gy0, gx0, gy1, gx1)
        return box(p, t), box(t, p)

    return giou, grad


@tf.custom_gradient
def point_sample(features, points):
    """Bilinear lookup for point-wise mask refinement (PointRend style).

    features: [H, W, C] map of one image
    points: [P, 2] (x, y) in (-1, 1); -1 and 1 are the centres of the border cells
    -> [P, C]
    """
    h, w, c = features.shape
    half = tf.constant([(w - 1) / 2.0, (h - 1) / 2.0], points.dtype)
    pos = (points + 1.0) * half
    hi = tf.constant([w - 2, h - 2], points.dtype)
    base = tf.clip_by_value(tf.floor(pos), 0.0, hi)
    frac = pos - base
    fx, fy = frac[:, :1], frac[:, 1:]
    ij = tf.cast(base, tf.int32)
    flat = tf.reshape(features, [h * w, c])
    i00 = ij[:, 1] * w + ij[:, 0]
    f00, f01 = tf.gather(flat, i00), tf.gather(flat, i00 + 1)
    f10, f11 = tf.gather(flat, i00 + w), tf.gather(flat, i00 + w + 1)
    top = f00 + fx * (f01 - f00)
    bottom = f10 + fx * (f11 - f10)
    out = top + fy * (bottom - top)

    def grad(g):
        idx = tf.concat([i00, i00 + 1, i00 + w, i00 + w + 1], axis=0)
        val = tf.concat(
            [g * (1 - fx) * (1 - fy), g * fx * (1 - fy), g * (1 - fx) * fy, g * fx * fy],
            axis=0,
        )
        d_flat = tf.math.unsorted_segment_sum(val, idx, h * w)
        slope_x = (1 - fy) * (f01 - f00) + fy * (f11 - f10)
        slope_y = bottom - top
        d_pos = tf.stack(
            [tf.reduce_sum(g * slope_x, -1), tf.reduce_sum(g * slope_y, -1)], axis=-1
        )
        return tf.reshape(d_flat, [h, w, c]), d_pos * half[0]

    return out, grad


def focal_loss(logits, labels, alpha=0.25, gamma=2.0):
    """RetinaNet loss, normalised by the number of foreground anchors.

    logits: [A, K]; labels: [A] int, 0 = background, 1..K = class, -1 = ignore.
    """

    @tf.custom_gradient
    def _focal(x, lab):
        k = x.shape[-1]
        t = tf.one_hot(lab - 1, k, dtype=x.dtype)
        used = tf.cast(lab >= 0, x.dtype)[:, None]
        positives = tf.maximum(tf.reduce_sum(tf.cast(lab > 0, x.dtype)), 1.0)
        sign = 2.0 * t - 1.0
        a = used * (alpha * t + (1.0 - alpha) * (1.0 - t)) / positives
        log_pt = tf.math.log_sigmoid(sign * x)
        miss = tf.sigmoid(-sign * x)
        loss = -tf.reduce_sum(a * miss**gamma * log_pt)

        def grad(dy):
            pt = tf.sigmoid(sign * x)
            d = a * miss**gamma * (gamma * pt * log_pt - miss) * sign
            return dy * d, None

        return loss, grad

    return _focal(logits, labels)


class TverskyLoss:
    """Tversky loss for imbalanced segmentation.

    `alpha` weighs false positives, `beta` false negatives; 0.5 / 0.5 is Dice.
    """

    def __init__(self, alpha=0.5, beta=0.5, smooth=1.0):
        self.alpha = alpha
        self.beta = beta
        self.smooth = smooth

    def __call__(self, probs, mask):
        """probs [B, H, W, C] in (0, 1); mask [B, H, W] int class map."""
        return self._loss(probs, mask)

    def _loss(self, probs, mask):
        alpha, beta, smooth = self.alpha, self.beta, self.smooth

        @tf.custom_gradient
        def tversky(p, m):
            t = tf.one_hot(m, p.shape[-1], dtype=p.dtype)
            tp = tf.reduce_sum(p * t, axis=[1, 2])
            fp = tf.reduce_sum(p * (1.0 - t), axis=[1, 2])
            fn = tf.reduce_sum((1.0 - p) * t, axis=[1, 2])
            num = tp + smooth
            den = tp + alpha * fp + beta * fn + smooth
            loss = tf.reduce_mean(1.0 - num / den)
            count = float(p.shape[0] * p.shape[-1])

            def grad(dy):
                d_num = (-dy / (den * count))[:, None, None, :]
                d_den = (dy * num / (den * den * count))[:, None, None, :]
                inside = 1.0 - alpha
                return d_num * t + d_den * (inside * t + beta * (1.0 - t)), None

            return loss, grad

        return tversky(probs, mask)
