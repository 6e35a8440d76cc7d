# ruff: noqa
"""Forward-forward training: each layer learns by itself to tell right labels from wrong ones."""

import torch
import torch.nn as nn
from torch.optim import Adam


def overlay_y_on_x(x, y):
    x_ = x.clone()
    x_[:, :4] *= 0.0
    x_[range(x.shape[0]), y] = x.max()
    return x_


class Layer(nn.Linear):
    def __init__(self, in_features, out_features):
        super().__init__(in_features, out_features)
        nn.init.normal_(self.weight, 0.0, 0.3)
        nn.init.zeros_(self.bias)
        self.relu = nn.ReLU(inplace=True)
        self.opt = Adam(self.parameters(), lr=0.03)
        self.threshold = 2.0

    def forward(self, x):
        x_direction = x / (x.norm(2, 1, keepdim=True) + 1e-4)
        return self.relu(torch.mm(x_direction, self.weight.T) + self.bias.unsqueeze(0))


def train_step(layer, x_pos, x_neg):
    g_pos = layer.forward(x_pos).pow(2).mean(1)
    g_neg = layer.forward(x_neg).pow(2).mean(1)
    loss = torch.log(
        1 + torch.exp(torch.cat([-g_pos + layer.threshold, g_neg - layer.threshold]))
    ).mean()
    layer.opt.zero_grad()
    loss.backward()
    layer.opt.step()
    return loss


class Net(nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.layers = []
        for d in range(len(dims) - 1):
            self.layers += [Layer(dims[d], dims[d + 1])]

    def predict(self, x):
        goodness_per_label = []
        for label in range(4):
            h = overlay_y_on_x(x, label)
            goodness = []
            for layer in self.layers:
                h = layer(h)
                goodness += [h.pow(2).mean(1)]
            goodness_per_label += [sum(goodness).unsqueeze(1)]
        return torch.cat(goodness_per_label, 1)

    def train(self, x_pos, x_neg, losses):
        h_pos, h_neg = x_pos, x_neg
        for layer in self.layers:
            for _ in range(5):
                losses.append(train_step(layer, h_pos, h_neg).item())
            h_pos, h_neg = layer(h_pos).detach(), layer(h_neg).detach()


def main(argv=None):
    torch.manual_seed(1234)
    net = Net([12, 16, 16])
    x = torch.rand(24, 12)
    y = torch.randint(0, 4, (24,))
    x[torch.arange(24), 4 + 2 * y] += 1.5
    x_pos = overlay_y_on_x(x, y)
    rnd = torch.randperm(x.size(0))
    x_neg = overlay_y_on_x(x, y[rnd])
    losses = []
    net.train(x_pos, x_neg, losses)
    goodness = net.predict(x).detach()
    print("train error:", 1.0 - goodness.argmax(1).eq(y).to(goodness).mean().item())
    return {"losses": losses, "x_pos": x_pos, "x_neg": x_neg, "goodness": goodness}


if __name__ == "__main__":
    main()
