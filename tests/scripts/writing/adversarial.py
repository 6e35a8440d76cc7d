# ruff: noqa
"""Domain-adversarial training of a quantised network: autograd Functions in modules and losses."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Function


class GradientReversal(Function):
    @staticmethod
    def forward(ctx, x, alpha):
        ctx.alpha = alpha
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.neg() * ctx.alpha, None


class FakeQuantize(Function):
    @staticmethod
    def forward(ctx, w, bits):
        scale = w.abs().max() / (2 ** (bits - 1) - 1)
        q = torch.round(w / scale)
        ctx.save_for_backward(w, scale)
        ctx.inside = q.abs() < 2 ** (bits - 1) - 1
        return q * scale

    @staticmethod
    def backward(ctx, grad_output):
        w, scale = ctx.saved_tensors
        return torch.where(ctx.inside, grad_output, grad_output * scale), None


class Exp(Function):
    @staticmethod
    def forward(ctx, i):
        result = i.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, grad_output):
        (result,) = ctx.saved_tensors
        return grad_output * result.clamp(max=5.0)


class QuantLinear(nn.Linear):
    bits = 4

    def forward(self, x):
        return F.linear(x, FakeQuantize.apply(self.weight, self.bits), self.bias)


class DANN(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(QuantLinear(6, 12), nn.ReLU(), QuantLinear(12, 8), nn.Tanh())
        self.label = nn.Linear(8, 3)
        self.domain = nn.Sequential(nn.Linear(8, 5), nn.ReLU(), nn.Linear(5, 2))

    def forward(self, x, alpha):
        f = self.features(x)
        return self.label(f), self.domain(GradientReversal.apply(f, alpha)), f


def train_step(model, optimizer, source, labels, target, alpha):
    optimizer.zero_grad()
    label, s_domain, f = model(source, alpha)
    _, t_domain, _ = model(target, alpha)
    n, m = len(source), len(target)
    loss = F.cross_entropy(label, labels)
    loss = loss + F.cross_entropy(s_domain, torch.zeros(n, dtype=torch.long))
    loss = loss + F.cross_entropy(t_domain, torch.ones(m, dtype=torch.long))
    loss = loss + 0.01 * Exp.apply(f).mean()
    loss.backward()
    optimizer.step()
    return loss.detach()


def main(argv=None):
    model = DANN()
    for p in model.parameters():
        nn.init.normal_(p, 0.0, 0.4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    source, target = torch.randn(10, 6), torch.randn(7, 6) + 0.5
    labels = torch.randint(0, 3, (10,))
    losses = []
    for epoch in range(8):
        p = epoch / 8
        alpha = 2.0 / (1.0 + math.exp(-10 * p)) - 1
        losses.append(train_step(model, optimizer, source, labels, target, alpha).item())
    print(" ".join(f"{v:.4f}" for v in losses))
    label, domain, f = model(target, 1.0)
    return {"losses": losses, "label": label, "domain": domain, "w": model.features[0].weight}


if __name__ == "__main__":
    main()
