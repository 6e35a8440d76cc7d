# ruff: noqa
"""The style of one image on the content of another: L-BFGS on the pixels."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim


def gram_matrix(input):
    a, b, c, d = input.size()
    features = input.view(a * b, c * d)
    G = torch.mm(features, features.t())
    return G.div(a * b * c * d)


class Normalization(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.mean = mean.clone().detach().view(-1, 1, 1)
        self.std = std.clone().detach().view(-1, 1, 1)

    def forward(self, img):
        return (img - self.mean) / self.std


class ContentLoss(nn.Module):
    def __init__(self, target):
        super().__init__()
        self.target = target.detach()

    def forward(self, input):
        self.loss = F.mse_loss(input, self.target)
        return input


class StyleLoss(nn.Module):
    def __init__(self, target_feature):
        super().__init__()
        self.target = gram_matrix(target_feature).detach()

    def forward(self, input):
        self.loss = F.mse_loss(gram_matrix(input), self.target)
        return input


def build(cnn, style, content):
    model = nn.Sequential(Normalization(torch.tensor([0.4, 0.5]), torch.tensor([0.2, 0.3])))
    styles, contents = [], []
    for i, layer in enumerate(cnn.children()):
        if isinstance(layer, nn.ReLU):
            layer = nn.ReLU(inplace=False)
        model.add_module(f"layer_{i}", layer)
        if i == 0:
            contents.append(ContentLoss(model(content)))
            model.add_module(f"content_{i}", contents[-1])
        if i in (0, 2):
            styles.append(StyleLoss(model(style)))
            model.add_module(f"style_{i}", styles[-1])
    return model, styles, contents


def step(model, styles, contents, input_img):
    model(input_img)
    style_score, content_score = 0, 0
    for sl in styles:
        style_score += sl.loss
    for cl in contents:
        content_score += cl.loss
    style_score *= 100
    loss = style_score + content_score
    loss.backward()
    return loss


def run_style_transfer(cnn, content, style, input_img, num_steps):
    model, styles, contents = build(cnn, style, content)
    input_img.requires_grad_(True)
    model.eval()
    model.requires_grad_(False)
    optimizer = optim.LBFGS([input_img], max_iter=4)
    run, losses = [0], []
    while run[0] <= num_steps:

        def closure():
            with torch.no_grad():
                input_img.clamp_(0, 1)
            optimizer.zero_grad()
            loss = step(model, styles, contents, input_img)
            run[0] += 1
            losses.append(loss.item())
            return loss

        optimizer.step(closure)
    with torch.no_grad():
        input_img.clamp_(0, 1)
    return input_img, losses


def main(argv=None):
    cnn = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(inplace=True), nn.Conv2d(4, 4, 3), nn.ReLU())
    for p in cnn.parameters():
        nn.init.normal_(p, 0.0, 0.4)
    content, style = torch.rand(1, 2, 8, 8), torch.rand(1, 2, 8, 8)
    input_img = content.clone()
    output, losses = run_style_transfer(cnn, content, style, input_img, 12)
    print(f"{losses[0]:.5f} {losses[-1]:.5f}")
    return {"losses": losses, "output": output, "content": content}


if __name__ == "__main__":
    main()
