# ruff: noqa
"""A bidirectional LSTM that tags words: sentences of different lengths, packed."""

import argparse
import random

import torch
import torch.nn as nn
import torch.optim as optim
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset

WORDS = {
    "DET": ["the", "a", "every", "this"],
    "ADJ": ["old", "green", "quiet", "small", "bright"],
    "NN": ["boat", "teacher", "river", "garden", "clock", "letter"],
    "V": ["sees", "follows", "paints", "remembers", "carries"],
    "ADV": ["slowly", "often", "gladly"],
}
PAD, IGNORE = 0, -100


def noun_phrase():
    tags = ["DET"] + ["ADJ"] * random.randint(0, 2) + ["NN"]
    return tags


def sentence():
    tags = noun_phrase() + ["V"] + noun_phrase()
    if random.random() < 0.5:
        tags = tags + ["ADV"]
    return [(random.choice(WORDS[tag]), tag) for tag in tags]


class TaggedSentences(Dataset):
    def __init__(self, size, word_to_ix, tag_to_ix):
        self.sentences = [sentence() for _ in range(size)]
        self.word_to_ix = word_to_ix
        self.tag_to_ix = tag_to_ix

    def __len__(self):
        return len(self.sentences)

    def __getitem__(self, index):
        words, tags = zip(*self.sentences[index])
        words = torch.tensor([self.word_to_ix[w] for w in words], dtype=torch.long)
        tags = torch.tensor([self.tag_to_ix[t] for t in tags], dtype=torch.long)
        return words, tags


def collate(batch):
    batch = sorted(batch, key=lambda pair: len(pair[0]), reverse=True)
    lengths = torch.tensor([len(words) for words, _ in batch])
    words = pad_sequence([words for words, _ in batch], batch_first=True, padding_value=PAD)
    tags = pad_sequence([tags for _, tags in batch], batch_first=True, padding_value=IGNORE)
    return words, tags, lengths


class LSTMTagger(nn.Module):
    def __init__(self, embedding_dim, hidden_dim, vocab_size, tagset_size):
        super(LSTMTagger, self).__init__()
        self.hidden_dim = hidden_dim
        self.word_embeddings = nn.Embedding(vocab_size, embedding_dim, padding_idx=PAD)
        self.lstm = nn.LSTM(
            embedding_dim, hidden_dim // 2, num_layers=1, bidirectional=True, batch_first=True
        )
        self.dropout = nn.Dropout(0.1)
        self.hidden2tag = nn.Linear(hidden_dim, tagset_size)
        for name, param in self.lstm.named_parameters():
            if "weight" in name:
                nn.init.orthogonal_(param)
            elif "bias" in name:
                nn.init.constant_(param, 0.0)

    def init_hidden(self, batch_size):
        weight = next(self.parameters()).data
        size = (2, batch_size, self.hidden_dim // 2)
        return weight.new_zeros(size), weight.new_zeros(size)

    def forward(self, words, lengths):
        embeds = self.dropout(self.word_embeddings(words))
        packed = pack_padded_sequence(embeds, lengths, batch_first=True)
        packed_out, (h, c) = self.lstm(packed, self.init_hidden(words.size(0)))
        lstm_out, _ = pad_packed_sequence(packed_out, batch_first=True)
        return self.hidden2tag(lstm_out)


def train_step(model, optimizer, loss_function, words, tags, lengths):
    model.zero_grad()
    tag_scores = model(words, lengths)
    loss = loss_function(tag_scores.transpose(1, 2), tags)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=5.0)
    optimizer.step()
    return loss


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--size", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--embedding-dim", type=int, default=16)
    parser.add_argument("--hidden-dim", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", default="")
    parser.add_argument("--save", default="")
    args = parser.parse_args(argv)
    random.seed(args.seed)
    torch.manual_seed(args.seed)

    vocabulary = [w for words in WORDS.values() for w in words]
    word_to_ix = {w: i + 1 for i, w in enumerate(vocabulary)}
    tag_to_ix = {t: i for i, t in enumerate(WORDS)}
    train_data = TaggedSentences(args.size, word_to_ix, tag_to_ix)
    test_data = TaggedSentences(8, word_to_ix, tag_to_ix)
    loader = DataLoader(
        train_data, batch_size=args.batch_size, shuffle=True, collate_fn=collate, num_workers=0
    )

    model = LSTMTagger(args.embedding_dim, args.hidden_dim, len(word_to_ix) + 1, len(tag_to_ix))
    if args.resume:
        model.load_state_dict(torch.load(args.resume))
    loss_function = nn.CrossEntropyLoss(ignore_index=IGNORE)
    optimizer = optim.Adam(model.parameters(), lr=0.01)

    losses = []
    for epoch in range(args.epochs):
        model.train()
        total_loss = 0.0
        for words, tags, lengths in loader:
            loss = train_step(model, optimizer, loss_function, words, tags, lengths)
            losses.append(loss.item())
            total_loss += loss.item()
        print(f"epoch {epoch}: loss {total_loss / len(loader):.4f}")

    model.eval()
    with torch.no_grad():
        words, tags, lengths = collate([test_data[i] for i in range(len(test_data))])
        scores = model(words, lengths)
        _, predicted = torch.max(scores, 2)
        mask = tags != IGNORE
        accuracy = (predicted[mask] == tags[mask]).float().mean().item()
    print(f"accuracy {accuracy:.3f}")
    if args.save:
        torch.save(model.state_dict(), args.save)
    return {"losses": losses, "scores": scores, "predicted": predicted.tolist()}


if __name__ == "__main__":
    main()
