# ruff: noqa
"""Messages along the edges of a graph: means by index_add_, attention by scatter_reduce_, PageRank."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

NODES, EDGES = 10, 30


class Mean(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.near, self.own = nn.Linear(i, o), nn.Linear(i, o, bias=False)

    def forward(self, x, src, dst):
        total = torch.zeros_like(x).index_add_(0, dst, x[src])
        degree = torch.zeros(x.size(0), 1)
        degree.index_add_(0, dst, torch.ones(len(dst), 1))
        total /= degree.clamp_(min=1)
        return self.near(total) + self.own(x)


class Attention(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.w, self.a = nn.Linear(i, o, bias=False), nn.Parameter(torch.zeros(2 * o))

    def forward(self, x, src, dst):
        h = self.w(x)
        e = F.leaky_relu((torch.cat([h[src], h[dst]], -1) * self.a).sum(-1), 0.2)
        most = torch.full((x.size(0),), -1e9).scatter_reduce_(0, dst, e.detach(), reduce="amax")
        e = (e - most[dst]).exp()
        norm = torch.zeros(x.size(0)).scatter_add_(0, dst, e)
        out = torch.zeros(x.size(0), h.size(1))
        out.index_add_(0, dst, h[src] * (e / norm[dst]).unsqueeze(-1))
        return out


def train_step(first, second, optimizer, x, y, mask, src, dst):
    optimizer.zero_grad()
    out = second(F.relu(first(x, src, dst)), src, dst)
    loss = F.cross_entropy(out[mask], y[mask])
    loss.backward()
    optimizer.step()
    return loss, out


def main(argv=None):
    torch.manual_seed(0)
    rng = np.random.RandomState(11)
    src, dst = (torch.from_numpy(rng.randint(0, NODES, EDGES)) for _ in range(2))
    x, y = torch.from_numpy(rng.randn(NODES, 4)), torch.from_numpy(rng.randint(0, 3, NODES))
    first, second = Mean(4, 8), Attention(8, 3)
    params = [*first.parameters(), *second.parameters()]
    for p in params:
        nn.init.normal_(p, 0.0, 0.4)
    mask = torch.zeros(NODES, dtype=torch.bool)
    mask[:7] = True
    optimizer = torch.optim.SGD(params, lr=0.1, momentum=0.9)
    losses = torch.zeros(5)
    for i in range(5):
        loss, out = train_step(first, second, optimizer, x, y, mask, src, dst)
        losses[i] = loss.detach()
    A = torch.zeros(NODES, NODES)
    A.index_put_((src, dst), torch.ones(EDGES), accumulate=True)
    A.fill_diagonal_(0)
    degree = A.sum(1)
    M = A.clone()
    M[degree > 0] /= degree[degree > 0].unsqueeze(1)
    M[degree == 0] = 1 / NODES
    rank = torch.full((NODES,), 1 / NODES)
    for _ in range(20):
        new = 0.15 / NODES + 0.85 * (M.T @ rank)
        change = (new - rank).abs().sum()
        rank[:] = new
        if change < 1e-6:
            break
    print(rank.argsort(descending=True)[:3].tolist())
    return {"losses": losses, "out": out, "rank": rank, "A": A, "a": second.a}


if __name__ == "__main__":
    main()
