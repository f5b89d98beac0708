import numpy as np


def edge_vectors(verts, faces):
    p, q, r = (verts[faces[:, i]] for i in range(3))
    return q - p, r - p


def mesh_area(verts, faces):
    e1, e2 = edge_vectors(verts.astype(np.float32), faces)
    normal = np.cross(e1, e2)
    areas = 0.5 * np.linalg.norm(normal, axis=1)
    return areas, areas.sum()
