import tensorflow as tf

DARK = 1e-3  # reflectance under which the synthetic intensity is held


@tf.custom_gradient
def brovey(ms, pan, weights, haze):
    # ms (N,H,W,B) upsampled; pan (N,H,W,1); weights (B,) of the synthetic intensity; haze (B,) path radiance
    v = ms - haze
    raw = tf.reduce_sum(weights * v, axis=-1, keepdims=True)
    intensity = tf.maximum(raw, DARK)
    gain = pan / intensity

    def grad(dy):
        d_gain = tf.reduce_sum(dy * v, axis=-1, keepdims=True)
        d_raw = tf.where(raw > DARK, -d_gain * gain / intensity, tf.zeros_like(raw))
        d_v = dy * gain + weights * d_raw
        return (
            d_v,
            d_gain / intensity,
            tf.reduce_sum(d_raw * v, axis=[0, 1, 2]),
            tf.reduce_sum(dy - d_v, axis=[0, 1, 2]),
        )

    return v * gain + haze, grad


def mtf_filter(step, axis="rows"):
    # low-pass and decimate one spatial axis to the resolution of the MS sensor.
    # image (N,H,W,B), taps (K,) any K <= length; taps carry the registration offset of the
    # two sensors, so they lean to one side as often as not. No padding.
    dim = {"rows": 1, "cols": 2}[axis]

    @tf.custom_gradient
    def decimate(image, taps):
        x = tf.experimental.numpy.moveaxis(image, dim, 0)
        size, k = x.shape[0], taps.shape[0]
        n = (size - k) // step + 1
        rows = [j + step * tf.range(n) for j in range(k)]
        out = tf.add_n([taps[j] * tf.gather(x, rows[j]) for j in range(k)])

        def grad(dy):
            g = tf.experimental.numpy.moveaxis(dy, dim, 0)
            flipped = tf.reverse(taps, [0])  # adjoint of a correlation
            dx = tf.zeros_like(x)
            d_taps = []
            for j in range(k):
                dx = tf.tensor_scatter_nd_add(dx, rows[j][:, None], flipped[j] * g)
                d_taps.append(tf.reduce_sum(g * tf.gather(x, rows[j])))
            return tf.experimental.numpy.moveaxis(dx, 0, dim), tf.stack(d_taps)

        return tf.experimental.numpy.moveaxis(out, 0, dim), grad

    return decimate


def _tiles(x, k):
    n, h, w = x.shape
    x = tf.reshape(x, (n, h // k, k, w // k, k))
    return tf.reshape(tf.transpose(x, (0, 1, 3, 2, 4)), (n, h // k, w // k, k * k))


def _untile(t, k):
    n, h, w, _ = t.shape
    t = tf.transpose(tf.reshape(t, (n, h, w, k, k)), (0, 1, 3, 2, 4))
    return tf.reshape(t, (n, h * k, w * k))


def universal_index(k=8):
    # Wang & Bovik's Q on k x k blocks: x, y (N,H,W), sides multiples of k -> (N,H/k,W/k).
    # Mask water and saturation first: every block needs some contrast and some light.

    @tf.custom_gradient
    def q_map(x, y):
        n = float(k * k)
        tx, ty = _tiles(x, k), _tiles(y, k)
        mx, my = (tf.reduce_mean(t, -1, keepdims=True) for t in (tx, ty))
        cx, cy = tx - mx, ty - my
        sxy = tf.reduce_sum(cx * cy, -1, keepdims=True) / (n - 1)
        spread = tf.reduce_sum(cx * cx + cy * cy, -1, keepdims=True) / (n - 1)
        light = mx * mx + my * my
        structure = 2 * sxy / spread
        luminance = 2 * mx * my / light

        def grad(dy):
            g = dy[..., None]
            a = 2 * g * luminance / (spread * (n - 1))
            b = 2 * g * structure / (light * n)
            gx = a * (cy - structure * cx) + b * (my - luminance * mx)
            gy = a * (cx - structure * cy) + b * (mx - luminance * my)
            return _untile(gx, k), _untile(gy, k)

        return (structure * luminance)[..., 0], grad

    return q_map


class SceneScore:
    """Scores over the pixels that both the clouds and the swath edge leave."""

    def __init__(self, ratio=4.0):
        self.ratio = ratio  # ms pixel over pan pixel

    @staticmethod
    @tf.custom_gradient
    def relative_error(fused, reference, clear):
        # fused, reference (N,H,W,B); clear (N,H,W,1), 1 where usable -> (N,), before the 100/ratio
        n = tf.reduce_sum(clear, axis=[1, 2], keepdims=True)
        diff = clear * (fused - reference)
        mse = tf.reduce_sum(diff * diff, axis=[1, 2], keepdims=True) / n
        level = tf.reduce_sum(clear * reference, axis=[1, 2], keepdims=True) / n
        bands = tf.cast(tf.shape(fused)[-1], fused.dtype)
        root = tf.sqrt(tf.reduce_mean(mse / level**2, axis=-1, keepdims=True))

        def grad(dy):
            c = tf.math.divide_no_nan(dy[:, None, None, None], 2 * root * bands)
            d_fused = c * 2 * diff / (n * level**2)
            d_level = -2 * c * mse / level**3
            pixels = tf.cast(tf.reduce_prod(tf.shape(fused)[1:3]), fused.dtype)
            return d_fused, d_level * clear / pixels - d_fused, None

        return root[:, 0, 0, 0], grad

    def __call__(self, fused, reference, clear):
        return 100.0 / self.ratio * self.relative_error(fused, reference, clear)


class Sharpener(tf.Module):
    def __init__(self, bands, step, taps):
        super().__init__()
        self.mix = tf.Variable(tf.fill([bands], 1.0 / bands))
        self.haze = tf.Variable(tf.zeros([bands]))
        self.taps = tf.Variable(taps)
        self.down = [mtf_filter(step, a) for a in ("rows", "cols")]

    def fuse(self, ms, pan):
        return brovey(ms, pan, tf.nn.softmax(self.mix), tf.convert_to_tensor(self.haze))

    def degrade(self, image):
        for f in self.down:
            image = f(image, tf.convert_to_tensor(self.taps))
        return image


def train(model, scenes, steps, rate=1e-3):
    # scenes yields ms (4,60,60,8), pan (4,60,60,1), reference (4,H',W',8), clear (4,H',W',1)
    score, q = SceneScore(), universal_index(2)
    opt = tf.keras.optimizers.Adam(rate)
    for _, (ms, pan, reference, clear) in zip(range(steps), scenes):
        with tf.GradientTape() as tape:
            low = model.degrade(model.fuse(ms, pan))
            loss = tf.reduce_mean(score(low, reference, clear))
            loss -= tf.reduce_mean(q(tf.reduce_mean(low, -1), tf.reduce_mean(reference, -1)))
        params = model.trainable_variables
        opt.apply_gradients(zip(tape.gradient(loss, params), params))
