# ruff: noqa
"""Proximal policy optimisation: a buffer of rollouts, advantages from the end, clipped ratios."""

import numpy as np
import torch
import torch.nn as nn

STEPS, ENVS, DIM = 8, 3, 4


class Rollouts:
    def __init__(self):
        self.obs = torch.zeros((STEPS, ENVS, DIM))
        self.actions = torch.zeros((STEPS, ENVS), dtype=torch.long)
        self.rewards, self.dones = torch.zeros(STEPS, ENVS), torch.zeros(STEPS, ENVS)
        self.values, self.logprobs = torch.zeros(STEPS, ENVS), torch.zeros(STEPS, ENVS)
        self.at = 0

    def add(self, obs, action, reward, done, value, logprob):
        i = self.at
        self.obs[i], self.actions[i], self.rewards[i] = obs, action, reward
        self.dones[i], self.values[i], self.logprobs[i] = done, value.view(-1), logprob
        self.at += 1

    def advantages(self, last, gamma=0.99, lam=0.95):
        out, running = torch.zeros_like(self.rewards), 0
        for t in reversed(range(self.at)):
            following = last if t == self.at - 1 else self.values[t + 1]
            alive = 1.0 - self.dones[t]
            delta = self.rewards[t] + gamma * following * alive - self.values[t]
            out[t] = running = delta + gamma * lam * alive * running
        return out, out + self.values


def train_step(actor, critic, optimizer, obs, actions, before, advantage, returns):
    dist = torch.distributions.Categorical(logits=actor(obs))
    ratio = (dist.log_prob(actions) - before).exp()
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    policy = torch.max(-advantage * ratio, -advantage * torch.clamp(ratio, 0.8, 1.2)).mean()
    value = 0.5 * ((critic(obs).squeeze(-1) - returns) ** 2).mean()
    loss = policy + 0.5 * value - 0.01 * dist.entropy().mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(actor.parameters(), 0.5)
    optimizer.step()
    return loss


def main(argv=None):
    torch.manual_seed(0)
    rng = np.random.RandomState(0)
    actor = nn.Sequential(nn.Linear(DIM, 16), nn.Tanh(), nn.Linear(16, 2))
    critic = nn.Sequential(nn.Linear(DIM, 16), nn.Tanh(), nn.Linear(16, 1))
    for p in (*actor.parameters(), *critic.parameters()):
        nn.init.normal_(p, 0.0, 0.4)
    params = [*actor.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(params, lr=3e-3, eps=1e-5)
    losses = []
    for _ in range(2):
        buffer = Rollouts()
        with torch.no_grad():
            for _ in range(STEPS):
                obs = torch.from_numpy(rng.randn(ENVS, DIM))
                logits = actor(obs)
                action = logits.argmax(-1)
                logprob = torch.log_softmax(logits, -1).gather(1, action[:, None]).squeeze(1)
                reward, done = torch.tensor(rng.rand(ENVS)), torch.tensor(rng.rand(ENVS) < 0.1)
                buffer.add(obs, action, reward, done, critic(obs), logprob)
            advantage, returns = buffer.advantages(critic(obs).view(-1))
        order = torch.from_numpy(rng.permutation(STEPS * ENVS))
        flat = [
            x.reshape(-1, *x.shape[2:])
            for x in (buffer.obs, buffer.actions, buffer.logprobs, advantage, returns)
        ]
        for start in range(0, STEPS * ENVS, 8):
            batch = [x[order[start : start + 8]] for x in flat]
            losses.append(train_step(actor, critic, optimizer, *batch).item())
    print(f"{losses[-1]:.6f}")
    return {"losses": torch.tensor(losses), "last": params[0], "advantage": advantage}


if __name__ == "__main__":
    main()
