"""How surprising each word of a text is: one row a word, and more to it than a text's perplexity."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from groc.compute import full_float32
from groc.errors import GrocError
from groc.model import LanguageModel
from groc.nn.dropout import evaluating
from groc.scoring import UNROLL, in_bits
from groc.text import Token, check_texts, straightened, token_lines
from groc.vocabulary import END, UNKNOWN, Vocabulary

SIDE_BY_SIDE = 64
"""Documents read at once."""
NEW_WORDS = 1000
"""Documents are read at once as long as they bring no more new words than this, all together."""
CELLS = 2**22
"""Log-probabilities in memory at once. Like the two above, it changes nothing but speed and memory."""
LOG_2 = math.log(2)


@dataclass(frozen=True, slots=True)
class WordScore:
    """What a model makes of one word of a text. The fields are the columns and keys of `groc score`."""

    word: str
    """As the model was given it: lower-cased if it reads lower-cased text, a term of several words joined."""
    surprisal: float
    """-log2 of the probability: in bits."""
    probability: float
    """Of the word behind all words of its document before it, among all words of the list."""
    rank: int
    """1 if no word of the list was more probable."""
    entropy: float
    """How undecided the model was before the word, in bits: the surprisal that it expected."""
    seen: bool
    """Whether training had the word."""
    in_lexicon: bool
    """Whether related words or a definition are known."""
    start: int
    """The word was read from the characters `start` to `end` of the text."""
    end: int


def score_texts(
    model: LanguageModel,
    texts: Sequence[str],
    *,
    tokenised: bool = False,
    ends: bool = False,
    unknown: bool = False,
    progress: Callable[[int], None] = lambda done: None,
) -> list[list[WordScore]]:
    """A row for each word of each text.

    A text is a stream of its own that begins after an `<eos>`; there is an `<eos>` between its lines, and the state is
    carried over them. Lines without a word do not count. The rows of `<eos>`, whose span is empty, are returned if
    `ends` is set.

    Words that are not in the model's list join it for their own text alone, so that no score depends on what other
    texts are scored with it; or, if `unknown` is set, they are read and scored as `<unk>`. Texts are `tokenised`
    already, with spaces between words, or raw.
    """
    check_texts(texts)
    documents = [Document(model, text, tokenised=tokenised, unknown=unknown) for text in texts]
    score_documents(model, documents, progress)
    return [list(document.rows(ends)) for document in documents]


class Document:
    """A text as a stream of words, and what a model made of them: columns, which take a fifth of the room of rows."""

    def __init__(self, model: LanguageModel, text: str, *, tokenised: bool = False, unknown: bool = False) -> None:
        index, codes, starts, ends = {END: 0}, array("i"), array("q"), array("q")
        lower, taught = model.compiler.lower, model.taught
        if not tokenised:
            text = straightened(text, model.trained.seen)
        for line in token_lines(text, tokenised=tokenised, lower=lower, terms=taught.spellings):
            for token in (*line, Token(END, line[-1].end, line[-1].end)):
                codes.append(index.setdefault(token.word, len(index)))
                starts.append(token.start)
                ends.append(token.end)
        self.words = list(index)
        """The distinct words, `<eos>` first."""
        self.codes, self.starts, self.ends = codes, starts, ends
        """Which of them each word of the text is, and where it stands."""
        self.columns = tuple(array("d", bytes(8 * len(codes))) for _ in range(3))
        """Log-probability, rank, and entropy in nats."""
        self.facts = [(word in model.trained.seen, model.in_lexicon(word)) for word in self.words]
        self.new = dict.fromkeys(word for word in self.words if word not in model.vocabulary)
        """The words that have to join the model's list."""
        self.read_as = self.words
        if unknown and self.new:
            if UNKNOWN not in model.vocabulary:
                raise GrocError(f"The model has no {UNKNOWN} to read new words as: score them as they are.")
            self.read_as = [UNKNOWN if word in self.new else word for word in self.words]
            self.new = {}

    def __len__(self) -> int:
        return len(self.codes)

    def ids(self, vocabulary: Vocabulary) -> npt.NDArray[np.int64]:
        """The stream as ids, with the `<eos>` before it."""
        ids = np.array([vocabulary.index[word] for word in self.read_as])
        return np.concatenate([ids[:1], ids[np.asarray(self.codes)]])

    def rows(self, ends: bool = False) -> Iterator[WordScore]:
        """One a word; those of `<eos>`, which stand for no character, only if `ends` is set."""
        for code, start, end, log_prob, rank, entropy in zip(
            self.codes, self.starts, self.ends, *self.columns, strict=True
        ):
            if ends or start < end:
                seen, in_lexicon = self.facts[code]
                yield WordScore(
                    word=self.words[code],
                    surprisal=in_bits(log_prob),
                    probability=math.exp(log_prob),
                    rank=int(rank),
                    entropy=entropy / LOG_2,
                    seen=seen,
                    in_lexicon=in_lexicon,
                    start=start,
                    end=end,
                )


def score_documents(
    model: LanguageModel, documents: Sequence[Document], progress: Callable[[int], None] = lambda done: None
) -> None:
    """Fill in the columns of the documents; `progress` is told how many words are done."""
    done = 0

    def advance(words: int) -> None:
        nonlocal done
        done += words
        progress(done)

    with evaluating(model):
        for group in _groups(model, [document for document in documents if len(document)]):
            _score_side_by_side(model, group, advance)


def _groups(model: LanguageModel, documents: list[Document]) -> Iterator[list[Document]]:
    """Documents to be read side by side, the longest first.

    Each has a word list of its own. In one product they can share a list, from which each is kept off the words of the
    others, if a new word changes nothing about the others: not in a closed model, where even odds are mixed in, nor if
    forms depend on the vocabulary.
    """
    sharing = model.is_open and not model.compiler.needs_vocabulary
    group: list[Document] = []
    new: dict[str, None] = {}
    for document in sorted(documents, key=lambda document: (not sharing and bool(document.new), -len(document))):
        together = new | document.new
        if group and (len(group) == SIDE_BY_SIDE or len(together) > (NEW_WORDS if sharing else 0)):
            yield group
            group, together = [], document.new
        group.append(document)
        new = together
    if group:
        yield group


@torch.inference_mode()
@full_float32()
def _score_side_by_side(model: LanguageModel, documents: list[Document], advance: Callable[[int], None]) -> None:
    """Fill in the columns of documents, none of which is longer than the one before it."""
    embeddings, known = model.embeddings, len(model.vocabulary)
    new = list(dict.fromkeys(word for document in documents for word in document.new))
    if new:
        model = model.copy()  # shares what was composed: the new words alone are composed now
        model.set_vocabulary(model.vocabulary.union(new))
        embeddings = model.embeddings
    foreign = torch.tensor([[word not in document.new for word in new] for document in documents])  # [B, new]
    foreign = foreign.to(model.device)
    rows_at_once = max(CELLS // len(model.vocabulary), 1)
    streams = [torch.from_numpy(document.ids(model.vocabulary)).to(model.device) for document in documents]
    state = model.prefix.start(len(streams))
    for start in range(0, len(documents[0]), UNROLL):
        window = [stream[start : start + UNROLL + 1] for stream in streams if len(stream) > start + 1]
        lengths = [len(stream) - 1 for stream in window]
        inputs = pad_sequence([stream[:-1] for stream in window])  # [T, B]; nothing is made of what pads them
        state = tuple((h[:, : len(window)].contiguous(), c[:, : len(window)].contiguous()) for h, c in state)
        prefixes, state = model.read(embeddings, inputs, state)
        # From here on document behind document: [N, d], [N], [N]
        rows = torch.cat([column[:length] for column, length in zip(prefixes.dropped.unbind(1), lengths, strict=True)])
        targets = torch.cat([stream[1:] for stream in window])
        owners = torch.arange(len(window)).repeat_interleave(torch.tensor(lengths)).to(model.device)
        columns = []
        for part in (slice(first, first + rows_at_once) for first in range(0, len(rows), rows_at_once)):
            log_probs = model.log_probs(embeddings, rows[part])
            if len(documents) > 1 and new:
                log_probs[:, known:].masked_fill_(foreign[owners[part]], -torch.inf)
                log_probs = log_probs.log_softmax(-1)
            columns.append(_columns(log_probs, targets[part]))
            advance(len(log_probs))
        for document, own in zip(documents, torch.split(torch.cat(columns, 1).cpu(), lengths, 1), strict=False):
            for column, values in zip(document.columns, own, strict=True):
                np.asarray(column)[start : start + UNROLL] = values


def _columns(log_probs: Tensor, targets: Tensor) -> Tensor:
    """Log-probability, rank and entropy. Shape: [N, V], [N] -> [3, N]"""
    chosen = log_probs.gather(1, targets[:, None])
    rank = 1 + (log_probs > chosen).sum(1)
    entropy = torch.special.entr(log_probs.exp()).sum(1)
    return torch.stack([chosen[:, 0].double(), rank.double(), entropy.double()])
