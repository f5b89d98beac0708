import torch


def batch_rodrigues(rotvec):
    """rotvec: [N, 3] axis times angle, zeros in the rest pose."""
    n = rotvec.shape[0]
    angle = torch.sqrt((rotvec * rotvec).sum(dim=1, keepdim=True))
    k = rotvec / angle
    rx, ry, rz = k.unbind(dim=1)
    zero = torch.zeros_like(rx)
    K = torch.stack([zero, -rz, ry, rz, zero, -rx, -ry, rx, zero], dim=1).view(n, 3, 3)
    s = torch.sin(angle).unsqueeze(2)
    c = 2.0 * torch.sin(0.5 * angle).pow(2).unsqueeze(2)
    return torch.eye(3) + s * K + c * torch.bmm(K, K)
