"""fx.progress and fx.SummaryWriter."""

import io
import subprocess
import sys

import numpy as np
import pytest

import fx

HIDDEN = """
import sys
sys.modules[{name!r}] = None
import fx
try:
    fx.{what}
    fx.{what}([])
except ModuleNotFoundError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("name", "what", "extra"),
    [("tqdm", "progress", "progress"), ("tensorboardX", "SummaryWriter", "tensorboard")],
)
def test_missing_packages_say_what_to_install(name, what, extra):
    script = HIDDEN.format(name=name, what=what)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert f'pip install "fxgrad[{extra}]"' in done.stdout, done.stderr


def test_nothing_optional_is_imported_with_fx():
    script = "import sys, fx.io; print([m for m in ('tqdm', 'tensorboardX', 'torch', 'numba', "
    script += "'safetensors', 'scipy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_progress_of_a_loader():
    pytest.importorskip("tqdm")
    data = fx.data.TensorDataset(fx.arange(10.0))
    loader = fx.data.DataLoader(data, batch_size=4)
    out = io.StringIO()
    bar = fx.progress(loader, desc="epoch 1", file=out, mininterval=0)
    weight = fx.nn.Parameter(fx.ones(1))
    for (x,) in bar:
        bar.set_postfix(loss=(x * weight).mean(), bf16=fx.ones(1, dtype=fx.bfloat16), note="a")
    assert bar.total == bar.n == 3
    text = out.getvalue()
    assert "epoch 1: 100%" in text
    assert "it/s" in text or "s/it" in text
    assert "loss=8.5, bf16=1, note=a" in text


def test_progress_of_what_has_no_length():
    pytest.importorskip("tqdm")
    assert list(fx.progress((n for n in range(3)), file=io.StringIO())) == [0, 1, 2]
    with fx.progress(total=10, file=io.StringIO()) as bar:
        bar.update(4)
        assert bar.n == 4


def events(folder):
    """The values in the event files of a folder, by tag."""
    from tensorboardX.event_file_writer import EventFileWriter  # noqa: F401 - the format's home
    from tensorboardX.proto.event_pb2 import Event

    found = {}
    for path in sorted(folder.glob("events.*")):
        data = path.read_bytes()
        at = 0
        while at < len(data):
            size = int.from_bytes(data[at : at + 8], "little")
            event = Event.FromString(data[at + 12 : at + 12 + size])
            at += size + 16
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, value))
    return found


def test_summary_writer(tmp_path):
    pytest.importorskip("tensorboardX")
    model = fx.nn.Linear(3, 2)
    with fx.SummaryWriter(log_dir=str(tmp_path)) as writer:
        for step in range(3):
            writer.add_scalar("loss", fx.tensor(0.5) * step, step)
        writer.add_scalar("grad", model(fx.ones(3)).sum(), 0)
        writer.add_scalar("half", fx.ones((), dtype=fx.bfloat16), global_step=0)
        writer.add_scalars("pair", {"a": fx.tensor(1.0), "b": 2.0}, 0)
        writer.add_histogram("weight", model.weight, 1)
        writer.add_image("picture", fx.ones((3, 4, 5)), 2)
        writer.add_text("note", "text", 3)
    found = events(tmp_path)
    assert [(s, v.simple_value) for s, v in found["loss"]] == [(0, 0), (1, 0.5), (2, 1)]
    assert found["half"][0][1].simple_value == 1
    assert found["grad"][0][1].simple_value == pytest.approx(model(fx.ones(3)).sum().item())
    weight = np.asarray(model.weight.detach())
    assert found["weight"][0][1].histo.num == 6
    assert found["weight"][0][1].histo.max == pytest.approx(weight.max())
    picture = found["picture"][0][1].image
    assert (picture.height, picture.width, picture.colorspace) == (4, 5, 3)
    assert "pair" in str(sorted(p.name for p in tmp_path.rglob("*"))) or "pair/a" in found


def test_summary_writer_is_a_class():
    writer = pytest.importorskip("tensorboardX").SummaryWriter
    assert issubclass(fx.SummaryWriter, writer)
    assert fx.SummaryWriter is fx.io.SummaryWriter
