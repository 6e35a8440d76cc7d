# ruff: noqa
"""Top-k and top-p filters of logits, a penalty for repetition, and drawing from what is left."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def top_k_top_p_filtering(logits, top_k=0, top_p=0.0, filter_value=-float("Inf")):
    top_k = min(top_k, logits.size(-1))
    if top_k > 0:
        indices_to_remove = logits < torch.topk(logits, top_k)[0][..., -1, None]
        logits[indices_to_remove] = filter_value

    if top_p > 0.0:
        sorted_logits, sorted_indices = torch.sort(logits, descending=True)
        cumulative_probs = torch.cumsum(F.softmax(sorted_logits, dim=-1), dim=-1)
        sorted_indices_to_remove = cumulative_probs > top_p
        sorted_indices_to_remove[..., 1:] = sorted_indices_to_remove[..., :-1].clone()
        sorted_indices_to_remove[..., 0] = 0
        indices_to_remove = sorted_indices_to_remove.scatter(
            1, sorted_indices, sorted_indices_to_remove
        )
        logits[indices_to_remove] = filter_value
    return logits


def penalize(logits, seen, penalty):
    for i in range(logits.shape[0]):
        for token in set(seen[i].tolist()):
            if logits[i, token] < 0:
                logits[i, token] *= penalty
            else:
                logits[i, token] /= penalty


class Bigram(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.out = nn.Linear(dim, vocab)

    def forward(self, idx):
        return self.out(torch.tanh(self.embed(idx)))


def step(model, idx, temperature, top_k, top_p):
    logits = model(idx) / temperature
    v, _ = torch.topk(logits, 12)
    logits[logits < v[:, [-1]]] = -float("Inf")
    filtered = top_k_top_p_filtering(logits, top_k=top_k, top_p=top_p)
    return F.softmax(filtered, dim=-1)


@torch.no_grad()
def generate(model, idx, max_new_tokens):
    every = []
    for _ in range(max_new_tokens):
        probs = step(model, idx[:, -1], 0.8, 8, 0.9)
        idx_next = torch.multinomial(probs, num_samples=1)
        idx = torch.cat((idx, idx_next), dim=1)
        every.append(probs)
    logits = model(idx[:, -1])
    penalize(logits, idx, 1.3)
    return idx, torch.stack(every), logits


def main(argv=None):
    torch.manual_seed(0)
    model = Bigram(16, 8)
    for p in model.parameters():
        nn.init.normal_(p, 0.0, 1.0)
    idx, probs, logits = generate(model, torch.tensor([[1], [2], [3]]), 6)
    print(idx.tolist())
    return {"idx": idx, "probs": probs, "logits": logits}


if __name__ == "__main__":
    main()
