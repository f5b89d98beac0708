"""Correct rules in a neutral spelling: `np` is jax.numpy, torch or TensorFlow's numpy.

`NAME(arguments)` is the primal, `NAME_bwd(g, arguments)` its rule: a gradient for each argument. The
comment gives the arguments' shapes, for the peers that need them; cgcheck is not told.
None of these is among the fixtures.
"""

SOURCE = """
# x=[5]
def softplus(x):
    return np.log1p(np.exp(-np.abs(x))) + np.where(x > 0, x, 0 * x)

def softplus_bwd(g, x):
    e = np.exp(-np.abs(x))
    return (g * np.where(x > 0, 1 / (1 + e), e / (1 + e)),)

# x=[5]
def mish_like(x):
    return x * np.tanh(x)

def mish_like_bwd(g, x):
    t = np.tanh(x)
    return (g * (t + x * (1 - t * t)),)

# x=[5]
def swish(x):
    return x / (1 + np.exp(-x))

def swish_bwd(g, x):
    e = np.exp(-np.abs(x))
    s = np.where(x > 0, 1 / (1 + e), e / (1 + e))
    return (g * (s + x * s * (1 - s)),)

# x=[5]
def gaussian(x):
    return np.exp(-x * x / 2)

def gaussian_bwd(g, x):
    return (-g * x * np.exp(-x * x / 2),)

# x=[5]
def leaky(x):
    return np.where(x > 0, x, 0.1 * x)

def leaky_bwd(g, x):
    return (np.where(x > 0, g, 0.1 * g),)

# x=[5]
def softsign(x):
    return x / (1 + np.abs(x))

def softsign_bwd(g, x):
    d = 1 + np.abs(x)
    return (g / d / d,)

# x=[5]
def pseudo_huber(x):
    return x * x / (np.sqrt(1 + x * x) + 1)

def pseudo_huber_bwd(g, x):
    return (g * x / np.sqrt(1 + x * x),)

# x=[5]
def arctan_unit(x):
    return np.arctan(2 * x)

def arctan_unit_bwd(g, x):
    return (2 * g / (1 + 4 * x * x),)

# x=[5] y=[5]
def product(x, y):
    return x * y

def product_bwd(g, x, y):
    return g * y, g * x

# x=[5] y=[5]
def squared_error(x, y):
    return (x - y) * (x - y)

def squared_error_bwd(g, x, y):
    d = 2 * g * (x - y)
    return d, -d

# x=[5] y=[5]
def smooth_l1(x, y):
    d = x - y
    return np.where(np.abs(d) < 1, 0.5 * d * d, np.abs(d) - 0.5)

def smooth_l1_bwd(g, x, y):
    d = x - y
    s = g * np.where(np.abs(d) < 1, d, np.sign(d))
    return s, -s

# x=[5] y=[5]
def logistic_loss(x, y):
    return np.where(x > 0, x, 0 * x) - x * y + np.log1p(np.exp(-np.abs(x)))

def logistic_loss_bwd(g, x, y):
    e = np.exp(-np.abs(x))
    return g * (np.where(x > 0, 1 / (1 + e), e / (1 + e)) - y), -g * x

# x=[5] y=[5]
def angle_wave(x, y):
    return np.sin(x) * np.cos(y)

def angle_wave_bwd(g, x, y):
    return g * np.cos(x) * np.cos(y), -g * np.sin(x) * np.sin(y)

# x=[5]
def sum_of_squares(x):
    return np.sum(x * x)

def sum_of_squares_bwd(g, x):
    return (2 * g * x,)

# x=[4,5]
def row_means(x):
    return np.sum(x, axis=-1) / x.shape[-1]

def row_means_bwd(g, x):
    return (np.ones_like(x) * g[..., None] / x.shape[-1],)

# x=[4,5]
def row_softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)

def row_softmax_bwd(g, x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    p = e / np.sum(e, axis=-1, keepdims=True)
    return (p * (g - np.sum(g * p, axis=-1, keepdims=True)),)

# x=[4,5]
def row_logsumexp(x):
    m = np.max(x, axis=-1, keepdims=True)
    return np.log(np.sum(np.exp(x - m), axis=-1)) + m[..., 0]

def row_logsumexp_bwd(g, x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return (g[..., None] * e / np.sum(e, axis=-1, keepdims=True),)

# x=[4,5]
def centred(x):
    return x - np.sum(x, axis=-1, keepdims=True) / x.shape[-1]

def centred_bwd(g, x):
    return (g - np.sum(g, axis=-1, keepdims=True) / x.shape[-1],)

# x=[4,5]
def root_mean_square_norm(x):
    return x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True) / x.shape[-1] + 1)

def root_mean_square_norm_bwd(g, x):
    n = x.shape[-1]
    r = np.sqrt(np.sum(x * x, axis=-1, keepdims=True) / n + 1)
    return (g / r - x * np.sum(g * x, axis=-1, keepdims=True) / (n * r * r * r),)

# x=[4,5] w=[5,3]
def dense(x, w):
    return np.matmul(x, w)

def dense_bwd(g, x, w):
    return np.matmul(g, w.T), np.matmul(x.T, g)

# x=[4,5] s=[5]
def scale_rows(x, s):
    return x * s

def scale_rows_bwd(g, x, s):
    return g * s, np.sum(g * x, axis=0)

# x=[4,5] b=[5]
def biased_tanh(x, b):
    return np.tanh(x + b)

def biased_tanh_bwd(g, x, b):
    t = np.tanh(x + b)
    d = g * (1 - t * t)
    return d, np.sum(d, axis=0)

# q=[4,5] k=[3,5] v=[3,2]
def attention(q, k, v):
    s = np.matmul(q, k.T)
    e = np.exp(s - np.max(s, axis=-1, keepdims=True))
    return np.matmul(e / np.sum(e, axis=-1, keepdims=True), v)

def attention_bwd(g, q, k, v):
    s = np.matmul(q, k.T)
    e = np.exp(s - np.max(s, axis=-1, keepdims=True))
    p = e / np.sum(e, axis=-1, keepdims=True)
    dp = np.matmul(g, v.T)
    ds = p * (dp - np.sum(dp * p, axis=-1, keepdims=True))
    return np.matmul(ds, k), np.matmul(ds.T, q), np.matmul(p.T, g)

# a=[4,4] x=[4]
def quadratic_form(a, x):
    return np.sum(x * np.matmul(a, x))

def quadratic_form_bwd(g, a, x):
    return g * x[:, None] * x[None, :], g * (np.matmul(a, x) + np.matmul(a.T, x))

# x=[5] y=[5]
def dot(x, y):
    return np.sum(x * y)

def dot_bwd(g, x, y):
    return g * y, g * x

# x=[5]
def prefix_sums(x):
    return np.cumsum(x, 0)

def prefix_sums_bwd(g, x):
    return (np.sum(g, axis=0) - np.cumsum(g, 0) + g,)

# x=[5] mu=[5] s=[5]
def widened_square(x, mu, s):
    return -0.5 * (x - mu) * (x - mu) / (1 + s * s)

def widened_square_bwd(g, x, mu, s):
    v = 1 + s * s
    z = (x - mu) / v
    return -g * z, g * z, g * s * z * z

# x=[5]
def laplace_density(x):
    return 0.5 * np.exp(-np.abs(x))

def laplace_density_bwd(g, x):
    return (-0.5 * g * np.sign(x) * np.exp(-np.abs(x)),)

# x=[5] y=[5]
def blend(x, y):
    return 0.25 * x + 0.75 * y

def blend_bwd(g, x, y):
    return 0.25 * g, 0.75 * g

# x=[5]
def cubic(x):
    return x * x * x / 3 - x

def cubic_bwd(g, x):
    return (g * (x * x - 1),)
"""
