"""A trained model as a folder that is complete, readable and cannot run code.

config.json         format version, settings, facts about the training
model.safetensors   weights
vocabulary.tsv      word and training count
lexicon.jsonl       the lexicon entries used, so that no WordNet is needed (GroC)
README.md           model card
metrics.jsonl       one line an epoch
state.safetensors   what training needs to go on; may be deleted
run.lock            empty; locked while a process trains there

A packed one, made to be passed on, has weights of half precision and, in place of the lexicon's text, the training
words' vectors as they were composed (vectors.safetensors). The bundled small model is of this kind.
"""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from groc.building import USES_LEXICON, build, build_lexicon
from groc.config import Config, flatten, of_this_version
from groc.errors import GrocError
from groc.files import Writer, text_writer, write_atomically, write_together
from groc.lexicon import Chain, Empty, Glossary, Lexicon
from groc.model import LanguageModel
from groc.nn.input import AdaptiveInput, GroundedInput
from groc.report import to_json
from groc.rules import Selected
from groc.vocabulary import Vocabulary

FORMAT = 1
CONFIG, WEIGHTS, VOCABULARY = "config.json", "model.safetensors", "vocabulary.tsv"
LEXICON, CARD, METRICS, STATE = "lexicon.jsonl", "README.md", "metrics.jsonl", "state.safetensors"
VECTORS = "vectors.safetensors"
POCKET = Path(__file__).parent / "pocket"
"""The bundled small model."""


class Stored(Chain):
    """What a checkpoint keeps of its lexicon, and behind it the lexicon for new words."""


@dataclass(frozen=True)
class Checkpoint:
    """What a folder holds."""

    model: LanguageModel
    config: Config
    facts: dict[str, Any]
    warning: str = ""
    """What a user must know of the lexicon for new words, if it is not the one of training."""


def save(folder: Path, model: LanguageModel, config: Config, facts: dict[str, Any] | None = None) -> None:
    """Write a complete checkpoint. A failure leaves the one that was there as it was."""
    if isinstance(model.input, AdaptiveInput):  # a model that grew keeps the bands it was built with
        config = config.replace({"output.cutoffs": model.input.cutoffs})
    write_together(
        {
            **_vocabulary_files(folder, model),
            **_facts_files(folder, model, config, facts or {}),
            folder / WEIGHTS: _tensor_writer(model.state_dict(), {"format": str(FORMAT)}),
        }
    )


def save_start(folder: Path, model: LanguageModel, config: Config) -> None:
    """What is known before training: the words, what the lexicon says of them, the settings."""
    write_together({**_vocabulary_files(folder, model), **_facts_files(folder, model, config, {})})


def save_packed(folder: Path, model: LanguageModel, config: Config, facts: dict[str, Any], words: int) -> None:
    """Write a checkpoint of an open model that is small and holds nothing of its lexicon. Its list is the first so many
    words of the training vocabulary, the most frequent ones; the others are composed where they are met."""
    if not model.is_open or model.compiler.needs_vocabulary or model.vocabulary is not model.trained:
        raise GrocError("Only an open model of the default rules, with the words of its training, can be packed.")
    listed = model.trained.words[:words]
    vectors = {
        "input": model.embeddings.rows(torch.arange(len(listed), device=model.device)).half(),
        "grounded": torch.tensor([model.in_lexicon(word) for word in listed]),
    }
    weights = {name: _halved(tensor) for name, tensor in model.state_dict().items()}
    write_together(
        {
            folder / VOCABULARY: text_writer(model.trained.to_text()),
            **_facts_files(folder, model, config, facts),
            folder / WEIGHTS: _tensor_writer(weights, {"format": str(FORMAT)}),
            folder / VECTORS: _tensor_writer(vectors, {"format": str(FORMAT)}),
        }
    )


def _halved(tensor: Tensor) -> Tensor:
    return tensor.half() if tensor.is_floating_point() else tensor


def save_weights(folder: Path, weights: dict[str, Tensor]) -> None:
    write_tensors(folder / WEIGHTS, weights, {"format": str(FORMAT)})


def save_facts(folder: Path, model: LanguageModel, config: Config, facts: dict[str, Any]) -> None:
    """What is known after training."""
    write_together(_facts_files(folder, model, config, facts))


def _vocabulary_files(folder: Path, model: LanguageModel) -> dict[Path, Writer]:
    files = {folder / VOCABULARY: text_writer(model.trained.to_text())}
    if (entries := used_entries(model)) is not None:
        files[folder / LEXICON] = text_writer(entries.to_text())
    return files


def _facts_files(folder: Path, model: LanguageModel, config: Config, facts: dict[str, Any]) -> dict[Path, Writer]:
    document = {
        "format": FORMAT,
        "kind": "groc",
        "words": len(model.trained),
        "lexicon": _lexicon_for_new_words(model).fingerprint,
        "config": config.to_dict(),
        "facts": facts,
    }
    return {
        folder / CONFIG: text_writer(to_json(document, indent=2) + "\n"),
        folder / CARD: text_writer(model_card(model, config, facts)),
    }


def _lexicon_for_new_words(model: LanguageModel) -> Lexicon:
    lexicon = model.compiler.lexicon
    return lexicon.lexicons[-1] if isinstance(lexicon, Stored) else lexicon


def used_entries(model: LanguageModel) -> Glossary | None:
    """What the lexicon said about the vocabulary's words, as a glossary; None for models that do not ask it.

    Words of which it said nothing are there too, so that no other lexicon is asked for them later.
    """
    if not isinstance(model.input, GroundedInput):
        return None
    selected = {word: model.teller.select(word) for word in model.trained}
    model.warn_of_loss(word for word, forms in selected.items() if forms == Selected())
    return Glossary({word: (" ".join(forms.definition), forms.relations) for word, forms in selected.items()})


def load(
    folder: Path | str | None = None, device: str | torch.device = "cpu", lexicon: Lexicon | None = None
) -> Checkpoint:
    """Read a checkpoint, or the bundled small model. New words are looked up in `lexicon`, or else in what the
    settings name, if it is there."""
    folder = Path(POCKET if folder is None else folder)
    config, document = _read_document(folder)
    grounded = config.output.kind in USES_LEXICON
    packed = grounded and (folder / VECTORS).is_file()
    for name in (WEIGHTS, VOCABULARY, *([LEXICON] if grounded and not packed else [])):
        if not (folder / name).is_file():
            raise GrocError(f"{folder} has no {name}: training has not saved any yet, or the copy is incomplete.")
    vocabulary = Vocabulary.read(folder / VOCABULARY)
    stored = Glossary.read(folder / LEXICON, exact=True) if grounded and not packed else None
    vectors = read_weights(folder / VECTORS) if packed else None
    for name, size in (
        (VOCABULARY, len(vocabulary)),
        (LEXICON, len(stored) if stored is not None else len(vocabulary)),
    ):
        if size != document.get("words"):
            raise GrocError(
                f"{folder / name} has {size} words where {document.get('words')} belong: it is damaged or from another "
                "model, so copy the folder again."
            )
    weights = read_weights(folder / WEIGHTS)
    warning = ""
    if grounded and lexicon is None:
        lexicon, warning = _lexicon_of_training(config, None if packed else document.get("lexicon"))
    if stored is not None and lexicon is not None:
        lexicon = Stored(stored, lexicon)
    with torch.inference_mode(False):  # weights that can be trained, whoever loads them
        model = _with_weights(folder, config, vocabulary, lexicon, weights, vectors)
        try:
            model.to(device)
        except (RuntimeError, AssertionError):
            raise GrocError(f"The device {device!r} is not there: use 'cpu', or a GPU that this machine has.") from None
    return Checkpoint(model.eval(), config, document["facts"], warning)


def _with_weights(
    folder: Path,
    config: Config,
    vocabulary: Vocabulary,
    lexicon: Lexicon | None,
    weights: dict[str, Tensor],
    vectors: dict[str, Tensor] | None,
) -> LanguageModel:
    """The model with its weights, and, if it is packed, with the vectors of its words."""
    random_state = torch.get_rng_state()  # loading must not disturb anybody's random numbers
    model = build(config, vocabulary, lexicon, calibrate=False)
    torch.set_rng_state(random_state)
    try:
        model.load_state_dict(weights)
        if vectors is not None:
            counts = vocabulary.counts[: len(vectors["input"])].tolist()
            model.set_vocabulary(Vocabulary(vocabulary.words[: len(counts)], counts))
            model.eval().keep(vectors["input"].float(), vectors["grounded"].tolist())
    except (RuntimeError, KeyError, ValueError):
        raise GrocError(
            f"The weights in {folder} do not fit its config.json: the folder mixes files of different models."
        ) from None
    return model


def _lexicon_of_training(config: Config, fingerprint: str | None) -> tuple[Lexicon, str]:
    """The lexicon that the settings name, for words that training did not have, and what is wrong with it."""
    try:
        lexicon = build_lexicon(config)
    except GrocError:
        if config.forms.glossary:  # its terms of training are stored; the lexicon behind it may be here
            lexicon, warning = _lexicon_of_training(config.replace({"forms.glossary": ""}), None)
            missing = (
                f"The glossary of training ({config.forms.glossary}) is not here: only terms of the text are known."
            )
            return lexicon, f"{missing} {warning}".strip()
        return Empty(), (
            f"The lexicon of training ({config.forms.lexicon}) is not here: "
            "words outside the list that the model came with are known by their characters alone."
            + (" Get it with 'groc lexicon install'." if config.forms.lexicon == "wordnet" else "")
        )
    if fingerprint is None or lexicon.fingerprint == fingerprint:
        return lexicon, ""
    return lexicon, (
        f"The lexicon of training ({config.forms.lexicon}) has changed since: "
        "what it says of words that training did not have may differ."
    )


def load_config(folder: Path) -> Config:
    return _read_document(folder)[0]


def load_facts(folder: Path) -> dict[str, Any]:
    """What is known after training; empty before its end."""
    facts: dict[str, Any] = _read_document(folder)[1]["facts"]
    return facts


def _read_document(folder: Path) -> tuple[Config, dict[str, Any]]:
    try:
        document = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        if document["kind"] != "groc":
            raise ValueError
        version = int(document["format"])
    except PermissionError:
        raise  # the command line says so
    except (OSError, ValueError, KeyError, TypeError):
        raise GrocError(
            f"{folder} is not a GroC checkpoint (no readable {CONFIG}): give the folder that 'groc train' wrote."
        ) from None
    if version > FORMAT:
        raise GrocError(
            f"{folder} has checkpoint format {version}, and this version of GroC reads up to {FORMAT}: upgrade GroC."
        )
    try:
        document["config"]["surface"].setdefault("hashes", 1)  # what runs had before there was a choice
        settings, gone = of_this_version(flatten(document["config"]))
        if not gone:
            return Config().replace(settings), {**document, "facts": dict(document["facts"])}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise GrocError(f"{folder / CONFIG} is damaged: restore it from a copy.") from None
    raise GrocError(
        f"{folder} was made by another version of GroC, with settings that this one lacks: {', '.join(gone)}."
    )


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    write_atomically(path, _tensor_writer(tensors, metadata))


def _tensor_writer(tensors: dict[str, Tensor], metadata: dict[str, str]) -> Writer:
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}

    def write(temporary: Path) -> None:
        try:
            save_file(contiguous, temporary, metadata)
        except SafetensorError as error:  # the library wraps the system's error: give it back its number
            number = re.search(r"os error (\d+)", str(error))
            raise OSError(int(number[1]) if number else 0, str(error)) from None

    return write


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    if path.is_file():
        path.open("rb").close()  # where that is not allowed, this says so, and the library would not
    try:
        with safe_open(path, "pt") as handle:
            metadata = handle.metadata() or {}
        return load_file(path), metadata
    except (OSError, SafetensorError, struct.error, ValueError):
        anew = (
            f"delete {path.parent} and start the run anew"
            if path.name == STATE
            else f"train on with --resume if the run has a {STATE}"
        )
        raise GrocError(f"{path} is damaged or not a safetensors file: copy it again, or {anew}.") from None


def read_weights(path: Path) -> dict[str, Tensor]:
    """Of a model or its words, which must be numbers."""
    tensors = read_tensors(path)[0]
    if not all(tensor.isfinite().all() for tensor in tensors.values()):
        raise GrocError(
            f"{path} has numbers that are not finite, so the model cannot be used: copy it or train it again."
        )
    return tensors


def model_card(model: LanguageModel, config: Config, facts: dict[str, Any]) -> str:
    kind = "open: it takes any word list at run time" if model.is_open else "closed: its words are fixed by training"
    lines = [
        f"# {config.name}",
        "",
        f"A word-level language model ({config.output.kind} output embedding; {kind}), made with GroC.",
        "",
        f"- {model.parameter_count():,} parameters, {model.vocabulary_parameter_count():,} of them for single words",
        f"- training vocabulary: {len(model.trained):,} words",
        f"- trained on: {config.corpus or 'a text that was not named'}",
        f"- forms: {config.forms.rules} rules, lexicon {config.forms.lexicon}"
        + (f", without {' and '.join(config.forms.without)}" if config.forms.without else ""),
        *(
            f"- {name.replace('_', ' ')}: {f'{value:,.2f}' if isinstance(value, float) else f'{value:,}'}"
            for name, value in facts.items()
            if isinstance(value, int | float) and not name.endswith("parameters")  # those stand above
        ),
        "",
        "```python",
        "import groc",
        "",
        'model = groc.load("...")  # this folder',
        "```",
        "",
        "The model reproduces what its training text says, its errors and prejudices included.",
    ]
    return "\n".join(lines) + "\n"
