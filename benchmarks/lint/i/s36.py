import torch
import torch.nn.functional as F


class AdversarialObjective:
    def __init__(self, smoothing=0.1):
        self.smoothing = smoothing

    def discriminator(self, real_logits, fake_logits):
        on_real = F.logsigmoid(real_logits)
        on_fake = F.logsigmoid(-fake_logits)
        return -((1.0 - self.smoothing) * on_real + on_fake).mean()
