# ruff: noqa
"""Deep Q-learning of a pole on a cart: replay memory, target network, soft updates."""

import argparse
import math
import random
from collections import deque, namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

Transition = namedtuple("Transition", ("state", "action", "reward", "next_state", "done"))


class CartPole:
    """A pole that stands on a cart; the cart is pushed to the left or to the right."""

    def reset(self):
        self.state = [random.uniform(-0.05, 0.05) for _ in range(4)]
        self.steps = 0
        return np.array(self.state)

    def step(self, action):
        x, v, angle, spin = self.state
        force = 10.0 if action == 1 else -10.0
        push = (force + 0.05 * spin**2 * math.sin(angle)) / 1.1
        turn = 9.8 * math.sin(angle) - math.cos(angle) * push
        turn = turn / (0.5 * (4.0 / 3.0 - 0.1 * math.cos(angle) ** 2 / 1.1))
        speed = push - 0.05 * turn * math.cos(angle) / 1.1
        self.state = [x + 0.02 * v, v + 0.02 * speed, angle + 0.02 * spin, spin + 0.02 * turn]
        self.steps += 1
        done = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.2095 or self.steps >= 200
        return np.array(self.state), 1.0, done


class ReplayMemory(object):
    def __init__(self, capacity):
        self.memory = deque([], maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, batch_size):
        return random.sample(self.memory, batch_size)

    def __len__(self):
        return len(self.memory)


class DQN(nn.Module):
    def __init__(self, n_observations, n_actions):
        super(DQN, self).__init__()
        self.layer1 = nn.Linear(n_observations, 32)
        self.layer2 = nn.Linear(32, 32)
        self.layer3 = nn.Linear(32, n_actions)

    def forward(self, x):
        x = F.relu(self.layer1(x))
        x = F.relu(self.layer2(x))
        return self.layer3(x)


class Agent:
    def __init__(self, args, device):
        self.args = args
        self.device = device
        self.policy_net = DQN(4, 2).to(device)
        self.target_net = DQN(4, 2).to(device)
        if args.resume:
            self.policy_net.load_state_dict(torch.load(args.resume))
        self.target_net.load_state_dict(self.policy_net.state_dict())
        self.target_net.eval()
        self.optimizer = optim.AdamW(self.policy_net.parameters(), lr=args.lr, amsgrad=True)
        self.memory = ReplayMemory(1000)
        self.steps_done = 0

    def select_action(self, state):
        eps = 0.05 + 0.85 * math.exp(-1.0 * self.steps_done / 100)
        self.steps_done += 1
        if random.random() > eps:
            with torch.no_grad():
                return self.policy_net(state).max(1)[1].view(1, 1)
        return torch.tensor([[random.randrange(2)]], device=self.device, dtype=torch.long)


def train_step(policy_net, target_net, optimizer, states, actions, rewards, next_states, done):
    state_action_values = policy_net(states).gather(1, actions)
    with torch.no_grad():
        next_state_values = target_net(next_states).max(1)[0]
    expected = rewards + 0.99 * next_state_values * (1 - done)
    criterion = nn.SmoothL1Loss()
    loss = criterion(state_action_values, expected.unsqueeze(1))

    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
    optimizer.step()
    return loss


def soft_update(target_net, policy_net, tau):
    for target_param, param in zip(target_net.parameters(), policy_net.parameters()):
        target_param.data.copy_(tau * param.data + (1.0 - tau) * target_param.data)


def optimize_model(agent, batch_size):
    transitions = agent.memory.sample(batch_size)
    batch = Transition(*zip(*transitions))
    states = torch.cat(batch.state)
    actions = torch.cat(batch.action)
    rewards = torch.Tensor(batch.reward)
    next_states = torch.cat(batch.next_state)
    done = torch.Tensor(batch.done)
    loss = train_step(
        agent.policy_net, agent.target_net, agent.optimizer, states, actions, rewards,
        next_states, done,
    )  # fmt: skip
    return loss.item()


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--tau", type=float, default=0.005)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--resume", default="")
    parser.add_argument("--save", default="")
    args = parser.parse_args(argv)
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch.device(
        "cuda"
        if torch.cuda.is_available()
        else "mps"
        if torch.backends.mps.is_available()
        else "cpu"
    )

    env = CartPole()
    agent = Agent(args, device)
    losses, durations = [], []
    for episode in range(args.episodes):
        state = torch.Tensor(env.reset()).unsqueeze(0).to(device)
        done = False
        while not done:
            action = agent.select_action(state)
            observation, reward, done = env.step(action.item())
            next_state = torch.Tensor(observation).unsqueeze(0).to(device)
            agent.memory.push(state, action, reward, next_state, float(done))
            state = next_state
            if len(agent.memory) >= args.batch_size:
                losses.append(optimize_model(agent, args.batch_size))
                soft_update(agent.target_net, agent.policy_net, args.tau)
        durations.append(env.steps)
        print(f"episode {episode}: {env.steps} steps, {np.mean(durations[-10:]):.1f} on average")

    probe = torch.linspace(-0.1, 0.1, 20).view(5, 4)
    with torch.no_grad():
        values = agent.policy_net(probe)
        target_values = agent.target_net(probe)
    if args.save:
        torch.save(agent.policy_net.state_dict(), args.save)
    return {"losses": losses, "durations": durations, "values": values, "target": target_values}


if __name__ == "__main__":
    main()
