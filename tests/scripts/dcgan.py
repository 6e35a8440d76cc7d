# ruff: noqa
"""A DCGAN: a generator and a discriminator of small images, trained against each other."""

from __future__ import print_function

import argparse
import random

import torch
import torch.nn as nn
import torch.nn.parallel
import torch.optim as optim
import torch.utils.data
from sklearn.datasets import load_digits

REAL_LABEL, FAKE_LABEL = 1.0, 0.0


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        nn.init.normal_(m.weight.data, 0.0, 0.02)
    elif classname.find("BatchNorm") != -1:
        m.weight.data.normal_(1.0, 0.02)
        m.bias.data.fill_(0)


class Generator(nn.Module):
    def __init__(self, nz, ngf, nc):
        super(Generator, self).__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf * 2, 2, 1, 0, bias=False),
            nn.BatchNorm2d(ngf * 2),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ngf),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf, nc, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, input):
        return self.main(input)


class Discriminator(nn.Module):
    def __init__(self, nc, ndf):
        super(Discriminator, self).__init__()
        self.main = nn.Sequential(
            nn.Conv2d(nc, ndf, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ndf * 2),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf * 2, 1, 2, 1, 0, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, input):
        output = self.main(input)
        return output.view(-1, 1).squeeze(1)


def train_step(netD, netG, optimizerD, optimizerG, criterion, real, noise):
    # (1) the discriminator: log(D(x)) + log(1 - D(G(z)))
    netD.zero_grad()
    label = torch.full((real.size(0),), REAL_LABEL, device=real.device)
    output = netD(real)
    errD_real = criterion(output, label)
    errD_real.backward()
    D_x = output.mean()

    fake = netG(noise)
    label = torch.full_like(label, FAKE_LABEL)
    output = netD(fake.detach())
    errD_fake = criterion(output, label)
    errD_fake.backward()
    errD = errD_real + errD_fake
    optimizerD.step()

    # (2) the generator: log(D(G(z)))
    netG.zero_grad()
    label = torch.full_like(label, REAL_LABEL)
    output = netD(fake)
    errG = criterion(output, label)
    errG.backward()
    optimizerG.step()
    return errD, errG, D_x, output.mean()


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--batchSize", type=int, default=64)
    parser.add_argument("--samples", type=int, default=1797)
    parser.add_argument("--nz", type=int, default=16, help="size of the latent vector")
    parser.add_argument("--ngf", type=int, default=16)
    parser.add_argument("--ndf", type=int, default=16)
    parser.add_argument("--niter", type=int, default=5, help="number of epochs")
    parser.add_argument("--lr", type=float, default=0.0002)
    parser.add_argument("--beta1", type=float, default=0.5)
    parser.add_argument("--manualSeed", type=int)
    parser.add_argument("--resume", default="")
    parser.add_argument("--save", default="")
    opt = parser.parse_args(argv)
    print(opt)

    if opt.manualSeed is None:
        opt.manualSeed = random.randint(1, 10000)
    random.seed(opt.manualSeed)
    torch.manual_seed(opt.manualSeed)
    if torch.backends.mps.is_available():
        device = torch.device("mps")
    else:
        device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")

    images = torch.Tensor(load_digits().images[: opt.samples]).unsqueeze(1) / 8.0 - 1.0
    dataset = torch.utils.data.TensorDataset(images)
    dataloader = torch.utils.data.DataLoader(dataset, batch_size=opt.batchSize, shuffle=True)

    netG = Generator(opt.nz, opt.ngf, 1).to(device)
    netG.apply(weights_init)
    netD = Discriminator(1, opt.ndf).to(device)
    netD.apply(weights_init)
    if opt.resume:
        state = torch.load(opt.resume, map_location="cpu")
        netG.load_state_dict(state["netG"])
        netD.load_state_dict(state["netD"])
    print(netG)

    criterion = nn.BCELoss()
    fixed_noise = torch.randn(16, opt.nz, 1, 1, device=device)
    optimizerD = optim.Adam(netD.parameters(), lr=opt.lr, betas=(opt.beta1, 0.999))
    optimizerG = optim.Adam(netG.parameters(), lr=opt.lr, betas=(opt.beta1, 0.999))

    losses = []
    for epoch in range(opt.niter):
        for i, data in enumerate(dataloader, 0):
            real = data[0].to(device)
            noise = torch.randn(real.size(0), opt.nz, 1, 1, device=device)
            errD, errG, D_x, D_G_z = train_step(
                netD, netG, optimizerD, optimizerG, criterion, real, noise
            )
            losses.append([errD.item(), errG.item()])
            print(
                "[%d/%d][%d/%d] Loss_D: %.4f Loss_G: %.4f D(x): %.4f D(G(z)): %.4f"
                % (
                    epoch,
                    opt.niter,
                    i,
                    len(dataloader),
                    errD.item(),
                    errG.item(),
                    D_x.item(),
                    D_G_z.item(),
                )
            )

    netG.eval()
    fake = netG(fixed_noise).detach().cpu()
    if opt.save:
        torch.save({"netG": netG.state_dict(), "netD": netD.state_dict()}, opt.save)
    return {"losses": losses, "fake": fake}


if __name__ == "__main__":
    main()
