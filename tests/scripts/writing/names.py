# ruff: noqa
"""A character model whose data set and weights are plain tensors, trained by hand."""

import random

import torch
import torch.nn.functional as F

words = "emma olivia ava isabella sophia charlotte mia amelia harper evelyn".split()
chars = sorted(set("".join(words)))
stoi = {s: i + 1 for i, s in enumerate(chars)}
stoi["."] = 0


def encode(word):
    return torch.tensor([stoi[w] for w in word], dtype=torch.long)


def build_table(words, max_len):
    X = torch.zeros(len(words), max_len + 1, dtype=torch.long)
    Y = torch.zeros(len(words), max_len + 1, dtype=torch.long)
    for i, word in enumerate(words):
        ix = encode(word)
        X[i, 1 : 1 + len(ix)] = ix
        Y[i, : len(ix)] = ix
        Y[i, len(ix) + 1 :] = -1
    return X, Y


def count_bigrams(words, n):
    N = torch.zeros((n, n), dtype=torch.int32)
    for w in words:
        chs = ["."] + list(w) + ["."]
        for ch1, ch2 in zip(chs, chs[1:]):
            N[stoi[ch1], stoi[ch2]] += 1
    P = (N + 1).float()
    P /= P.sum(1, keepdim=True)
    return N, P


def train_step(parameters, Xb, Yb, lr):
    C, W1, b1, W2, b2 = parameters
    emb = C[Xb]
    h = torch.tanh(emb.view(emb.shape[0] * emb.shape[1], -1) @ W1 + b1)
    logits = h @ W2 + b2
    loss = F.cross_entropy(logits, Yb.view(-1), ignore_index=-1)

    for p in parameters:
        p.grad = None
    loss.backward()
    for p in parameters:
        p.data += -lr * p.grad
    return loss


def main(argv=None):
    random.seed(42)
    n = len(stoi)
    X, Y = build_table(words, max(len(w) for w in words))
    N, P = count_bigrams(words, n)
    C = torch.randn((n, 4))
    W1 = torch.randn((4, 20)) * (5 / 3) / 2
    b1 = torch.randn(20) * 0.01
    W2 = torch.randn((20, n)) * 0.01
    b2 = torch.randn(n) * 0
    parameters = [C, W1, b1, W2, b2]
    for p in parameters:
        p.requires_grad = True

    lossi = []
    for i in range(12):
        ix = torch.randint(0, X.shape[0], (4,))
        lr = 0.1 if i < 8 else 0.05
        lossi.append(train_step(parameters, X[ix], Y[ix], lr).item())
    print(f"{lossi[0]:.4f} {lossi[-1]:.4f}")
    return {"losses": lossi, "X": X, "Y": Y, "N": N, "P": P.double(), "C": C, "W2": W2}


if __name__ == "__main__":
    main()
