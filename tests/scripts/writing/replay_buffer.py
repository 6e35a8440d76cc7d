# ruff: noqa
"""A replay buffer of tensors that wraps around, and Q-learning with a target that follows."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class ReplayBuffer(object):
    def __init__(self, state_dim, max_size):
        self.max_size, self.ptr, self.size = max_size, 0, 0
        self.state = torch.zeros((max_size, state_dim))
        self.action = torch.zeros((max_size, 1), dtype=torch.long)
        self.next_state = torch.zeros((max_size, state_dim))
        self.reward = torch.zeros(max_size)
        self.not_done = torch.ones(max_size)
        self.priority = torch.empty(max_size)
        self.priority.fill_(1e-3)

    def add(self, state, action, next_state, reward, done):
        self.state[self.ptr] = torch.from_numpy(state)
        self.action[self.ptr] = action
        self.next_state[self.ptr] = torch.from_numpy(next_state)
        self.reward[self.ptr] = reward
        self.not_done[self.ptr] = 1.0 - done
        self.priority[self.ptr] = self.priority.max()
        self.ptr = (self.ptr + 1) % self.max_size
        self.size = min(self.size + 1, self.max_size)

    def sample(self, batch_size):
        ind = torch.randint(0, self.size, (batch_size,))
        return (
            ind,
            self.state[ind],
            self.action[ind],
            self.next_state[ind],
            self.reward[ind],
            self.not_done[ind],
        )


def train_step(q, target, optimizer, state, action, next_state, reward, not_done):
    with torch.no_grad():
        best = target(next_state).max(1)[0]
        best *= not_done
        wanted = reward + 0.95 * best
    current = q(state).gather(1, action).squeeze(1)
    loss = F.smooth_l1_loss(current, wanted)
    optimizer.zero_grad()
    loss.backward()
    for param in q.parameters():
        param.grad.data.clamp_(-1, 1)
    optimizer.step()
    return loss, (current - wanted).detach().abs()


def main(argv=None):
    rng = np.random.RandomState(0)
    make = lambda: nn.Sequential(nn.Linear(3, 10), nn.ReLU(), nn.Linear(10, 2))
    q, target = make(), make()
    for p in q.parameters():
        nn.init.normal_(p, 0.0, 0.5)
    target.load_state_dict(q.state_dict())
    optimizer = torch.optim.Adam(q.parameters(), lr=1e-2)
    buffer, losses = ReplayBuffer(3, 24), []
    state = rng.randn(3)
    for t in range(40):
        with torch.no_grad():
            action = int(q(torch.from_numpy(state).to(buffer.state)).argmax())
        next_state = 0.9 * state + 0.1 * rng.randn(3)
        buffer.add(state, action, next_state, float(next_state.sum()), float(t % 10 == 9))
        state = next_state
        if t >= 8 and t % 4 == 0:
            ind, *batch = buffer.sample(8)
            loss, error = train_step(q, target, optimizer, *batch)
            losses.append(loss.item())
            buffer.priority[ind] = error[0]
            for param, target_param in zip(q.parameters(), target.parameters()):
                target_param.data.copy_(0.1 * param.data + 0.9 * target_param.data)
    print(f"{losses[-1]:.6f}", buffer.ptr, buffer.size)
    return {
        "losses": losses,
        "state": buffer.state,
        "reward": buffer.reward,
        "not_done": buffer.not_done,
        "priority": buffer.priority,
        "target": target[0].weight,
    }


if __name__ == "__main__":
    main()
