# ruff: noqa
"""A network of two layers without an optimizer: weights are written under no_grad."""

import torch


def train_step(x, y, w1, w2, velocity, learning_rate):
    y_pred = x.mm(w1).clamp(min=0).mm(w2)
    loss = (y_pred - y).pow(2).sum()
    loss.backward()
    with torch.no_grad():
        for w, v in zip((w1, w2), velocity):
            v *= 0.5
            v += w.grad
            w -= learning_rate * v
        w1.grad.zero_()
        w2.grad.zero_()
    return loss


def main(argv=None):
    N, D_in, H, D_out = 16, 8, 12, 3
    x = torch.randn(N, D_in)
    y = torch.randn(N, D_out)
    w1 = torch.randn(D_in, H, requires_grad=True)
    w2 = torch.randn(H, D_out, requires_grad=True)
    velocity = [torch.zeros_like(w1), torch.zeros_like(w2)]
    losses = []
    for t in range(10):
        loss = train_step(x, y, w1, w2, velocity, 1e-4)
        losses.append(loss.item())
        if t % 5 == 4:
            print(t, f"{loss.item():.6f}")
    assert w1.is_leaf and w1.requires_grad and w2.is_leaf
    return {"losses": losses, "w1": w1, "w2": w2, "v": velocity[0], "grad": w2.grad}


if __name__ == "__main__":
    main()
