# ruff: noqa
"""Vectors replaced by the nearest of a codebook: straight-through gradients, and a moving codebook."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Nearest(torch.autograd.Function):
    """The places of the nearest codes; no gradient."""

    @staticmethod
    def forward(ctx, x, codes):
        flat = x.reshape(-1, codes.size(1))
        squares = (flat**2).sum(dim=1, keepdim=True) + (codes**2).sum(dim=1)
        distance = torch.addmm(squares, flat, codes.t(), alpha=-2.0)
        place = distance.min(dim=1)[1].view(*x.size()[:-1])
        ctx.mark_non_differentiable(place)
        return place

    @staticmethod
    def backward(ctx, grad):
        raise RuntimeError("places have no gradient")


class StraightThrough(torch.autograd.Function):
    """The nearest codes; their gradient goes to what they replace, and to the codebook."""

    @staticmethod
    def forward(ctx, x, codes):
        place = Nearest.apply(x, codes).view(-1)
        ctx.save_for_backward(place, codes)
        ctx.mark_non_differentiable(place)
        return codes.index_select(0, place).view_as(x), place

    @staticmethod
    def backward(ctx, grad, _):
        for_x = for_codes = None
        if ctx.needs_input_grad[0]:
            for_x = grad.clone()
        if ctx.needs_input_grad[1]:
            place, codes = ctx.saved_tensors
            for_codes = torch.zeros_like(codes)
            for_codes.index_add_(0, place, grad.reshape(-1, codes.size(1)))
        return for_x, for_codes


class Moving(nn.Module):
    """A codebook that follows the mean of what it replaces."""

    def __init__(self, count, width, decay=0.9):
        super().__init__()
        self.decay = decay
        codes = torch.randn(count, width)
        self.register_buffer("codes", codes)
        self.register_buffer("used", torch.zeros(count))
        self.register_buffer("sums", codes.clone())

    def forward(self, x):
        flat = x.permute(0, 2, 3, 1).reshape(-1, self.codes.size(1))
        place = torch.cdist(flat, self.codes).argmin(dim=1).unsqueeze(1)
        hits = torch.zeros(place.shape[0], self.codes.size(0), device=x.device)
        hits.scatter_(1, place, 1)
        if self.training:
            with torch.no_grad():
                self.used.mul_(self.decay).add_(hits.sum(0), alpha=1 - self.decay)
                self.sums.mul_(self.decay).add_(hits.t() @ flat, alpha=1 - self.decay)
                self.codes.copy_(self.sums / (self.used.unsqueeze(1) + 1e-3))
        q = (hits @ self.codes).view(x.size(0), x.size(2), x.size(3), -1).permute(0, 3, 1, 2)
        mean = hits.mean(dim=0)
        spread = torch.exp(-(mean * torch.log(mean + 1e-10)).sum())
        return x + (q - x).detach(), F.mse_loss(q.detach(), x), spread


class Autoencoder(nn.Module):
    def __init__(self, width=4, count=8, moving=False):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, width, 4, 2, 1),
            nn.BatchNorm2d(width),
            nn.ReLU(True),
            nn.Conv2d(width, width, 1),
        )
        self.moving = Moving(count, width) if moving else None
        self.codebook = None if moving else nn.Embedding(count, width)
        self.decoder = nn.Sequential(
            nn.ReLU(True), nn.ConvTranspose2d(width, 1, 4, 2, 1), nn.Tanh()
        )
        self.apply(self.init)

    @staticmethod
    def init(m):
        if m.__class__.__name__.find("Conv") != -1:
            nn.init.normal_(m.weight.data, 0, 0.3)
            m.bias.data.fill_(0.1)
        elif isinstance(m, nn.Embedding):
            nn.init.normal_(m.weight.data)

    def forward(self, x):
        z = self.encoder(x)
        if self.moving is not None:
            q, near, spread = self.moving(z)
            return self.decoder(q), 0.25 * near, spread
        last = z.permute(0, 2, 3, 1).contiguous()
        q, place = StraightThrough.apply(last, self.codebook.weight)
        chosen = self.codebook.weight.index_select(0, place).view_as(last)
        near = F.mse_loss(chosen, last.detach()) + 0.25 * F.mse_loss(last, chosen.detach())
        return self.decoder(q.permute(0, 3, 1, 2).contiguous()), near, place.unique().numel()


def train_step(model, optimizer, x):
    optimizer.zero_grad(set_to_none=True)
    again, near, spread = model(x)
    loss = F.mse_loss(again, x) + near
    loss.backward()
    optimizer.step()
    return loss


def main(argv=None):
    result, x = {}, torch.rand(6, 1, 8, 8)
    for moving in (False, True):
        model = Autoencoder(moving=moving)
        optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, amsgrad=True)
        losses = [train_step(model, optimizer, x).item() for _ in range(5)]
        again, _, spread = model.eval()(x)
        print(" ".join(f"{v:.5f}" for v in losses), f"{float(spread):.4f}", again.shape)
        result[f"losses {moving}"], result[f"again {moving}"] = losses, again
    result["codes"] = model.moving.codes
    return result


if __name__ == "__main__":
    main()
