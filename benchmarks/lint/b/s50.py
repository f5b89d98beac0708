import torch
import torch.nn as nn
import torch.nn.functional as F


class MishAct(nn.Module):
    def forward(self, x):
        sp = F.softplus(x)
        return x * torch.tanh(sp)


def conv_unit(c_in, c_out):
    return nn.Sequential(nn.Conv2d(c_in, c_out, 3, padding=1), MishAct())
