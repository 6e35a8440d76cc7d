# ruff: noqa
"""An encoder and a decoder of GRUs with teacher forcing; outputs are written step by step."""

import random

import torch
import torch.nn as nn
import torch.optim as optim


class Encoder(nn.Module):
    def __init__(self, input_dim, emb_dim, hid_dim):
        super().__init__()
        self.embedding = nn.Embedding(input_dim, emb_dim)
        self.rnn = nn.GRU(emb_dim, hid_dim)

    def forward(self, src):
        outputs, hidden = self.rnn(self.embedding(src))
        return hidden


class Decoder(nn.Module):
    def __init__(self, output_dim, emb_dim, hid_dim):
        super().__init__()
        self.output_dim = output_dim
        self.embedding = nn.Embedding(output_dim, emb_dim)
        self.rnn = nn.GRU(emb_dim + hid_dim, hid_dim)
        self.fc_out = nn.Linear(emb_dim + hid_dim * 2, output_dim)

    def forward(self, input, hidden, context):
        embedded = self.embedding(input.unsqueeze(0))
        output, hidden = self.rnn(torch.cat((embedded, context), dim=2), hidden)
        output = torch.cat((embedded.squeeze(0), hidden.squeeze(0), context.squeeze(0)), dim=1)
        return self.fc_out(output), hidden


class Seq2Seq(nn.Module):
    def __init__(self, encoder, decoder, device):
        super().__init__()
        self.encoder, self.decoder, self.device = encoder, decoder, device

    def forward(self, src, trg, teacher_forcing_ratio=0.5):
        batch_size, trg_len = trg.shape[1], trg.shape[0]
        outputs = torch.zeros(trg_len, batch_size, self.decoder.output_dim).to(self.device)
        context = self.encoder(src)
        hidden = context
        input = trg[0, :]
        for t in range(1, trg_len):
            output, hidden = self.decoder(input, hidden, context)
            outputs[t] = output
            teacher_force = random.random() < teacher_forcing_ratio
            top1 = output.argmax(1)
            input = trg[t] if teacher_force else top1
        return outputs


def train_step(model, optimizer, criterion, src, trg, clip):
    optimizer.zero_grad()
    output = model(src, trg)
    output_dim = output.shape[-1]
    output = output[1:].view(-1, output_dim)
    loss = criterion(output, trg[1:].reshape(-1))
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    return loss


def init_weights(m):
    for name, param in m.named_parameters():
        nn.init.normal_(param.data, mean=0, std=0.3)


def main(argv=None):
    random.seed(1)
    device = torch.device("cpu")
    model = Seq2Seq(Encoder(11, 6, 8), Decoder(11, 6, 8), device).to(device)
    model.apply(init_weights)
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    criterion = nn.CrossEntropyLoss(ignore_index=0)
    losses = []
    for _ in range(5):
        src = torch.randint(1, 11, (2, 4))
        trg = torch.zeros(3, 4, dtype=torch.long)
        trg[0] = 1
        trg[1:] = src.flip(0)
        trg[2:, 0] = 0
        losses.append(train_step(model, optimizer, criterion, src, trg, 1.0).item())
    model.eval()
    with torch.no_grad():
        outputs = model(src, trg, 0)
    print(f"{losses[-1]:.6f}")
    return {"losses": losses, "outputs": outputs}


if __name__ == "__main__":
    main()
