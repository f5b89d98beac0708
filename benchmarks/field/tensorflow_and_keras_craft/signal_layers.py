import keras
from keras import ops

BOUNDARIES = ("periodic", "dirichlet", "neumann")


def _shift(x, k):
    if k == 0:
        return x
    pad = ops.zeros_like(x[:, :k])
    return ops.concatenate([pad, x[:, : x.shape[1] - k]], axis=1)


def _unshift(x, k):
    if k == 0:
        return x
    pad = ops.zeros_like(x[:, :k])
    return ops.concatenate([x[:, k:], pad], axis=1)


class CausalDepthwiseConv1D(keras.layers.Layer):
    # (batch, time, channels); tap 0 is the present, tap i looks i * dilation steps back

    def __init__(self, taps=4, dilation=1, **kwargs):
        super().__init__(**kwargs)
        self.taps = taps
        self.dilation = dilation

    def build(self, input_shape):
        self.kernel = self.add_weight(
            shape=(self.taps, input_shape[-1]), initializer="random_normal", name="kernel")

    def call(self, inputs):
        return self.convolve(inputs, ops.copy(self.kernel))

    def convolve(self, inputs, kernel):
        taps, dilation = self.taps, self.dilation

        @ops.custom_gradient
        def conv(x, w):
            y = sum(w[i] * _shift(x, i * dilation) for i in range(taps))

            def grad(*args, upstream=None):
                dy = args[0] if upstream is None else upstream
                dx = sum(w[i] * _unshift(dy, i * dilation) for i in range(taps))
                dw = ops.stack(
                    [ops.sum(dy * _shift(x, i), axis=(0, 1)) for i in range(taps)])
                return dx, dw

            return y, grad

        return conv(inputs, kernel)


def make_instance_stats_norm(epsilon=1e-5):
    @ops.custom_gradient
    def revin(x, gamma, beta):
        steps = x.shape[1]
        mean = ops.mean(x, axis=1, keepdims=True)
        std = ops.sqrt(ops.mean(ops.square(x - mean), axis=1, keepdims=True) + epsilon)
        xhat = (x - mean) / std

        def grad(*cotangents):
            if len(cotangents) == 1:        # jax gives one tuple
                (cotangents,) = cotangents
            dy, dmean, dstd = cotangents
            dxhat = dy * gamma
            dx = dxhat - ops.mean(dxhat, axis=1, keepdims=True)
            dx = dx - xhat * ops.mean(dxhat * xhat, axis=1, keepdims=True)
            dx = dx / std + (dmean + dstd * xhat) / steps
            return dx, ops.sum(dy * xhat, axis=(0, 1)), ops.sum(dy, axis=(0, 1))

        return (xhat * gamma + beta, mean, std), grad

    return revin


class ReversibleForecaster(keras.layers.Layer):
    def __init__(self, horizon, **kwargs):
        super().__init__(**kwargs)
        self.horizon = horizon
        self._revin = make_instance_stats_norm()

    def build(self, input_shape):
        _, steps, channels = input_shape
        self.gamma = self.add_weight(shape=(channels,), initializer="ones", name="gamma")
        self.beta = self.add_weight(shape=(channels,), initializer="zeros", name="beta")
        self.w = self.add_weight(shape=(steps, self.horizon), name="w")

    def call(self, x):
        y, mean, std = self._revin(x, ops.copy(self.gamma), ops.copy(self.beta))
        y = ops.einsum("btc,th->bhc", y, self.w)
        return (y - self.beta) / (self.gamma + 1e-8) * std + mean


@ops.custom_gradient
def exponential_smoothing(x, alpha, level):
    levels = []
    previous = level
    for t in range(x.shape[1]):
        previous = alpha * x[:, t] + (1.0 - alpha) * previous
        levels.append(previous)

    def grad(*args, upstream=None):
        dy = args[0] if upstream is None else upstream
        acc = ops.zeros_like(level)
        d_alpha = ops.zeros_like(alpha)
        dx = []
        for t in reversed(range(x.shape[1])):
            acc = acc + dy[:, t]
            before = levels[t - 1] if t > 0 else level
            d_alpha = d_alpha + ops.sum(acc * (x[:, t] - before), axis=0)
            dx.append(acc * alpha)
            acc = acc * (1.0 - alpha)
        return ops.stack(dx[::-1], axis=1), d_alpha, acc

    return ops.stack(levels, axis=1), grad


class HoltTrendless(keras.layers.Layer):
    def build(self, input_shape):
        self.logit = self.add_weight(shape=(input_shape[-1],), initializer="zeros", name="logit")

    def call(self, x):
        levels = exponential_smoothing(x, ops.sigmoid(self.logit), x[:, 0])
        return levels[:, -1]


def make_leapfrog(dt, steps):
    half = 0.5 * dt

    def force(q, k, c):
        return -k * q - c * q**3

    def stiffness(q, k, c):
        return -k - 3.0 * c * q**2

    @ops.custom_gradient
    def flow(q, p, k, c):
        # q, p: (batch, dofs); k, c: (dofs,) linear and cubic spring constants, unit mass
        for _ in range(steps):
            p = p + half * force(q, k, c)
            q = q + dt * p
            p = p + half * force(q, k, c)
        q_end, p_end = q, p

        def grad(*cotangents):
            if len(cotangents) == 1:
                (cotangents,) = cotangents
            gq, gp = cotangents
            gk, gc = ops.zeros_like(k), ops.zeros_like(c)
            q, p = q_end, p_end
            # time reversible: run the trajectory back instead of storing it
            for _ in range(steps):
                gk = gk - half * ops.sum(gp * q, axis=0)
                gc = gc - half * ops.sum(gp * q**3, axis=0)
                gq = gq + half * stiffness(q, k, c) * gp
                p = p - half * force(q, k, c)
                gp = gp + dt * gq
                q = q - dt * p
                gk = gk - half * ops.sum(gp * q, axis=0)
                gc = gc - half * ops.sum(gp * q**3, axis=0)
                gq = gq + half * stiffness(q, k, c) * gp
                p = p - half * force(q, k, c)
            return gq, gp, gk, gc

        return (q_end, p_end), grad

    return flow


class DuffingCell(keras.layers.Layer):
    def __init__(self, dt=0.05, steps=20, **kwargs):
        super().__init__(**kwargs)
        self._flow = make_leapfrog(dt, steps)

    def build(self, input_shape):
        n = input_shape[-1] // 2
        self.k = self.add_weight(shape=(n,), initializer="ones", name="k")
        self.c = self.add_weight(shape=(n,), initializer="zeros", name="c")

    def call(self, state):
        q, p = ops.split(state, 2, axis=-1)
        q, p = self._flow(q, p, ops.copy(self.k), ops.copy(self.c))
        return ops.concatenate([q, p], axis=-1)


def laplacian(u, boundary="periodic"):
    # five-point stencil on (batch, rows, cols), unit spacing
    total = -4.0 * u
    for axis in (1, 2):
        n = u.shape[axis]
        first, last = ops.take(u, [0], axis=axis), ops.take(u, [n - 1], axis=axis)
        body = ops.take(u, list(range(1, n)), axis=axis)
        head = ops.take(u, list(range(n - 1)), axis=axis)
        if boundary == "periodic":
            lo, hi = last, first
        elif boundary == "neumann":
            lo, hi = first, last
        else:
            lo, hi = ops.zeros_like(first), ops.zeros_like(last)
        total = total + ops.concatenate([body, hi], axis=axis)
        total = total + ops.concatenate([lo, head], axis=axis)
    return total


class HeatStep(keras.layers.Layer):
    def __init__(self, dt=0.1, boundary="periodic", **kwargs):
        super().__init__(**kwargs)
        if boundary not in BOUNDARIES:
            raise ValueError(boundary)
        self.dt = dt
        self.boundary = boundary

    def build(self, input_shape):
        self.log_diffusivity = self.add_weight(
            shape=tuple(input_shape[1:]), initializer="zeros", name="log_diffusivity")

    def call(self, u):
        return self.step(u, ops.exp(self.log_diffusivity))

    def step(self, u, diffusivity):
        # u + dt * D * lap(u), D a map (rows, cols)
        @ops.custom_gradient
        def euler(u, d):
            lap = laplacian(u, self.boundary)

            def grad(*args, upstream=None):
                dy = args[0] if upstream is None else upstream
                du = dy + self.dt * d * laplacian(dy, self.boundary)
                dd = self.dt * ops.sum(dy * lap, axis=0)
                return du, dd

            return u + self.dt * d * lap, grad

        return euler(u, diffusivity)


if __name__ == "__main__":
    series = keras.random.normal((8, 48, 3), seed=0)
    print(CausalDepthwiseConv1D(taps=3, dilation=4)(series).shape)
    print(ReversibleForecaster(horizon=12)(series).shape)
    print(HoltTrendless()(series).shape)
    print(DuffingCell()(keras.random.normal((5, 6), seed=1)).shape)
    print(HeatStep(boundary="neumann")(keras.random.normal((2, 16, 12), seed=2)).shape)
