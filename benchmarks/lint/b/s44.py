import torch
import torch.nn as nn


class Mish(nn.Module):
    def forward(self, x):
        sp = torch.log(1 + torch.exp(x))
        return x * torch.tanh(sp)


def conv_block(c_in, c_out):
    return nn.Sequential(nn.Conv2d(c_in, c_out, 3, padding=1), Mish())
