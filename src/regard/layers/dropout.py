"""Dropout (Srivastava et al. 2014) with cheap masks: one random 64-bit word decides for four numbers.

PyTorch draws one random number per element, which on a CPU costs more than the layer around it. Here the masks come
from torch's default generator, so seeding it before a step makes every mask of that step a function of the seed.
"""

import torch
from torch import Tensor, nn


class Dropout(nn.Module):
    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    @property
    def is_active(self) -> bool:
        return self.training and self.p > 0.0

    def forward(self, x: Tensor) -> Tensor:
        if not self.is_active:
            return x
        if x.device.type != "cpu":  # elsewhere random numbers are cheap
            return nn.functional.dropout(x, self.p)
        words = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_()
        bits = words.view(torch.int16)[: x.numel()].view(x.shape)
        # random_() leaves the sign bit of each word clear, which every fourth number would feel: look at 15 bits
        keep = (bits & 0x7FFF) >= round(self.p * 0x8000)
        return x * keep.to(x.dtype).mul_(1 / (1 - round(self.p * 0x8000) / 0x8000))
