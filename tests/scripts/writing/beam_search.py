# ruff: noqa
"""Beam search over a GRU: finished beams are masked, and all that belongs to a beam is reordered."""

import torch
import torch.nn as nn
import torch.nn.functional as F

V, D, BEAMS, STEPS, END = 11, 8, 3, 7, 2


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(V, D)
        self.cell = nn.GRUCell(D, D)
        self.out = nn.Linear(D, V)

    def forward(self, token, h):
        h = self.cell(self.embed(token), h)
        return h, F.log_softmax(self.out(h), dim=-1)


def step(model, token, h):
    return model(token, h)


@torch.no_grad()
def search(model):
    sequences = torch.zeros(BEAMS, STEPS + 1, dtype=torch.long)
    sequences[:, 0] = 1
    scores = torch.full((BEAMS,), float("-inf"))
    scores[0] = 0
    h = torch.zeros(BEAMS, D)
    done = torch.zeros(BEAMS, dtype=torch.bool)
    length = torch.ones(BEAMS, dtype=torch.long)
    for t in range(STEPS):
        h, logp = step(model, sequences[:, t], h)
        logp[done] = float("-inf")
        logp[done, END] = 0.0
        scores, flat = (scores[:, None] + logp).view(-1).topk(BEAMS)
        beams, tokens = flat // V, flat % V
        sequences, h, done, length = sequences[beams], h[beams], done[beams], length[beams]
        sequences[:, t + 1] = tokens
        length[~done] += 1
        done |= tokens == END
        if done.all():
            break
    return sequences, scores / length.float() ** 0.7


def main(argv=None):
    torch.manual_seed(0)
    model = Decoder()
    for p in model.parameters():
        nn.init.normal_(p, 0.0, 1.0)
    sequences, scores = search(model)
    print(sequences.tolist())
    return {"sequences": sequences, "scores": scores}


if __name__ == "__main__":
    main()
