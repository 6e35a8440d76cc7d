# ruff: noqa
"""Moving averages of a model's weights: of a copy's state_dict, and of a list of tensors."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class EMA:
    def __init__(self, parameters, decay):
        self.decay = decay
        self.num_updates = 0
        self.shadow_params = [p.clone().detach() for p in parameters if p.requires_grad]
        self.collected = []

    def update(self, parameters):
        self.num_updates += 1
        decay = min(self.decay, (1 + self.num_updates) / (10 + self.num_updates))
        one_minus_decay = 1.0 - decay
        with torch.no_grad():
            parameters = [p for p in parameters if p.requires_grad]
            for s_param, param in zip(self.shadow_params, parameters):
                s_param.sub_(one_minus_decay * (s_param - param))

    def store(self, parameters):
        self.collected = [param.clone() for param in parameters]

    def copy_to(self, parameters):
        for s_param, param in zip(self.shadow_params, parameters):
            param.data.copy_(s_param.data)

    def restore(self, parameters):
        for c_param, param in zip(self.collected, parameters):
            param.data.copy_(c_param.data)


def update_average(ema, model, d):
    msd = model.state_dict()
    for k, v in ema.state_dict().items():
        if v.dtype.is_floating_point:
            v *= d
            v += (1.0 - d) * msd[k].detach()


def update_list(average, model):
    for a, p in zip(average, model.parameters()):
        a *= 0.9
        a += 0.1 * p.detach()


def train_step(model, optimizer, x, y):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss


def main(argv=None):
    model = nn.Sequential(
        nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True), nn.Linear(8, 3)
    )
    for p in model.parameters():
        nn.init.normal_(p, 0.0, 0.5)
    ema = copy.deepcopy(model).eval()
    for p in ema.parameters():
        p.requires_grad_(False)
    shadow = EMA(model.parameters(), 0.95)
    average = [p.detach().clone() for p in model.parameters()]
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    x, y = torch.randn(32, 6), torch.randint(0, 3, (32,))
    losses = []
    for i in range(8):
        part = torch.randperm(32)[:16]
        losses.append(train_step(model, optimizer, x[part], y[part]).item())
        update_average(ema, model, 0.8)
        update_list(average, model)
        shadow.update(model.parameters())
    shadow.store(model.parameters())
    shadow.copy_to(model.parameters())
    model.eval()
    with torch.no_grad():
        averaged = model(x)
    shadow.restore(model.parameters())
    with torch.no_grad():
        result = {"losses": losses, "averaged": averaged, "model": model(x), "ema": ema(x)}
    result["sums"] = [a.sum().item() for a in average + shadow.shadow_params]
    print(" ".join(f"{v:.5f}" for v in result["sums"]))
    return result


if __name__ == "__main__":
    main()
