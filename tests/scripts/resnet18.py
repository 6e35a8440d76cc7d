# ruff: noqa
"""ResNet-18 for small images: basic blocks, cosine schedule, checkpoint of the best epoch."""

import argparse
import os

import torch
import torch.backends.cudnn as cudnn
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.utils.data import DataLoader, Dataset


class Stripes(Dataset):
    """Colour images of stripes; the label is their direction and width."""

    def __init__(self, size, side, num_classes):
        self.labels = torch.randint(0, num_classes, (size,))
        noise = 0.3 * torch.randn(size, 3, side, side)
        grid = torch.arange(side)
        rows, cols = torch.meshgrid(grid, grid, indexing="ij")
        patterns = []
        for k in range(num_classes):
            axis = rows if k % 2 == 0 else cols
            patterns.append(torch.sin(axis * (k // 2 + 1) * 0.6))
        self.images = torch.stack(patterns)[self.labels].unsqueeze(1) + noise

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], self.labels[index].item()


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, in_planes, planes, stride=1):
        super(BasicBlock, self).__init__()
        self.conv1 = nn.Conv2d(
            in_planes, planes, kernel_size=3, stride=stride, padding=1, bias=False
        )
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, kernel_size=3, stride=1, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.shortcut = nn.Sequential()
        if stride != 1 or in_planes != self.expansion * planes:
            self.shortcut = nn.Sequential(
                nn.Conv2d(
                    in_planes, self.expansion * planes, kernel_size=1, stride=stride, bias=False
                ),
                nn.BatchNorm2d(self.expansion * planes),
            )

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        out = F.relu(out)
        return out


class ResNet(nn.Module):
    def __init__(self, block, num_blocks, width=64, num_classes=10):
        super(ResNet, self).__init__()
        self.in_planes = width
        self.conv1 = nn.Conv2d(3, width, kernel_size=3, stride=1, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.layer1 = self._make_layer(block, width, num_blocks[0], stride=1)
        self.layer2 = self._make_layer(block, width * 2, num_blocks[1], stride=2)
        self.layer3 = self._make_layer(block, width * 4, num_blocks[2], stride=2)
        self.layer4 = self._make_layer(block, width * 8, num_blocks[3], stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.linear = nn.Linear(width * 8 * block.expansion, num_classes)

        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, (nn.BatchNorm2d, nn.GroupNorm)):
                nn.init.constant_(m.weight, 1)
                nn.init.constant_(m.bias, 0)

    def _make_layer(self, block, planes, num_blocks, stride):
        strides = [stride] + [1] * (num_blocks - 1)
        layers = []
        for stride in strides:
            layers.append(block(self.in_planes, planes, stride))
            self.in_planes = planes * block.expansion
        return nn.Sequential(*layers)

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.layer1(out)
        out = self.layer2(out)
        out = self.layer3(out)
        out = self.layer4(out)
        out = self.avgpool(out)
        out = torch.flatten(out, 1)
        return self.linear(out)


def ResNet18(**kwargs):
    return ResNet(BasicBlock, [2, 2, 2, 2], **kwargs)


def train_step(net, criterion, optimizer, inputs, targets):
    optimizer.zero_grad()
    outputs = net(inputs)
    loss = criterion(outputs, targets)
    loss.backward()
    optimizer.step()
    return loss, outputs


def train(net, device, trainloader, criterion, optimizer, losses):
    net.train()
    train_loss, correct, total = 0, 0, 0
    for batch_idx, (inputs, targets) in enumerate(trainloader):
        inputs, targets = inputs.to(device), targets.to(device)
        loss, outputs = train_step(net, criterion, optimizer, inputs, targets)
        losses.append(loss.item())
        train_loss += loss.item()
        _, predicted = outputs.max(1)
        total += targets.size(0)
        correct += predicted.eq(targets).sum().item()
        print(
            batch_idx,
            "Loss: %.3f | Acc: %.3f%% (%d/%d)"
            % (train_loss / (batch_idx + 1), 100.0 * correct / total, correct, total),
        )


def test(net, device, testloader, criterion):
    net.eval()
    outputs, test_loss = [], 0
    with torch.inference_mode():
        for inputs, targets in testloader:
            inputs, targets = inputs.to(device), targets.to(device)
            out = net(inputs)
            test_loss += criterion(out, targets).item()
            outputs.append(out)
    return test_loss / len(testloader), torch.cat(outputs, dim=0)


def main(argv=None):
    parser = argparse.ArgumentParser(description="ResNet-18 on small images")
    parser.add_argument("--lr", default=0.05, type=float, help="learning rate")
    parser.add_argument("--epochs", default=5, type=int)
    parser.add_argument("--size", default=512, type=int)
    parser.add_argument("--side", default=16, type=int)
    parser.add_argument("--width", default=64, type=int)
    parser.add_argument("--batch-size", default=64, type=int)
    parser.add_argument("--seed", default=0, type=int)
    parser.add_argument("--resume", "-r", default="")
    parser.add_argument("--save", default="")
    args = parser.parse_args(argv)

    torch.manual_seed(args.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    trainset = Stripes(args.size, args.side, 6)
    testset = Stripes(args.batch_size, args.side, 6)
    trainloader = DataLoader(trainset, batch_size=args.batch_size, shuffle=True, num_workers=0)
    testloader = DataLoader(testset, batch_size=args.batch_size, shuffle=False, num_workers=0)

    net = ResNet18(width=args.width, num_classes=6)
    net = net.to(device)
    if device == "cuda":
        net = torch.nn.DataParallel(net)
        cudnn.benchmark = True
    start_epoch = 0
    if args.resume:
        assert os.path.isfile(args.resume), "Error: no checkpoint found!"
        checkpoint = torch.load(args.resume)
        net.load_state_dict(checkpoint["net"])
        start_epoch = checkpoint["epoch"]

    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = optim.SGD(net.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=200)

    losses = []
    test_loss, outputs = test(net, device, testloader, criterion)
    for epoch in range(start_epoch, start_epoch + args.epochs):
        print("\nEpoch: %d" % epoch)
        train(net, device, trainloader, criterion, optimizer, losses)
        test_loss, outputs = test(net, device, testloader, criterion)
        scheduler.step()
    if args.save:
        state = {"net": net.state_dict(), "loss": test_loss, "epoch": start_epoch + args.epochs}
        torch.save(state, args.save)
    return {"losses": losses, "test_loss": test_loss, "outputs": outputs}


if __name__ == "__main__":
    main()
