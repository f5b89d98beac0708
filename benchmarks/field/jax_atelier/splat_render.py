import functools

import jax
import jax.numpy as jnp
from jax import lax

DIMS = ("NHWC", "HWIO", "NHWC")


def quat_to_mat(q):
    w, x, y, z = jnp.moveaxis(q, -1, 0)
    return jnp.stack(
        [
            jnp.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)], -1),
            jnp.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)], -1),
            jnp.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], -1),
        ],
        -2,
    )


class GaussianCloud:
    def __init__(self, means, log_scales, quats):
        self.means, self.log_scales, self.quats = means, log_scales, quats

    @staticmethod
    @jax.custom_vjp
    def covariance(shape):
        q = shape["quats"] / jnp.linalg.norm(shape["quats"], axis=-1, keepdims=True)
        m = quat_to_mat(q) * jnp.exp(shape["log_scales"])[..., None, :]
        return m @ jnp.swapaxes(m, -1, -2)

    def project(self, focal):
        x, y, z = jnp.moveaxis(self.means, -1, 0)
        o = jnp.zeros_like(z)
        jac = focal * jnp.stack([jnp.stack([1 / z, o, -x / z**2], -1), jnp.stack([o, 1 / z, -y / z**2], -1)], -2)
        cov = GaussianCloud.covariance({"log_scales": self.log_scales, "quats": self.quats})
        return focal * self.means[..., :2] / z[..., None], jac @ cov @ jnp.swapaxes(jac, -1, -2)


def _cov_fwd(shape):
    return GaussianCloud.covariance(shape), shape


def _cov_bwd(shape, g):
    norm = jnp.linalg.norm(shape["quats"], axis=-1, keepdims=True)
    q = shape["quats"] / norm
    s = jnp.exp(shape["log_scales"])[..., None, :]
    r = quat_to_mat(q)
    dm = (g + jnp.swapaxes(g, -1, -2)) @ (r * s)
    d_log = jnp.sum(dm * r * s, axis=-2)
    d = dm * s
    w, x, y, z = jnp.moveaxis(q, -1, 0)
    e = lambda i, j: d[..., i, j]
    dw = 2 * (x * (e(2, 1) - e(1, 2)) + y * (e(0, 2) - e(2, 0)) + z * (e(1, 0) - e(0, 1)))
    dx = 2 * (
        y * (e(0, 1) + e(1, 0)) + z * (e(0, 2) + e(2, 0)) + w * (e(2, 1) - e(1, 2)) - 2 * x * (e(1, 1) + e(2, 2))
    )
    dy = 2 * (
        x * (e(0, 1) + e(1, 0)) + z * (e(1, 2) + e(2, 1)) + w * (e(0, 2) - e(2, 0)) - 2 * y * (e(0, 0) + e(2, 2))
    )
    dz = 2 * (
        x * (e(0, 2) + e(2, 0)) + y * (e(1, 2) + e(2, 1)) + w * (e(1, 0) - e(0, 1)) - 2 * z * (e(0, 0) + e(1, 1))
    )
    dq = jnp.stack([dw, dx, dy, dz], -1)
    dq = (dq - q * jnp.sum(q * dq, -1, keepdims=True)) / norm
    return ({"log_scales": d_log, "quats": dq},)


GaussianCloud.covariance.defvjp(_cov_fwd, _cov_bwd)


def _transmittance(tau):
    acc = jnp.cumsum(tau, axis=-1)
    return jnp.exp(-jnp.concatenate([jnp.zeros_like(acc[..., :1]), acc], axis=-1))


@jax.custom_vjp
def composite(sigma, rgb, edges, background, alive=None):
    tau = sigma * jnp.diff(edges)
    if alive is not None:
        tau = jnp.where(alive, tau, 0.0)
    trans = _transmittance(tau)
    w = -jnp.expm1(-tau) * trans[..., :-1]
    mid = 0.5 * (edges[..., 1:] + edges[..., :-1])
    color = jnp.einsum("rs,rsc->rc", w, rgb) + trans[..., -1:] * background
    return {"rgb": color, "depth": jnp.sum(w * mid, -1), "opacity": 1.0 - trans[..., -1]}, w


def _composite_fwd(sigma, rgb, edges, background, alive=None):
    out = composite(sigma, rgb, edges, background, alive)
    return out, (sigma, rgb, edges, background, alive)


def _composite_bwd(res, ct):
    sigma, rgb, edges, background, alive = res
    g, gw = ct
    delta = jnp.diff(edges)
    tau = sigma * delta
    if alive is not None:
        tau = jnp.where(alive, tau, 0.0)
    trans = _transmittance(tau)
    w = -jnp.expm1(-tau) * trans[..., :-1]
    mid = 0.5 * (edges[..., 1:] + edges[..., :-1])

    per_w = gw + jnp.einsum("rc,rsc->rs", g["rgb"], rgb) + g["depth"][:, None] * mid
    last = trans[..., -1] * (g["rgb"] @ background - g["opacity"])
    wq = w * per_w
    behind = jnp.pad(jnp.cumsum(wq[..., :0:-1], axis=-1)[..., ::-1], ((0, 0), (0, 1)))
    d_tau = trans[..., 1:] * per_w - behind - last[:, None]
    if alive is not None:
        d_tau = jnp.where(alive, d_tau, 0.0)

    d_mid = g["depth"][:, None] * w
    d_delta = d_tau * sigma
    d_edges = jnp.pad(0.5 * d_mid + d_delta, ((0, 0), (1, 0))) + jnp.pad(0.5 * d_mid - d_delta, ((0, 0), (0, 1)))
    d_bg = trans[..., -1] @ g["rgb"]
    return d_tau * delta, w[..., None] * g["rgb"][:, None, :], d_edges, d_bg, None


composite.defvjp(_composite_fwd, _composite_bwd)


@jax.custom_gradient
def distortion(w, edges):
    mid = 0.5 * (edges[..., 1:] + edges[..., :-1])
    delta = jnp.diff(edges)

    def before(a):
        return jnp.cumsum(a, -1) - a

    mass, moment = before(w), before(w * mid)
    spread = mid * mass - moment
    loss = 2.0 * jnp.sum(w * spread, -1) + jnp.sum(w * w * delta, -1) / 3.0

    def vjp(g):
        g = g[..., None]
        after = jnp.sum(w, -1, keepdims=True) - mass - w
        d_w = g * (2.0 * spread + 2.0 / 3.0 * w * delta)
        d_mid = g * 2.0 * w * (mass - after)
        d_delta = g * w * w / 3.0
        zero = jnp.zeros_like(g)
        d_edges = jnp.concatenate([zero, 0.5 * d_mid + d_delta], -1) + jnp.concatenate([0.5 * d_mid - d_delta, zero], -1)
        return d_w, d_edges

    return loss, vjp


def _unnormalize(uv, size, align_corners):
    size = jnp.asarray(size, uv.dtype)
    if align_corners:
        return 0.5 * (uv + 1.0) * (size - 1.0)
    return 0.5 * ((uv + 1.0) * size - 1.0)


def _corners(plane, uv, align_corners, padding_mode):
    h, w = plane.shape[:2]
    xy = _unnormalize(uv, (w, h), align_corners)
    inside = jnp.ones_like(xy, bool)
    if padding_mode == "border":
        hi = jnp.asarray((w - 1, h - 1), xy.dtype)
        inside = (xy > 0) & (xy < hi)
        xy = jnp.clip(xy, 0, hi)
    base = jnp.floor(xy)
    frac = xy - base
    x0, y0 = jnp.moveaxis(base.astype(jnp.int32), -1, 0)
    taps = []
    for dy in (0, 1):
        for dx in (0, 1):
            x, y = x0 + dx, y0 + dy
            ok = (x >= 0) & (x < w) & (y >= 0) & (y < h)
            taps.append((jnp.clip(y, 0, h - 1), jnp.clip(x, 0, w - 1), ok, dy, dx))
    return taps, frac, inside


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def sample_plane(plane, uv, align_corners=True, padding_mode="zeros"):
    taps, frac, _ = _corners(plane, uv, align_corners, padding_mode)
    fx, fy = frac[..., 0], frac[..., 1]
    out = 0.0
    for y, x, ok, dy, dx in taps:
        wt = (fx if dx else 1 - fx) * (fy if dy else 1 - fy)
        out = out + jnp.where(ok, wt, 0.0)[..., None] * plane[y, x]
    return out


def _sample_fwd(plane, uv, align_corners, padding_mode):
    return sample_plane(plane, uv, align_corners, padding_mode), (plane, uv)


def _sample_bwd(align_corners, padding_mode, res, g):
    plane, uv = res
    taps, frac, inside = _corners(plane, uv, align_corners, padding_mode)
    fx, fy = frac[..., 0], frac[..., 1]
    d_plane = jnp.zeros_like(plane)
    gx = gy = 0.0
    for y, x, ok, dy, dx in taps:
        wx, wy = (fx if dx else 1 - fx), (fy if dy else 1 - fy)
        d_plane = d_plane.at[y, x].add(jnp.where(ok, wx * wy, 0.0)[..., None] * g)
        dot = jnp.where(ok, jnp.sum(g * plane[y, x], -1), 0.0)
        gx = gx + (wy if dx else -wy) * dot
        gy = gy + (wx if dy else -wx) * dot
    h, w = plane.shape[:2]
    scale = 0.5 * (jnp.asarray((w, h), uv.dtype) - 1.0)
    d_uv = jnp.where(inside, jnp.stack([gx, gy], -1), 0.0) * scale
    return d_plane, d_uv


sample_plane.defvjp(_sample_fwd, _sample_bwd)


class TriPlane:
    axes = ((0, 1), (0, 2), (1, 2))

    def __init__(self, resolution, channels, align_corners=False, padding_mode="border"):
        self.resolution, self.channels = resolution, channels
        self.align_corners, self.padding_mode = align_corners, padding_mode

    def init(self, key):
        return [0.1 * jax.random.normal(k, (self.resolution, self.resolution, self.channels)) for k in jax.random.split(key, 3)]

    def __call__(self, planes, xyz):
        return sum(
            sample_plane(p, xyz[..., jnp.array(ax)], self.align_corners, self.padding_mode)
            for p, ax in zip(planes, self.axes)
        )


def make_lens(ksize, stride=1):
    pad = ksize // 2

    def conv(image, psf):
        return lax.conv_general_dilated(
            image,
            psf[:, :, None, :],
            (stride, stride),
            ((pad, pad), (pad, pad)),
            dimension_numbers=DIMS,
            feature_group_count=image.shape[-1],
        )

    @jax.custom_vjp
    def blur(image, psf):
        return conv(image, psf)

    def fwd(image, psf):
        return conv(image, psf), (image, psf)

    def bwd(res, g):
        image, psf = res
        _, h, w, c = image.shape
        _, oh, ow, _ = g.shape
        lo = ksize - 1 - pad
        hi = [n + ksize - 1 - lo - ((o - 1) * stride + 1) for n, o in ((h, oh), (w, ow))]
        d_image = lax.conv_general_dilated(
            g,
            psf[:, :, None, :],
            (1, 1),
            ((lo, hi[0]), (lo, hi[1])),
            lhs_dilation=(stride, stride),
            dimension_numbers=DIMS,
            feature_group_count=c,
        )
        padded = jnp.pad(image, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
        rows = []
        for i in range(ksize):
            row = []
            for j in range(ksize):
                patch = padded[:, i : i + (oh - 1) * stride + 1 : stride, j : j + (ow - 1) * stride + 1 : stride]
                row.append(jnp.einsum("bhwc,bhwc->c", patch, g))
            rows.append(jnp.stack(row))
        return d_image, jnp.stack(rows)

    blur.defvjp(fwd, bwd)
    return blur


def binomial_psf(ksize, channels):
    row = jnp.ones(1)
    for _ in range(ksize - 1):
        row = jnp.convolve(row, jnp.ones(2) / 2)
    return jnp.repeat(jnp.outer(row, row)[..., None], channels, -1)


lens_full = make_lens(5)


def render_rays(params, field, origins, dirs, edges, background, alive=None):
    mid = 0.5 * (edges[:, 1:] + edges[:, :-1])
    feats = field(params["planes"], origins[:, None] + mid[..., None] * dirs[:, None])
    sigma = jax.nn.softplus(feats[..., 0])
    out, w = composite(sigma, jax.nn.sigmoid(feats[..., 1:4]), edges, background, alive)
    return out, distortion(w, edges)


def train_step(params, field, batch, lr=0.1, lam=0.01):
    def loss_fn(p):
        out, dist = render_rays(p, field, batch["o"], batch["d"], batch["t"], p["background"], batch["alive"])
        side = batch["side"]
        img = lens_full(out["rgb"].reshape(1, side, side, 3), p["psf"])
        small = make_lens(3, stride=2)(img, binomial_psf(3, 3))
        target = batch["image"][None]
        fine = jnp.mean((img - target) ** 2)
        return fine + jnp.mean((small - target[:, ::2, ::2]) ** 2) + lam * dist.mean()

    loss, grads = jax.value_and_grad(loss_fn)(params)
    return jax.tree.map(lambda a, g: a - lr * g, params, grads), loss


if __name__ == "__main__":
    key = jax.random.PRNGKey(0)
    side = 8
    field = TriPlane(16, 4)
    u = jnp.linspace(-0.6, 0.6, side)
    d = jnp.stack([*jnp.meshgrid(u, u), jnp.ones((side, side))], -1).reshape(-1, 3)
    t = jnp.tile(jnp.linspace(0.2, 1.6, 13), (side * side, 1))
    batch = {
        "o": jnp.tile(jnp.array([0.0, 0.0, -1.0]), (side * side, 1)),
        "d": d / jnp.linalg.norm(d, axis=-1, keepdims=True),
        "t": t,
        "alive": t[:, :-1] < 1.5,
        "side": side,
        "image": jax.random.uniform(key, (side, side, 3)),
    }
    params = {"planes": field.init(key), "background": jnp.ones(3), "psf": binomial_psf(5, 3)}
    for _ in range(3):
        params, loss = train_step(params, field, batch)
        print(loss)
    cloud = GaussianCloud(jax.random.normal(key, (5, 3)) + jnp.array([0, 0, 4.0]), jnp.zeros((5, 3)), jax.random.normal(key, (5, 4)))
    print(cloud.project(50.0)[1].shape)
