# ruff: noqa
"""Attention over positions of sines and cosines, with masks that are filled."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=64):
        super().__init__()
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        pe = pe.unsqueeze(0)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[:, : x.size(1)].requires_grad_(False)


def make_std_mask(tgt, pad):
    tgt_mask = (tgt != pad).unsqueeze(-2)
    attn_shape = (1, tgt.size(-1), tgt.size(-1))
    subsequent = torch.triu(torch.ones(attn_shape), diagonal=1).type(torch.uint8)
    return tgt_mask & (subsequent == 0)


class Model(nn.Module):
    def __init__(self, vocab, d):
        super().__init__()
        self.d = d
        self.lut = nn.Embedding(vocab, d)
        self.position = PositionalEncoding(d)
        self.qkv = nn.Linear(d, 3 * d)
        self.out = nn.Linear(d, vocab)

    def forward(self, x, mask):
        h = self.position(self.lut(x) * math.sqrt(self.d))
        q, k, v = self.qkv(h).chunk(3, dim=-1)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d)
        scores.masked_fill_(mask == 0, -1e9)
        h = h + torch.matmul(scores.softmax(dim=-1), v)
        return F.log_softmax(self.out(h), dim=-1)


class LabelSmoothing(nn.Module):
    def __init__(self, size, padding_idx, smoothing):
        super().__init__()
        self.criterion = nn.KLDivLoss(reduction="sum")
        self.padding_idx, self.smoothing, self.size = padding_idx, smoothing, size
        self.true_dist = None

    def forward(self, x, target):
        true_dist = x.data.clone()
        true_dist.fill_(self.smoothing / (self.size - 2))
        true_dist.scatter_(1, target.data.unsqueeze(1), 1.0 - self.smoothing)
        true_dist[:, self.padding_idx] = 0
        true_dist.masked_fill_((target.data == self.padding_idx).unsqueeze(1), 0.0)
        self.true_dist = true_dist
        return self.criterion(x, true_dist.clone().detach())


def train_step(model, criterion, optimizer, tgt, tgt_y):
    out = model(tgt, make_std_mask(tgt, 0))
    loss = criterion(out.contiguous().view(-1, out.size(-1)), tgt_y.contiguous().view(-1))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss


def main(argv=None):
    model = Model(11, 8)
    for p in model.parameters():
        nn.init.normal_(p, 0.0, 0.3)
    criterion = LabelSmoothing(11, 0, 0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, betas=(0.9, 0.98), eps=1e-9)
    losses = []
    for _ in range(6):
        data = torch.randint(1, 11, (4, 9))
        data[:, 0] = 1
        data[0, 6:] = 0
        losses.append(train_step(model, criterion, optimizer, data[:, :-1], data[:, 1:]).item())
    print(f"{losses[-1]:.6f}")
    return {"losses": losses, "pe": model.position.pe, "dist": criterion.true_dist}


if __name__ == "__main__":
    main()
