# ruff: noqa
"""Denoising diffusion of points in the plane: schedules, noising, sampling."""

import torch
import torch.nn as nn
import torch.nn.functional as F

T = 12


def make_schedule(n):
    betas = torch.linspace(1e-3, 0.2, n)
    alphas = 1.0 - betas
    alphas_cumprod = torch.ones(n)
    running = torch.ones(())
    for t in range(n):
        running *= alphas[t]
        alphas_cumprod[t] = running
    alphas_cumprod_prev = torch.empty_like(alphas_cumprod)
    alphas_cumprod_prev[0] = 1.0
    alphas_cumprod_prev[1:] = alphas_cumprod[:-1]
    posterior_variance = betas * (1.0 - alphas_cumprod_prev) / (1.0 - alphas_cumprod)
    posterior_variance[0] = 1e-20
    return betas, alphas, alphas_cumprod, posterior_variance.clamp_(min=1e-20)


def extract(a, t, x_shape):
    b, *_ = t.shape
    out = a.gather(-1, t)
    return out.reshape(b, *((1,) * (len(x_shape) - 1)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        freqs = torch.arange(4.0)
        freqs.mul_(-0.5).exp_()
        self.register_buffer("freqs", freqs)
        self.net = nn.Sequential(nn.Linear(10, 24), nn.SiLU(inplace=True), nn.Linear(24, 2))
        for p in self.parameters():
            nn.init.normal_(p, 0.0, 0.3)

    def forward(self, x, t):
        emb = torch.zeros(x.shape[0], 8)
        args = t[:, None] * self.freqs[None]
        emb[:, 0::2] = args.sin()
        emb[:, 1::2] = args.cos()
        return self.net(torch.cat([x, emb], dim=1))


def train_step(model, optimizer, x0, t, noise, alphas_cumprod):
    a = extract(alphas_cumprod, t, x0.shape)
    x_t = a.sqrt() * x0 + (1 - a).sqrt() * noise
    loss = F.mse_loss(model(x_t, t), noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


@torch.no_grad()
def sample(model, n, betas, alphas, alphas_cumprod, posterior_variance):
    x = torch.randn(n, 2)
    frames = torch.empty(T, n, 2)
    for i in reversed(range(T)):
        t = torch.full((n,), i, dtype=torch.long)
        eps = model(x, t)
        x -= betas[i] / (1 - alphas_cumprod[i]).sqrt() * eps
        x /= alphas[i].sqrt()
        if i > 0:
            x += posterior_variance[i].sqrt() * torch.randn_like(x)
        frames[T - 1 - i] = x
    return frames


def main(argv=None):
    schedule = make_schedule(T)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    data = torch.rand(64, 2)
    data[:, 1].mul_(0.1).add_(data[:, 0] ** 2)
    losses = []
    for step in range(10):
        x0 = data[torch.randint(0, 64, (16,))]
        t = torch.randint(0, T, (16,))
        loss = train_step(model, optimizer, x0, t, torch.randn_like(x0), schedule[2])
        losses.append(loss.item())
    frames = sample(model, 5, *schedule)
    print(f"{losses[-1]:.6f}")
    return {"losses": losses, "frames": frames, "variance": schedule[3], "data": data}


if __name__ == "__main__":
    main()
