import numpy as np


def edge_lengths(verts, faces):
    p, q, r = (verts[faces[:, i]] for i in range(3))
    a = np.linalg.norm(q - r, axis=1)
    b = np.linalg.norm(r - p, axis=1)
    c = np.linalg.norm(p - q, axis=1)
    return a, b, c


def mesh_area(verts, faces):
    a, b, c = edge_lengths(verts.astype(np.float32), faces)
    s = 0.5 * (a + b + c)
    areas = np.sqrt(s * (s - a) * (s - b) * (s - c))
    return areas, areas.sum()
