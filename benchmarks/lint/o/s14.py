import numpy as np


def central_diff(loss_fn, theta, h=1e-6):
    """Central differences, one coordinate at a time."""
    theta = np.array(theta, dtype=np.float64)
    out = np.zeros_like(theta)
    for i in range(theta.shape[0]):
        keep = theta[i]
        theta[i] = keep + h
        up = loss_fn(theta)
        theta[i] = keep - h
        down = loss_fn(theta)
        theta[i] = keep
        out[i] = (up - down) / (2 * h)
    return out


def grads_match(loss_fn, grad_fn, theta, tol=1e-4):
    diff = np.abs(central_diff(loss_fn, theta) - grad_fn(np.asarray(theta)))
    print(f"max deviation: {diff.max():.3e}")
    return bool(diff.max() < tol)
