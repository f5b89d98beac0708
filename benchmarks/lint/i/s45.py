import torch


class AdversarialObjective:
    def __init__(self, smoothing=0.1):
        self.smoothing = smoothing

    def discriminator(self, real_logits, fake_logits):
        p_real = torch.sigmoid(real_logits)
        p_fake = torch.sigmoid(fake_logits)
        on_real = p_real.log()
        on_fake = (1.0 - p_fake).log()
        return -((1.0 - self.smoothing) * on_real + on_fake).mean()
