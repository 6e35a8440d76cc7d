# ruff: noqa
"""Attention with a cache of keys and values that grows by one position a step."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, dim, n_heads, max_batch_size, max_seq_len):
        super().__init__()
        self.n_heads = n_heads
        self.head_dim = dim // n_heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.cache_k = torch.zeros((max_batch_size, max_seq_len, n_heads, self.head_dim))
        self.cache_v = torch.zeros((max_batch_size, max_seq_len, n_heads, self.head_dim))

    def forward(self, x, start_pos, mask):
        bsz, seqlen, _ = x.shape
        xq = self.wq(x).view(bsz, seqlen, self.n_heads, self.head_dim)
        xk = self.wk(x).view(bsz, seqlen, self.n_heads, self.head_dim)
        xv = self.wv(x).view(bsz, seqlen, self.n_heads, self.head_dim)

        self.cache_k = self.cache_k.to(xq)
        self.cache_v = self.cache_v.to(xq)
        self.cache_k[:bsz, start_pos : start_pos + seqlen] = xk
        self.cache_v[:bsz, start_pos : start_pos + seqlen] = xv
        keys = self.cache_k[:bsz].transpose(1, 2)
        values = self.cache_v[:bsz].transpose(1, 2)

        scores = torch.matmul(xq.transpose(1, 2), keys.transpose(2, 3)) / math.sqrt(self.head_dim)
        scores = scores + mask[start_pos : start_pos + seqlen]
        scores = F.softmax(scores, dim=-1)
        output = torch.matmul(scores, values).transpose(1, 2).contiguous().view(bsz, seqlen, -1)
        return self.wo(output)


class Model(nn.Module):
    def __init__(self, vocab, dim, n_layers, n_heads, max_batch_size, max_seq_len):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(
            [Attention(dim, n_heads, max_batch_size, max_seq_len) for _ in range(n_layers)]
        )
        self.head = nn.Linear(dim, vocab, bias=False)
        mask = torch.full((max_seq_len, max_seq_len), float("-inf"))
        mask.triu_(1)
        mask[mask != float("-inf")] = 0
        self.mask = torch.triu(mask, diagonal=1)

    def forward(self, tokens, start_pos):
        h = self.tok(tokens)
        for layer in self.layers:
            h = h + layer(h, start_pos, self.mask)
        return self.head(h)


def step(model, tokens, pos):
    with torch.no_grad():
        return model(tokens, pos)[:, -1].argmax(-1)


def main(argv=None):
    torch.manual_seed(0)
    model = Model(vocab=17, dim=16, n_layers=2, n_heads=2, max_batch_size=3, max_seq_len=12)
    for p in model.parameters():
        nn.init.normal_(p, 0.0, 0.5)
    model.eval()
    tokens = torch.zeros((2, 12), dtype=torch.long)
    tokens[:, :4] = torch.tensor([[1, 5, 3, 2], [7, 7, 0, 16]])
    with torch.no_grad():
        tokens[:, 4] = model(tokens[:, :4], 0)[:, -1].argmax(-1)
    for pos in range(4, 11):
        tokens[:, pos + 1] = step(model, tokens[:, pos : pos + 1], pos)
    print(tokens.tolist())
    return {"tokens": tokens, "keys": model.layers[1].cache_k, "values": model.layers[0].cache_v}


if __name__ == "__main__":
    main()
