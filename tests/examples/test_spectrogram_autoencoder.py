"""A spectrogram autoencoder: a jitted training step through ``stft``, beside PyTorch's."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import fx.torch

N_FFT, HOP, STEPS = 64, 16, 6


def signals(seed):
    """(batch 4, time 400): tones of two pitches and noise."""
    rng = np.random.default_rng(seed)
    time, pitch = np.arange(400) / 400, rng.uniform(5, 60, (4, 2, 1))
    tones = np.sin(2 * np.pi * pitch * time).sum(1)
    return (tones + 0.1 * rng.standard_normal((4, 400))).astype("float32")


def build(t):
    class Autoencoder(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.window = t.nn.Buffer(t.hann_window(N_FFT))
            points = N_FFT // 2 + 1
            self.encode = t.nn.Sequential(t.nn.Linear(points, 24), t.nn.GELU(), t.nn.Linear(24, 8))
            self.decode = t.nn.Sequential(t.nn.Linear(8, 24), t.nn.GELU(), t.nn.Linear(24, points))

        def forward(self, x):
            """(batch, time) -> the signal again, and the logarithms of two spectrograms."""
            there = {"n_fft": N_FFT, "hop_length": HOP, "window": self.window}
            spectra = t.stft(x, return_complex=True, **there)  # (batch, points, pieces)
            size = t.log1p(t.sqrt(spectra.real**2 + spectra.imag**2 + 1e-6))
            code = self.encode(size.transpose(1, 2))
            again = self.decode(code).transpose(1, 2)
            ratio = t.expm1(again) / t.expm1(size)  # the phase is the signal's own
            return t.istft(spectra * ratio, length=x.shape[-1], **there), again, size

    return Autoencoder()


def train(t, state, jitted):
    model = build(t)
    model.load_state_dict({k: t.tensor(v) for k, v in state.items()})
    optimizer = t.optim.Adam(model.parameters(), lr=1e-2)

    def step(x):
        optimizer.zero_grad()
        y, again, size = model(x)
        loss = t.nn.functional.mse_loss(again, size) + t.nn.functional.mse_loss(y, x)
        loss.backward()
        optimizer.step()
        return loss

    step = fx.jit(step) if jitted else step
    losses = [step(t.tensor(signals(0))).item() for k in range(STEPS)]
    return losses, {k: v.detach().numpy() for k, v in model.state_dict().items()}


def test_the_same_steps_as_pytorchs():
    torch.manual_seed(0)
    state = {k: v.detach().numpy() for k, v in build(torch).state_dict().items()}
    wanted, weights = train(torch, state, False)
    assert wanted[-1] < 0.9 * wanted[0]
    for jitted in (False, True):
        losses, found = train(fx.torch, state, jitted)
        np.testing.assert_allclose(losses, wanted, rtol=2e-4)
        for name, want in weights.items():
            np.testing.assert_allclose(found[name], want, rtol=2e-2, atol=2e-3, err_msg=name)
