"""Idioms of public PyTorch code, a paragraph each; ``out`` is what torch and fx must agree on.

Every paragraph begins with ``# name``. ``a`` (3, 4) is an array of NumPy, ``fill(model)`` gives the
parameters of a model values that do not depend on the library.
"""

# ruff: noqa: E501

SNIPPETS = """
# penalty on the gradient of a critic
critic = fill(nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1)))
x = torch.autograd.Variable(torch.from_numpy(a), requires_grad=True)
d = critic(x)
g = torch.autograd.grad(
    outputs=d, inputs=x, grad_outputs=torch.ones_like(d), create_graph=True, retain_graph=True,
    only_inputs=True,
)[0]
penalty = ((g.norm(2, dim=1) - 1) ** 2).mean() * 10
penalty.backward()
out = [penalty, critic[0].weight.grad]

# a Function of one's own
class Clamp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, low):
        ctx.save_for_backward(x)
        ctx.low = low
        return x.clamp(min=low)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * (x >= ctx.low).type_as(grad_output), None

x = torch.from_numpy(a).requires_grad_()
Clamp.apply(x, 0.1).sum().backward()
out = x.grad

# moving average of weights
model = fill(nn.Linear(4, 2))
ema = copy.deepcopy(model)
for p in ema.parameters():
    p.requires_grad_(False)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(3):
    optimizer.zero_grad()
    (model(torch.from_numpy(a)) ** 2).mean().backward()
    optimizer.step()
    with torch.no_grad():
        for e, p in zip(ema.parameters(), model.parameters()):
            e.mul_(0.9).add_(p, alpha=0.1)
        for e, p in zip(ema.parameters(), model.parameters()):
            e.data = e.data * 0.9 + p.data * 0.1
            e.copy_(e.lerp(p, 0.5))
out = [ema.weight, model.weight]

# weights as they were made before nn.init
class Layer(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight = nn.Parameter(torch.Tensor(n_out, n_in))
        self.bias = nn.Parameter(torch.empty(n_out))
        self.register_parameter("extra", None)
        self.reset_parameters()

    def reset_parameters(self):
        stdv = 1.0 / math.sqrt(self.weight.size(1))
        self.weight.data.uniform_(-stdv, stdv)
        nn.init.uniform_(self.bias, -stdv, stdv)

layer = Layer(4, 3)
inside = (layer.weight.abs() <= 0.5).all() and (layer.bias.abs() <= 0.5).all()
fill(layer)
out = [bool(inside), F.linear(torch.from_numpy(a), layer.weight, layer.bias), list(layer.state_dict())]

# frozen layers and their optimizer
model = fill(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2)))
for name, param in model.named_parameters():
    if name.startswith("0."):
        param.requires_grad = False
optimizer = torch.optim.SGD(filter(lambda p: p.requires_grad, model.parameters()), lr=0.1)
model(torch.from_numpy(a)).sum().backward()
optimizer.step()
for g in optimizer.param_groups:
    g["lr"] *= 0.5
trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
out = [trained, model[0].weight.grad is None, model[2].bias, optimizer.param_groups[0]["lr"]]

# features by a hook
features = {}
def keep(name):
    def hook(module, inputs, output):
        features[name] = output.detach()
    return hook

model = fill(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)))
handle = model[1].register_forward_hook(keep("relu"))
model(torch.from_numpy(a))
handle.remove()
out = [features["relu"], len([m for m in model.modules() if isinstance(m, nn.Linear)])]

# a batch of a language model
data = torch.arange(50)
ix = torch.tensor([3, 17])
x = torch.stack([data[i : i + 8] for i in ix])
y = torch.stack([data[i + 1 : i + 9].long() for i in ix])
x, y = x.pin_memory() if torch.cuda.is_available() else x, y.to("cpu", non_blocking=True)
logits = F.one_hot(x, 60).double()
loss = F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1), ignore_index=-1)
out = [x, y, loss, float(loss), f"{loss:.3f}", f"{loss.item():.3f}", round(loss.item(), 3)]

# masks of a transformer
T = 5
causal = torch.triu(torch.ones(T, T), diagonal=1).bool()
scores = torch.zeros(1, T, T).double().masked_fill(causal[None], float("-inf"))
q = torch.from_numpy(a)[None, None]
fused = F.scaled_dot_product_attention(q, q, q, is_causal=True)
out = [F.softmax(scores, dim=-1), fused, (~causal).sum().item(), causal.to(torch.uint8)]

# positional encoding without writing into it
position = torch.arange(6).unsqueeze(1)
div_term = torch.exp(torch.arange(0, 8, 2).double() * (-math.log(10000.0) / 8))
pe = torch.stack([torch.sin(position * div_term), torch.cos(position * div_term)], dim=2)
out = pe.flatten(1)

# accuracy
logits, target = torch.from_numpy(a), torch.tensor([0, 3, 1])
_, pred = torch.max(logits.data, 1)
top, pred2 = logits.topk(2, 1, True, True)
correct = pred2.t().eq(target.view(1, -1).expand_as(pred2.t()))
out = [
    (pred == target).sum().item(), correct[:2].reshape(-1).float().sum(0), pred.cpu().numpy().tolist(),
    (pred == target).float().mean().item(), pred.tolist(), [int(p) for p in pred],
]

# indices where something holds
x = torch.from_numpy(a)
rows = torch.where(x[:, 0] > 0)[0]
flat = (x > 0).nonzero(as_tuple=False)
out = [rows, flat, x[x > 0], x[rows].shape[0], len(flat), x[:, [0, 2]], x[torch.arange(3), [0, 1, 2]]]

# accumulated gradients
model = fill(nn.Linear(4, 1))
for i, row in enumerate(torch.from_numpy(a)):
    loss = model(row[None]).pow(2).mean() / 3
    loss.backward()
norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
vector = torch.nn.utils.parameters_to_vector(model.parameters())
out = [norm, model.weight.grad, vector, [p.grad.norm().item() for p in model.parameters()]]

# a checkpoint of a wrapped model
model = fill(nn.DataParallel(nn.Linear(4, 2)))
buffer = io.BytesIO()
torch.save({"epoch": 3, "model": model.state_dict(), "rng": torch.get_rng_state()}, buffer)
buffer.seek(0)
state = torch.load(buffer, map_location=torch.device("cpu"), weights_only=True)
plain = {k.replace("module.", ""): v for k, v in state["model"].items()}
other = nn.Linear(4, 2)
result = other.load_state_dict(plain, strict=False)
out = [list(state["model"]), str(result), other.weight, state["epoch"]]

# parts of a dataset
dataset = torch.utils.data.TensorDataset(torch.arange(10), torch.arange(10) * 2)
train, val = torch.utils.data.random_split(dataset, [7, 3], generator=torch.Generator().manual_seed(4))
loader = torch.utils.data.DataLoader(torch.utils.data.Subset(dataset, [1, 3, 5]), batch_size=2)
out = [len(train), len(val), sorted([int(x) for x, _ in train] + [int(x) for x, _ in val]), list(loader)]

# an actor and its returns
probs = F.softmax(torch.from_numpy(a), dim=-1)
m = torch.distributions.Categorical(probs)
action = torch.tensor([1, 0, 3])
R, returns = 0, []
for r in [1.0, 0.0, 2.0][::-1]:
    R = r + 0.9 * R
    returns.insert(0, R)
returns = torch.tensor(returns)
returns = (returns - returns.mean()) / (returns.std() + np.finfo(np.float32).eps.item())
out = [m.log_prob(action), m.entropy(), returns, -(m.log_prob(action) * returns).sum()]

# modules in lists and dicts
class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.Linear(4, 3)})
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(1)) for _ in range(2)])
        self.register_buffer("steps", torch.tensor(0), persistent=False)

    def forward(self, x):
        self.steps += 1
        return {k: head(x) * s for (k, head), s in zip(self.heads.items(), self.scales)}

model = fill(Heads())
try:
    model.load_state_dict({**model.state_dict(), "scales.1": torch.ones(2, 3)})
except RuntimeError as error:
    told = str(error)
out = [model(torch.from_numpy(a)), list(model.state_dict()), model.steps, repr(model), told]

# what forward does to a module that is called with other parameters
class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.twice = nn.BatchNorm1d(4), nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(2).double())
        self.calls, self.seconds, self.kept, self.stale = 0, [self.norm], {}, 1
        self.last = None

    def forward(self, x):
        self.calls += 1
        self.last = self.norm(x)
        self.last.sum() * self.twice.weight
        self.seconds.append(self.calls)
        self.kept["x"] = x.shape[0]
        self.seen.add_(1)
        if hasattr(self, "stale"):
            del self.stale
        return self.last @ self.twice.weight

model = fill(Counting())
params = {k: v.detach() * 2 for k, v in model.named_parameters()}
buffers = {k: v.clone() for k, v in model.named_buffers()}
x = torch.from_numpy(a)
first = torch.func.functional_call(model, params, x)
out = [first, model.calls, model.last, model.seconds[1:], model.kept, model.seen.clone()]
out += [model.norm.running_mean.clone(), model.norm.num_batches_tracked.clone(), model.seconds[0] is model.norm]
second = torch.func.functional_call(model, (params, buffers), (x * 2,))
out += [second, buffers, model.norm.running_mean, model.seen, model.calls, hasattr(model, "stale"), model.twice.weight]

# tensors of the kind of another
x = torch.from_numpy(a)
pad = torch.zeros(3, 1).type_as(x)
out = [
    torch.cat([x, pad], dim=1), x.new_zeros(2), x.new_ones((1, 2)), x.new_tensor([1]).dtype == x.dtype,
    x.new_full((2,), 3.0), torch.zeros_like(x, dtype=torch.bool), x.float().half().dtype == torch.float16,
    x.type(torch.DoubleTensor), x.is_floating_point(), torch.is_tensor(x), x.dtype == torch.double,
]

# a tensor that requires grad
w = torch.tensor([[1.0], [2.0], [0.5], [0.1]], dtype=torch.double, requires_grad=True)
x = torch.from_numpy(a)
y = (x @ w).squeeze(1)
y.retain_grad()
loss = (y - 1).pow(2).sum()
loss.backward(retain_graph=True)
loss.backward()
out = [w.grad, y.grad, w.is_leaf, y.is_leaf, w.detach().numpy(), y.data.numpy(), loss.grad_fn is not None]

# schedules
model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
warm = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda=lambda step: min(1.0, (step + 1) / 5))
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "min", factor=0.1, patience=1)
seen = []
for epoch in range(8):
    optimizer.step()
    warm.step()
    seen.append(optimizer.param_groups[0]["lr"])
for loss in (1.0, 1.0, 1.0, 1.0):
    plateau.step(loss)
out = [seen, optimizer.param_groups[0]["lr"], warm.get_last_lr()]

# images
x = torch.from_numpy(a)[None, None]
up = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
near = F.interpolate(x, size=(6, 8), mode="nearest")
patches = F.unfold(x, kernel_size=2, stride=1)
padded = F.pad(x, (1, 1, 2, 0), mode="constant", value=0.5)
out = [up, near, patches, padded, F.avg_pool2d(x, 2), nn.Flatten()(x), x.flip(-1), x.mean((2, 3))]

# numbers to tensors and back
out = [
    torch.tensor(np.float64(2.5)), torch.tensor([np.int64(3)]), torch.as_tensor(np.eye(2)),
    torch.from_numpy(np.array([True])), torch.tensor(True).item(), np.asarray(torch.ones(2)),
    torch.Tensor([[1, 2]]).tolist(), int(torch.tensor(3)), float(torch.tensor(2.5)),
    torch.arange(3).numpy().sum().item(), [t.item() for t in torch.arange(3)], max(torch.arange(3)),
]

# attention as a layer
mha = fill(nn.MultiheadAttention(4, 2, batch_first=True).double())
x = torch.from_numpy(a)[None]
attended, weights = mha(x, x, x, need_weights=True)
layer = fill(nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True).double())
out = [attended, weights, layer(x)]

# recurrent layers
gru = fill(nn.GRU(4, 3, num_layers=2, batch_first=True).double())
x = torch.from_numpy(a)[None]
y, h = gru(x)
lstm = fill(nn.LSTMCell(4, 3).double())
hx, cx = lstm(x[0])
out = [y, h, hx, cx, y[:, -1, :]]
"""
