# ruff: noqa
"""Two views of each example: a similarity matrix with masks, a queue of negatives, nearest neighbours."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Views(Dataset):
    """An example twice: with noise, and reversed."""

    def __init__(self, x):
        self.x = x

    def __len__(self):
        return self.x.size(0)

    def __getitem__(self, i):
        v = self.x[i]
        return [v + 0.1 * torch.randn(v.shape), v.flip(0)], i % 3


class Meter:
    def __init__(self, fmt=":.4f"):
        self.fmt, self.sum, self.count = fmt, 0.0, 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n

    def __str__(self):
        return ("mean {m" + self.fmt + "} of {n}").format(m=self.sum / self.count, n=self.count)


def pairs_loss(z, temperature=0.5):
    n = z.shape[0] // 2
    z = F.normalize(z, dim=1)
    similarity = z @ z.T
    itself = torch.eye(2 * n, dtype=torch.bool)
    partner = torch.zeros(2 * n, 2 * n, dtype=torch.bool)
    for i in range(n):
        partner[i, n + i] = 1
        partner[n + i, i] = True
    positive = similarity[partner].view(2 * n, 1)
    negative = similarity[~(itself | partner)].view(similarity.size(0), -1)
    logits = torch.cat([positive, negative], dim=1)
    logits /= temperature
    return F.cross_entropy(logits, torch.zeros(2 * n, dtype=torch.long)), logits


def labels_loss(z, labels, temperature=0.3):
    labels = labels.contiguous().view(-1, 1)
    same = torch.eq(labels, labels.T).float()
    logits = torch.div(z @ z.T, temperature)
    top, _ = torch.max(logits, dim=1, keepdim=True)
    logits = logits - top.detach()
    others = torch.scatter(torch.ones_like(same), 1, torch.arange(len(labels)).view(-1, 1), 0)
    same = same * others
    log_p = logits - torch.log((torch.exp(logits) * others).sum(1, keepdim=True))
    return -((same * log_p).sum(1) / same.sum(1)).mean()


class Momentum(nn.Module):
    """A slow copy of an encoder fills a queue of keys."""

    def __init__(self, encoder, slow, width, size, m=0.9):
        super().__init__()
        self.encoder, self.slow, self.size, self.m = encoder, slow, size, m
        for fast, copy in zip(encoder.parameters(), slow.parameters()):
            copy.data.copy_(fast.data)
            copy.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(width, size), dim=0))
        self.register_buffer("at", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def enqueue(self, keys):
        at, n = int(self.at), keys.shape[0]
        self.queue[:, at : at + n] = keys.T
        self.at[0] = (at + n) % self.size

    def forward(self, x, y):
        q = F.normalize(self.encoder(x), dim=1)
        with torch.no_grad():
            for fast, copy in zip(self.encoder.parameters(), self.slow.parameters()):
                copy.data = copy.data * self.m + fast.data * (1.0 - self.m)
            k = F.normalize(self.slow(y), dim=1)
        positive = torch.einsum("nc,nc->n", q, k).unsqueeze(-1)
        negative = torch.einsum("nc,ck->nk", q, self.queue.clone().detach())
        logits = torch.cat([positive, negative], dim=1) / 0.2
        self.enqueue(k)
        return F.cross_entropy(logits, torch.zeros(logits.shape[0], dtype=torch.long))


def neighbours(z, bank, labels, classes, k):
    weight, index = (z @ bank.t()).topk(k=k, dim=-1)
    found = torch.gather(labels.expand(z.size(0), -1), dim=-1, index=index)
    hits = torch.zeros(z.size(0) * k, classes).scatter(-1, found.view(-1, 1), 1.0)
    votes = (hits.view(z.size(0), -1, classes) * weight.exp().unsqueeze(-1)).sum(dim=1)
    return votes.argsort(dim=-1, descending=True)


def accuracy(logits, target, topk=(1,)):
    with torch.no_grad():
        _, found = logits.topk(max(topk), 1, True, True)
        right = found.t().eq(target.view(1, -1).expand(max(topk), target.size(0)))
        return [
            right[:k].reshape(-1).float().sum(0, keepdim=True).mul_(100.0 / len(target))
            for k in topk
        ]


def train_step(model, optimizer, x):
    loss, logits = pairs_loss(model(x))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss, logits


def encoder():
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(inplace=True), nn.Linear(8, 4))
    for p in net.parameters():
        nn.init.normal_(p, 0.0, 0.5)
    return net


def main(argv=None):
    data, model, meter, losses = torch.randn(24, 6), encoder(), Meter(), []
    optimizer = torch.optim.Adam(model.parameters(), 3e-3, weight_decay=1e-4)
    loader = DataLoader(Views(data), batch_size=8, shuffle=True, pin_memory=True, drop_last=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=len(loader))
    for epoch in range(2):
        for views, _ in loader:
            x = torch.cat(views, dim=0)
            loss, logits = train_step(model, optimizer, x)
            losses.append(loss.item())
            meter.update(loss.item(), len(x))
        schedule.step()
        one, two = accuracy(logits, torch.zeros(len(logits), dtype=torch.long), (1, 2))
        print(f"{meter}: {one.item():.2f} {two[0]:.2f} {schedule.get_last_lr()[0]:.6f} {x.shape}")
    z, labels = F.normalize(model(data), dim=1), torch.arange(24) % 3
    moco = Momentum(model, encoder(), 4, 16)
    optimizer = torch.optim.SGD(moco.parameters(), 0.1, momentum=0.9)
    queued = []
    for i in range(3):
        loss = moco(data[:8], data[8:16])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        queued.append(loss.item())
    found = neighbours(z[:5].detach(), z.detach(), labels, 3, 4)
    print(found.tolist(), moco.at.item(), moco.queue.dtype, moco.queue.shape)
    return {"losses": losses, "labels": labels_loss(z, labels), "moco": queued, "queue": moco.queue}


if __name__ == "__main__":
    main()
