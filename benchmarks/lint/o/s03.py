import numpy as np


def rotmat_to_quat(R):
    """3x3 rotation matrix -> (w, x, y, z)."""
    tr = np.trace(R)
    i = int(np.argmax([tr, R[0, 0], R[1, 1], R[2, 2]]))
    q = np.empty(4)
    if i == 0:
        s = 2.0 * np.sqrt(1.0 + tr)
        q[0] = 0.25 * s
        q[1] = (R[2, 1] - R[1, 2]) / s
        q[2] = (R[0, 2] - R[2, 0]) / s
        q[3] = (R[1, 0] - R[0, 1]) / s
    else:
        a = i - 1
        b, c = (a + 1) % 3, (a + 2) % 3
        s = 2.0 * np.sqrt(1.0 + R[a, a] - R[b, b] - R[c, c])
        q[0] = (R[c, b] - R[b, c]) / s
        q[1 + a] = 0.25 * s
        q[1 + b] = (R[b, a] + R[a, b]) / s
        q[1 + c] = (R[c, a] + R[a, c]) / s
    return q


def pose_vector(T):
    return np.concatenate([T[:3, 3], rotmat_to_quat(T[:3, :3])])
