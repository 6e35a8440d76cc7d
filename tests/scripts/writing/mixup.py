# ruff: noqa
"""Mixup and CutMix: two images in one, with a share drawn by NumPy."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def mixup_data(x, y, alpha=1.0):
    lam = np.random.beta(alpha, alpha) if alpha > 0 else 1
    index = torch.randperm(x.size(0))
    mixed_x = lam * x + (1 - lam) * x[index, :]
    return mixed_x, y, y[index], lam


def rand_bbox(size, lam):
    W, H = size[2], size[3]
    cut_rat = np.sqrt(1.0 - lam)
    cut_w, cut_h = int(W * cut_rat), int(H * cut_rat)
    cx, cy = np.random.randint(W), np.random.randint(H)
    bbx1, bby1 = np.clip(cx - cut_w // 2, 0, W), np.clip(cy - cut_h // 2, 0, H)
    bbx2, bby2 = np.clip(cx + cut_w // 2, 0, W), np.clip(cy + cut_h // 2, 0, H)
    return bbx1, bby1, bbx2, bby2


def cutmix_data(x, y):
    lam = np.random.beta(1.0, 1.0)
    rand_index = torch.randperm(x.size()[0])
    bbx1, bby1, bbx2, bby2 = rand_bbox(x.size(), lam)
    x = x.clone()
    x[:, :, bbx1:bbx2, bby1:bby2] = x[rand_index, :, bbx1:bbx2, bby1:bby2]
    lam = 1 - ((bbx2 - bbx1) * (bby2 - bby1) / (x.size()[-1] * x.size()[-2]))
    return x, y, y[rand_index], lam


def mixup_criterion(criterion, pred, y_a, y_b, lam):
    return lam * criterion(pred, y_a) + (1 - lam) * criterion(pred, y_b)


def train_step(net, optimizer, inputs, targets):
    inputs, targets_a, targets_b, lam = mixup_data(inputs, targets, 0.7)
    loss = mixup_criterion(F.cross_entropy, net(inputs), targets_a, targets_b, lam)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def main(argv=None):
    np.random.seed(3)
    net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(48, 4))
    for p in net.parameters():
        nn.init.normal_(p, 0.0, 0.3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x, y = torch.rand(12, 1, 6, 6), torch.randint(0, 4, (12,))
    losses, shares = [], []
    for _ in range(6):
        losses.append(train_step(net, optimizer, x, y).item())
        cut, _, _, lam = cutmix_data(x, y)
        shares.append(float(lam))
    print(" ".join(f"{v:.4f}" for v in shares))
    return {"losses": losses, "shares": shares, "cut": cut, "x": x, "out": net(x)}


if __name__ == "__main__":
    main()
