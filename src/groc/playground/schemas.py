"""What requests and answers look like. The OpenAPI document is made of these classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from groc.explain import Explanation
from groc.playground import limits
from groc.suggest import Suggestion
from groc.surprisal import WordScore

Text = Annotated[str, Field(max_length=limits.TEXT)]
Name = Annotated[str, Field(max_length=limits.WORD)]
Word = Annotated[str, Field(min_length=1, max_length=limits.WORD)]


def _integral(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


Integer = Annotated[int, BeforeValidator(_integral)]
"""In JSON, 5.0 is one too."""
Seed = Annotated[int, Field(ge=0, lt=2**63), BeforeValidator(_integral)]


class Request(BaseModel):
    """Nothing is guessed: unknown fields and wrong types are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class ModelRequest(Request):
    run: Name | None = Field(None, description="The name of a run; the first of /api/runs if there is none.")
    glossary: Name | None = Field(None, description="The id of a glossary, whose terms the model then knows.")


class ScoringRequest(ModelRequest):
    tokenised: bool = Field(False, description="Words are separated by white space: do not split them further.")
    ends: bool = Field(False, description="Give the ends of lines, <eos>, a row too.")


class ScoreText(ScoringRequest):
    text: Text

    @property
    def documents(self) -> list[str]:
        return [self.text]


class ScoreTexts(ScoringRequest):
    texts: list[Text] = Field(min_length=1, max_length=limits.TEXTS, description="Each is read on its own.")

    @property
    def documents(self) -> list[str]:
        return self.texts


ONE_TEXT, SEVERAL_TEXTS = "one text", "several texts"


def _one_or_several(body: Any) -> str:
    return SEVERAL_TEXTS if isinstance(body, dict) and "texts" in body else ONE_TEXT


ScoreRequest = Annotated[
    Annotated[ScoreText, Tag(ONE_TEXT)] | Annotated[ScoreTexts, Tag(SEVERAL_TEXTS)], Discriminator(_one_or_several)
]


class NextRequest(ModelRequest):
    text: Text
    limit: Integer = Field(10, ge=1, le=limits.SUGGESTIONS)
    words: list[Word] | None = Field(
        None, min_length=1, max_length=limits.CANDIDATES, description="Choose among these alone; new words are welcome."
    )
    unknown: bool = Field(False, description="Whether <unk> may be suggested.")


class GenerateRequest(ModelRequest):
    text: Text = ""
    length: Integer = Field(50, ge=1, le=limits.LENGTH)
    seed: Seed | None = Field(None, description="The same seed gives the same words.")
    temperature: float = Field(1.0, ge=0, le=100)
    top_k: Integer = Field(0, ge=0, le=2**31, description="0 keeps all words.")
    top_p: float = Field(1.0, gt=0, le=1)
    unknown: bool = Field(False, description="Whether <unk> may be drawn.")


class ExplainRequest(ModelRequest):
    word: Word
    context: Text | None = None


class TermModel(Request):
    word: Word
    definition: str = Field("", max_length=limits.DEFINITION)
    related: list[Word] = Field([], max_length=limits.RELATED)


class GlossaryRequest(Request):
    terms: list[TermModel] = Field(max_length=limits.TERMS)


# --- answers ----------------------------------------------------------------------------------------------------------


class Answer(BaseModel):
    """The document takes the fields' docstrings, those of the library's own classes among them."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class Error(Answer):
    error: str
    """One sentence that says what is wrong and what to do."""


class Health(Answer):
    status: str


class Version(Answer):
    groc: str
    api: str


class RunModel(Answer):
    name: str
    open: bool
    """Whether the model takes any word list."""
    words: int
    parameters: int
    lower: bool
    """Whether the model reads lower-cased text."""
    warning: str


class Runs(Answer):
    runs: list[RunModel]


class Document(Answer):
    words: list[WordScore]
    bits: float
    """The sum of the words' surprisal."""
    perplexity: float | None


class ScoreAnswer(Answer):
    run: str
    documents: list[Document]


class NextAnswer(Answer):
    run: str
    suggestions: list[Suggestion]


@dataclass(frozen=True, kw_only=True)
class ExplainAnswer(Explanation):
    """All there is to say of a word, by this run."""

    __pydantic_config__ = Answer.model_config
    run: str


class GlossaryAnswer(Answer):
    id: str
    terms: int


class GlossaryContent(Answer):
    id: str
    terms: list[TermModel]
