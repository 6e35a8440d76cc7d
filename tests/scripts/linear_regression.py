# ruff: noqa
"""Fit a line to noisy points, first by hand and then with an optimizer."""

import argparse

import torch
import torch.nn as nn


class LinearRegression(nn.Module):
    def __init__(self, in_features=1, out_features=1):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_features, in_features))
        self.bias = nn.Parameter(torch.zeros(out_features))

    def forward(self, x):
        return x @ self.weight.t() + self.bias


def make_data(n):
    x = torch.linspace(-1, 1, n).unsqueeze(1)
    y = 3.0 * x - 0.5 + 0.1 * torch.randn(n, 1)
    return x, y


def train_by_hand(model, x, y, lr, steps):
    losses = []
    for _ in range(steps):
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= lr * p.grad
        model.zero_grad()
        losses.append(loss.item())
    return losses


def train_step(model, optimizer, criterion, x, y):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def main(argv=None):
    parser = argparse.ArgumentParser(description="linear regression")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--resume", default="")
    parser.add_argument("--save", default="")
    args = parser.parse_args(argv)

    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    x, y = make_data(64)
    x, y = x.to(device), y.to(device)
    model = LinearRegression().to(device)
    if args.resume:
        model.load_state_dict(torch.load(args.resume)["model"])

    history = train_by_hand(model, x, y, args.lr, args.epochs)
    criterion = nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        loss = train_step(model, optimizer, criterion, x, y)
        history.append(loss.item())
        if (epoch + 1) % 5 == 0:
            print(f"Epoch [{epoch + 1}/{args.epochs}], Loss: {loss.item():.4f}")

    model.eval()
    with torch.no_grad():
        predicted = model(x).detach().cpu().numpy()
    print(f"y = {model.weight.item():.3f} x + {model.bias.item():.3f}")
    if args.save:
        torch.save({"model": model.state_dict(), "history": history}, args.save)
    return {"losses": history, "predicted": predicted}


if __name__ == "__main__":
    main()
