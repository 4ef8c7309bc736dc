"""A trained model goes on to a new domain: the words of its text join, and a few epochs are trained on it."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from groc import checkpoint
from groc.adaptation.online import Online
from groc.adaptation.reading import score_texts
from groc.compute import Group, choose
from groc.config import Config
from groc.corpus import Corpus, Text
from groc.errors import GrocError
from groc.model import LanguageModel
from groc.nn.input import AdaptiveInput
from groc.progress import Progress
from groc.report import perplexity
from groc.running import check_start, train_model
from groc.text_statistics import texts_of
from groc.training import Trainer
from groc.vocabulary import Vocabulary

EPOCHS = 3
"""How often the new text is read where nothing else is said."""
RATE = 0.5
"""The learning rate, as a share of the one that the model was trained with: what it knows should not be washed away."""
WARMUP = 50
"""Steps over which the rate rises, at most: a new domain may have few in all."""
POINTS = 4
"""The valid text is read so many times an epoch, for a curve that shows how few updates a domain takes."""
MAY_CHANGE = ("name", "training.", "compute.")
"""The settings that are not built into the trained weights."""


class AdaptingTrainer(Trainer):
    """Leaves rows of the learning curve inside an epoch, too; their `epoch` is no whole number."""

    def step(self) -> None:
        length, before = len(self.streams) - 1, self.position.at
        super().step()
        at = self.position.at
        if at < length and before * POINTS // length < at * POINTS // length:
            train_loss = torch.cat(self.group.gather(self._mean_losses())).mean().item()
            valid_loss = self._valid_loss()
            if self.group.leads:
                self._append_metrics(
                    {
                        "epoch": self.position.epoch + at / length,
                        "step": self.position.step,
                        "train_loss": train_loss,
                        "train_perplexity": perplexity(train_loss),
                        "valid_loss": valid_loss,
                        "valid_perplexity": perplexity(valid_loss),
                        "valid_streams": self.options.valid_streams,
                    }
                )


def adapted_settings(source: Config, corpus: str, epochs: int, changes: Mapping[str, str]) -> Config:
    """The settings of a source run, for a few more epochs on another corpus at a lower rate."""
    for key in changes:
        if not key.startswith(MAY_CHANGE):
            raise GrocError(
                f"{key} is built into the trained model: only settings that begin with training. or compute. can be "
                "changed for its adaptation."
            )
    return source.replace(
        {
            "name": f"{source.name} on {Path(corpus).name}",
            "corpus": corpus,
            "training.epochs": epochs,
            "training.rate": RATE * source.training.rate,
            "training.warmup": min(source.training.warmup, WARMUP),
            **changes,
        }
    )


def adapt(
    run: Path, config: Config, folder: Path, resume: bool, group: Group, source: str | None = None, quiet: bool = False
) -> dict[str, Any]:
    """Adapt the model of a run by these settings in a new run's folder. The run itself stays as it is.

    Returns the figures of the new run, with those of the texts before and after (see `compare`): the valid and the test
    text of the new domain, and the valid text of the corpus `source`, if there is one.
    """
    policy = choose(config.compute, group)
    loaded = checkpoint.load(run, policy.device)
    if loaded.warning and group.leads and not quiet:
        print(loaded.warning, file=sys.stderr)
    if isinstance(loaded.model.input, AdaptiveInput):  # new words join its last band
        config = config.replace({"output.cutoffs": loaded.model.input.cutoffs})
    check_start(config, folder, resume, group)
    corpus = Corpus(config.corpus)
    torch.manual_seed(config.training.seed)
    learn_words(loaded.model, corpus.text("train"))
    if resume:
        check_source(run, loaded.model, config, folder)
    texts = {f"target {split}": text for split, text in texts_of(corpus, ("valid", "test")).items()}
    if source is not None:
        texts["source valid"] = Corpus(source).text("valid")

    def measure(adapted: LanguageModel) -> dict[str, Any]:
        original = checkpoint.load(run, policy.device).model
        return {"adapted_from": run.resolve().name, "texts": compare(original, adapted, texts, quiet)}

    return train_model(
        loaded.model,
        config,
        folder,
        policy,
        group,
        resume=resume,
        quiet=quiet,
        trainer_class=AdaptingTrainer,
        sources={"model to adapt": hashlib.sha256((run / checkpoint.WEIGHTS).read_bytes()).hexdigest()},
        measure=measure,
    )


def check_source(run: Path, model: LanguageModel, config: Config, folder: Path) -> None:
    """Whether the run in a folder was adapted from this one, whose model knows the new words by now.

    A run that is not finished does not say so, but has the words of both texts with the counts of both.
    """
    facts = checkpoint.load_facts(folder)
    other = facts and facts.get("adapted_from") != run.resolve().name
    if other or Vocabulary.read(folder / checkpoint.VOCABULARY).to_text() != model.trained.to_text():
        raise GrocError(
            f"The run in {folder} was not adapted from {run} to this {config.corpus}: go on with those that it was "
            "started with, or choose another --out."
        )


def learn_words(model: LanguageModel, text: Text) -> None:
    """Let the words of a training text join those that the model was trained on; counts are of both texts together."""
    counts = dict(zip(model.trained.words, model.trained.counts.tolist(), strict=True))
    for word in Vocabulary.from_counts(text.type_counts):  # the most frequent of the new words first
        counts[word] = counts.get(word, 0) + text.type_counts[word]
    vocabulary = Vocabulary(counts, counts.values())
    model.set_vocabulary(vocabulary, grow=True)
    model.trained = vocabulary
    model.remember_strings()


def compare(
    original: LanguageModel, adapted: LanguageModel, texts: Mapping[str, Text], quiet: bool = False
) -> list[dict[str, Any]]:
    """What both models make of texts, all in the same vocabulary: all words that the adapted model was trained on, and
    the text's. New words are those that the original was not trained on."""
    losses = {}
    for when, model in (("before", original), ("after", adapted)):
        progress = Progress(f"reading texts, {when}", max(map(len, texts.values())), shown=not quiet)
        found = score_texts(model, list(texts.values()), [{"": Online()}] * len(texts), adapted.trained, progress)
        losses[when] = [-scores[""].log_prob for _, scores in found]
        progress.close()
    rows = []
    for number, (name, text) in enumerate(texts.items()):
        new = np.array([word not in original.trained.seen for word in text.types])[text.codes]
        row: dict[str, Any] = {"text": name, "tokens": len(text), "new_share": float(new.mean())}
        for when, of_texts in losses.items():
            loss = of_texts[number]
            row[when] = {
                "perplexity": perplexity(loss.mean()),
                "loss": float(loss.mean()),
                "new_words_loss": float(loss[new].mean()) if new.any() else None,
            }
        rows.append(row)
    return rows
