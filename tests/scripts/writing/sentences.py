# ruff: noqa
"""Sentences of different lengths: batches that are padded and packed, schedules, stopping early, checkpoints."""

import io

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset, IterableDataset, random_split


class Sentences(Dataset):
    def __init__(self, count):
        lengths = torch.randint(2, 6, (count,))
        self.items = [
            (torch.randint(1, 20, (n,)), torch.tensor(i % 2))
            for i, n in enumerate(lengths.tolist())
        ]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        if torch.is_tensor(i):
            i = i.tolist()
        return self.items[i]


class Numbers(IterableDataset):
    def __iter__(self):
        for i in range(5):
            yield {"x": torch.full((2,), float(i)), "i": i, "name": f"n{i}"}


def collate(batch):
    batch.sort(key=lambda item: len(item[0]), reverse=True)
    texts, labels = zip(*batch)
    lengths = torch.tensor([len(t) for t in texts])
    return pad_sequence(texts, batch_first=True, padding_value=0), lengths, torch.stack(labels)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 8, padding_idx=0)
        self.lstm = nn.LSTM(8, 6, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(12, 5, batch_first=True)
        self.head = nn.Linear(5 + 12, 2)

    def forward(self, text, lengths):
        packed = pack_padded_sequence(self.embedding(text), lengths.cpu(), batch_first=True)
        packed, (hidden, _) = self.lstm(packed)
        out, _ = pad_packed_sequence(packed, batch_first=True)
        _, last = self.gru(out)
        return self.head(torch.cat([last.squeeze(0), hidden[-2], hidden[-1]], dim=1))


class Stopping:
    def __init__(self, patience=1):
        self.patience, self.best, self.worse, self.kept = patience, None, 0, io.BytesIO()

    def __call__(self, loss, model):
        if self.best is None or loss < self.best:
            print(f"{float('inf') if self.best is None else self.best:.6f} --> {loss:.6f}, kept")
            self.best, self.worse, self.kept = loss, 0, io.BytesIO()
            torch.save(model.state_dict(), self.kept)
        else:
            self.worse += 1
        return self.worse > self.patience


def train_step(model, text, lengths, labels, parts):
    loss = F.cross_entropy(model(text, lengths), labels) / parts
    loss.backward()
    return loss


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    total, right = 0.0, 0
    confusion = torch.zeros(2, 2, dtype=torch.int64)
    for text, lengths, labels in loader:
        out = model(text, lengths)
        total += F.cross_entropy(out, labels, reduction="sum").item()
        found = out.argmax(dim=1, keepdim=True)
        right += found.eq(labels.view_as(found)).sum().item()
        for t, p in zip(labels.view(-1), found.view(-1)):
            confusion[t.long(), p.long()] += 1
    model.train()
    return total / len(loader.dataset), right, confusion


def main(argv=None):
    train, held = random_split(Sentences(24), [18, 6])
    train.indices, held.indices = list(range(18)), list(range(18, 24))
    loader = DataLoader(train, batch_size=6, shuffle=True, collate_fn=collate)
    test = DataLoader(held, batch_size=4, collate_fn=collate)
    model = Classifier()
    for name, p in model.named_parameters():
        nn.init.normal_(p, 0.0, 0.4)
        if "bias" in name:
            p.data.fill_(0.1)
    with torch.no_grad():
        model.embedding.weight[0].fill_(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=2)
    rest = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, rest], milestones=[2])
    stop, losses, rates = Stopping(), [], []
    for epoch in range(4):
        for i, batch in enumerate(loader):
            losses.append(train_step(model, *batch, 2).item())
            if (i + 1) % 2 == 0 or i + 1 == len(loader):
                nn.utils.clip_grad_value_(model.parameters(), clip_value=0.5)
                optimizer.step()
                optimizer.zero_grad()
        schedule.step()
        loss, right, confusion = evaluate(model, test)
        rates.append(optimizer.param_groups[0]["lr"])
        print(
            f"epoch {epoch + 1:02}: {loss:.4f} {right}/{len(held)} {confusion.tolist()} {rates[-1]:.6f}"
        )
        if stop(loss, model):
            break
    stop.kept.seek(0)
    print(model.load_state_dict(torch.load(stop.kept)))
    file = io.BytesIO()
    torch.save({
        "epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict(),
        "schedule": schedule.state_dict(), "dtype": model.head.weight.dtype, "shape": model.head.weight.shape,
    }, file)  # fmt: skip
    file.seek(0)
    read = torch.load(file, weights_only=False)
    other = Classifier()
    other.load_state_dict(read["model"])
    again = torch.optim.AdamW(other.parameters(), lr=1.0)
    again.load_state_dict(read["optimizer"])
    print(
        read["epoch"],
        read["dtype"],
        read["shape"],
        len(again.state),
        again.param_groups[0]["betas"],
    )
    for batch in test:
        train_step(other, *batch, 1)
        again.step()
        again.zero_grad()
    print([(b["x"].shape, b["i"].tolist(), b["name"]) for b in DataLoader(Numbers(), batch_size=3)])
    print(model, f"{sum(p.numel() for p in model.parameters()):,}")
    return {"losses": losses, "rates": rates, "loss": evaluate(other, test)[0]}


if __name__ == "__main__":
    main()
