import numpy as np


def matrix_to_quaternion(R):
    """3x3 rotation matrix -> (w, x, y, z)."""
    w = 0.5 * np.sqrt(1.0 + np.trace(R))
    x = (R[2, 1] - R[1, 2]) / (4.0 * w)
    y = (R[0, 2] - R[2, 0]) / (4.0 * w)
    z = (R[1, 0] - R[0, 1]) / (4.0 * w)
    return np.array([w, x, y, z])


def pose_to_vector(T):
    q = matrix_to_quaternion(T[:3, :3])
    return np.concatenate([T[:3, 3], q])
