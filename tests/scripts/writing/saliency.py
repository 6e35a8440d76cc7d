# ruff: noqa
"""Hooks of layers and tensors: guided gradients, maps of what was looked at, sharpness-aware steps."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Reversed(torch.autograd.Function):
    """The same values; the gradient turned round."""

    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad.neg() * ctx.strength, None


class Binary(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x > 0).type(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        grad = grad.clone()
        grad[x.abs() > 1] = 0
        return grad


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 6, 3, padding=1),
            nn.ReLU(),
        )
        self.pool = nn.AdaptiveAvgPool2d((1, 1))
        self.classifier, self.domain = nn.Linear(6, 3), nn.Linear(6, 2)

    def forward(self, x):
        x = self.pool(self.features(x)).flatten(1)
        return self.classifier(x), self.domain(Reversed.apply(x, 0.3))


class Guided:
    """Only what was positive on the way there and is positive on the way back passes a ReLU."""

    def __init__(self, model):
        self.outs, self.handles = [], []
        for _, module in model.named_modules():
            if isinstance(module, nn.ReLU):
                self.handles.append(module.register_forward_hook(self.forward))
                self.handles.append(module.register_full_backward_hook(self.backward))

    def forward(self, module, args, out):
        self.outs.append(out)

    def backward(self, module, grad_in, grad_out):
        passed = self.outs.pop().clone()
        passed[passed > 0] = 1
        return (passed * torch.clamp(grad_in[0], min=0.0),)

    def remove(self):
        for handle in self.handles:
            handle.remove()


class Map:
    """Where a layer's activations speak for a class."""

    def __init__(self, model, layer):
        self.model = model
        layer.register_forward_hook(lambda m, args, out: setattr(self, "seen", out.detach()))
        layer.register_full_backward_hook(lambda m, gi, go: setattr(self, "grad", go[0].detach()))

    def __call__(self, x):
        out, _ = self.model(x)
        wanted = torch.zeros_like(out)
        wanted[torch.arange(len(x)), out.argmax(dim=1)] = 1
        self.model.zero_grad()
        out.backward(gradient=wanted, retain_graph=True)
        weights = self.grad.mean(dim=(2, 3), keepdim=True)
        found = F.relu((weights * self.seen).sum(1, keepdim=True))
        found = F.interpolate(found, size=x.shape[2:], mode="bilinear", align_corners=False)
        found -= found.amin(dim=(2, 3), keepdim=True)
        found /= found.amax(dim=(2, 3), keepdim=True) + 1e-8
        return found


def fisher(model, xs, ys):
    found = {n: torch.zeros(p.shape) for n, p in model.named_parameters() if p.requires_grad}
    for x, y in zip(xs, ys):
        model.zero_grad()
        F.nll_loss(F.log_softmax(model(x[None])[0], dim=1), y[None]).backward()
        for n, p in model.named_parameters():
            if p.grad is not None:
                found[n] += p.grad.data**2 / len(xs)
    return found


def sharp_step(model, optimizer, x, y, radius=0.05):
    F.cross_entropy(model(x)[0], y).backward()
    params = [p for p in model.parameters() if p.grad is not None]
    norm = torch.norm(torch.stack([p.grad.norm(p=2) for p in params]), p=2)
    before = {p: p.data.clone() for p in params}
    with torch.no_grad():
        for p in params:
            p.add_(p.grad * (radius / (norm + 1e-12)))
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x)[0], y)
    loss.backward()
    for p in params:
        p.data = before[p]
    optimizer.step()
    optimizer.zero_grad()
    return loss


def train_step(model, optimizer, x, y):
    out, domain = model(x)
    loss = F.cross_entropy(out, y) + F.cross_entropy(domain, y % 2)
    loss = loss + 1e-3 * sum(p.pow(2.0).sum() for p in model.parameters())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def main(argv=None):
    model = Net()
    for p in model.parameters():
        nn.init.normal_(p, 0.0, 0.4)
    x, y = torch.randn(5, 1, 8, 8), torch.randint(0, 3, (5,))
    shapes = []
    leaves = [(n, m) for n, m in model.named_modules() if not list(m.children())]
    handles = [
        m.register_forward_hook(lambda m, i, o, n=n: shapes.append((n, o.shape))) for n, m in leaves
    ]
    model(x)
    for handle in handles:
        handle.remove()
    print(shapes)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-3
    )
    losses = [train_step(model, optimizer, x, y).item() for _ in range(4)]
    result = {"losses": losses, "map": Map(model, model.features[3])(x)}
    guided, image = Guided(model), x.clone().requires_grad_()
    model(image)[0][:, 0].sum().backward()
    guided.remove()
    result["guided"] = image.grad
    result["fisher"] = fisher(model, x, y)["classifier.weight"]
    result["sharp"] = [sharp_step(model, optimizer, x, y).item() for _ in range(2)]
    v, seen = torch.randn(4, requires_grad=True), []
    h = v * 2
    h.retain_grad()
    h.register_hook(lambda g: seen.append(g.clone()) or g * 3)
    (h.clamp(min=0) * Binary.apply(v)).sum().backward()
    result |= {"v": v.grad, "h": h.grad, "seen": seen[0]}
    for i, (name, p) in enumerate(model.named_parameters()):
        if i < 2:
            p.requires_grad = False
    print([n for n, p in model.named_parameters() if not p.requires_grad], v.grad.dtype)
    return result


if __name__ == "__main__":
    main()
