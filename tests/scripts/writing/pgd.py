# ruff: noqa
"""Attacks of a classifier with projected gradients, and training against them."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def attack_pgd(model, X, y, epsilon, alpha, attack_iters):
    delta = torch.zeros_like(X)
    for i in range(X.shape[1]):
        delta[:, i] = (2 * torch.rand(X.shape[0]) - 1) * epsilon[i]
    delta.data = clamp(delta, 0.0 - X, 1.0 - X)
    delta.requires_grad = True
    for _ in range(attack_iters):
        loss = F.cross_entropy(model(X + delta), y)
        loss.backward()
        grad = delta.grad.detach()
        d = clamp(delta + alpha * torch.sign(grad), -epsilon, epsilon)
        d = clamp(d, 0.0 - X, 1.0 - X)
        delta.data[: len(X)] = d[: len(X)]
        delta.grad.zero_()
    return delta.detach()


def clamp(X, lower_limit, upper_limit):
    return torch.max(torch.min(X, upper_limit), lower_limit)


def fgsm_attack(image, epsilon, data_grad):
    perturbed_image = image + epsilon * data_grad.sign()
    perturbed_image.clamp_(0, 1)
    return perturbed_image


def train_step(model, opt, X, y, delta):
    loss = F.cross_entropy(model(X + delta), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss


def main(argv=None):
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(True), nn.Linear(16, 3))
    for p in model.parameters():
        nn.init.normal_(p, 0.0, 0.4)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    X, y = torch.rand(20, 6), torch.randint(0, 3, (20,))
    epsilon = torch.full((6,), 0.1)
    epsilon[0] = 0.05
    losses = []
    for epoch in range(5):
        delta = attack_pgd(model, X, y, epsilon, 0.03, 3)
        losses.append(train_step(model, opt, X, y, delta).item())
    X.requires_grad = True
    F.cross_entropy(model(X), y).backward()
    attacked = fgsm_attack(X, 0.1, X.grad.data)
    print(f"{losses[-1]:.6f}", (model(attacked).argmax(1) == y).sum().item())
    return {"losses": losses, "delta": delta, "attacked": attacked, "grad": X.grad}


if __name__ == "__main__":
    main()
