# ruff: noqa
"""A variational autoencoder of 8 x 8 digits."""

from __future__ import print_function

import argparse

import torch
import torch.utils.data
from sklearn.datasets import load_digits
from torch import nn, optim
from torch.nn import functional as F


class VAE(nn.Module):
    def __init__(self, hidden=32, latent=4):
        super(VAE, self).__init__()
        self.fc1 = nn.Linear(64, hidden)
        self.fc21 = nn.Linear(hidden, latent)
        self.fc22 = nn.Linear(hidden, latent)
        self.fc3 = nn.Linear(latent, hidden)
        self.fc4 = nn.Linear(hidden, 64)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def decode(self, z):
        h3 = F.relu(self.fc3(z))
        return torch.sigmoid(self.fc4(h3))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 64))
        z = self.reparameterize(mu, logvar)
        return self.decode(z), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 64), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


def train_step(model, optimizer, data):
    optimizer.zero_grad()
    recon_batch, mu, logvar = model(data)
    loss = loss_function(recon_batch, data, mu, logvar)
    loss.backward()
    optimizer.step()
    return loss


def main(argv=None):
    parser = argparse.ArgumentParser(description="VAE")
    parser.add_argument("--batch-size", type=int, default=64, metavar="N")
    parser.add_argument("--samples", type=int, default=1797)
    parser.add_argument("--epochs", type=int, default=5, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument("--log-interval", type=int, default=10, metavar="N")
    parser.add_argument("--resume", default="")
    parser.add_argument("--save", default="")
    args = parser.parse_args(argv)
    torch.manual_seed(args.seed)
    device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")

    images = torch.Tensor(load_digits().data[: args.samples]) / 16.0
    loader = torch.utils.data.DataLoader(images, batch_size=args.batch_size, shuffle=True)
    model = VAE().to(device)
    if args.resume:
        model.load_state_dict(torch.load(args.resume))
    optimizer = optim.Adam(model.parameters(), lr=1e-3)

    losses = []
    for epoch in range(1, args.epochs + 1):
        model.train()
        train_loss = 0
        for batch_idx, data in enumerate(loader):
            data = data.to(device)
            loss = train_step(model, optimizer, data)
            train_loss += loss.item()
            losses.append(loss.item() / len(data))
            if batch_idx % args.log_interval == 0:
                print(f"Train Epoch: {epoch} [{batch_idx}]\tLoss: {loss.item() / len(data):.6f}")
        print(f"====> Epoch: {epoch} Average loss: {train_loss / len(loader.dataset):.4f}")

    model.eval()
    with torch.no_grad():
        sample = torch.randn(16, 4).to(device)
        sample = model.decode(sample).cpu().view(16, 1, 8, 8)
        recon, mu, _ = model(images[:8].to(device))
        comparison = torch.cat([images[:8].view(8, 1, 8, 8), recon.view(8, 1, 8, 8).cpu()])
    if args.save:
        torch.save(model.state_dict(), args.save)
    return {"losses": losses, "sample": sample, "comparison": comparison, "mu": mu}


if __name__ == "__main__":
    main()
