"""What the routes do: each turns a request into one call of what Python offers, made in a worker thread."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from dataclasses import asdict

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from groc.errors import GrocError
from groc.explain import explain
from groc.generate import detokenise, generate
from groc.lexicon.terms import Term
from groc.model import LanguageModel
from groc.playground import schemas
from groc.playground.answers import NDJSON, document, json_answer, json_line
from groc.playground.glossaries import Glossaries, Taught
from groc.playground.limits import Limits, check_words
from groc.playground.workers import Check, Workers
from groc.suggest import next_words
from groc.surprisal import WordScore, score_texts

ROWS = 500
"""Rows of a streamed answer that are sent together."""
NO_WORD = "There is no word in the text: send some."


class Service:
    """The models by the names of their runs, the first of which is the default, and what clients taught them."""

    def __init__(self, models: Mapping[str, LanguageModel], warnings: Mapping[str, str], limits: Limits) -> None:
        self.models = models
        self.warnings = warnings
        self.limits = limits
        self.glossaries = Glossaries(models, limits)
        self.workers = Workers(limits)
        for model in models.values():
            _ = model.embeddings  # composed now, not by the first who asks

    def choose(self, body: schemas.ModelRequest) -> tuple[str, LanguageModel]:
        """The run that a request names, and its model with the words of the glossary it names."""
        run = next(iter(self.models)) if body.run is None else body.run
        if run not in self.models:
            raise HTTPException(404, f"There is no run {run!r}: choose from {', '.join(self.models)}.")
        models = self.models if body.glossary is None else self.glossaries.get(body.glossary).models
        return run, models[run]

    # --- models ---------------------------------------------------------------------------------------------------

    async def runs(self) -> schemas.Runs:
        """The runs that are served; the first is the default."""
        return schemas.Runs(
            runs=[
                schemas.RunModel(
                    name=name,
                    open=model.is_open,
                    words=len(model.vocabulary),
                    parameters=model.parameter_count(),
                    lower=model.compiler.lower,
                    warning=self.warnings.get(name, ""),
                )
                for name, model in self.models.items()
            ]
        )

    async def score(self, body: schemas.ScoreRequest, request: Request) -> Response:
        """Surprisal and more of each word of a text, or of several. With `Accept: application/x-ndjson` one row a line,
        each with the number of its document; if the time is up before the end, the last line has an `error`."""
        run, model = self.choose(body)
        texts = body.documents

        def score(texts: list[str], check: Check) -> list[list[WordScore]]:
            return score_texts(model, texts, tokenised=body.tokenised, ends=body.ends, progress=check)

        def whole(check: Check) -> Response:
            check_words(texts, self.limits.words, body.tokenised)
            documents = score(texts, check)
            if not any(documents):
                raise GrocError(NO_WORD)
            return json_answer({"run": run, "documents": [document(words) for words in documents]})

        def lines(check: Check) -> Iterator[bytes]:
            check_words(texts, self.limits.words, body.tokenised)
            any_word = False
            for number, text in enumerate(texts):
                rows = [json_line({"document": number, **asdict(row)}) for row in score([text], check)[0]]
                any_word = any_word or bool(rows)
                for start in range(0, len(rows), ROWS):
                    yield b"".join(rows[start : start + ROWS])
            if not any_word:
                raise GrocError(NO_WORD)

        if NDJSON in request.headers.get("accept", ""):
            return await self.streamed(lines)
        return await self.workers.read(whole)

    async def next(self, body: schemas.NextRequest) -> Response:
        """The words that may come next."""
        run, model = self.choose(body)

        def work(check: Check) -> Response:  # noqa: ARG001
            check_words([body.text], self.limits.words)
            found = next_words(model, body.text, body.limit, words=body.words, unknown=body.unknown)
            return json_answer({"run": run, "suggestions": [asdict(suggestion) for suggestion in found]})

        return await self.workers.read(work)

    async def generate(self, body: schemas.GenerateRequest) -> Response:
        """Go on with a text: a line a word, then one with all of them as a text; or with an `error`, if time is up."""
        _, model = self.choose(body)
        options = body.model_dump(include={"length", "seed", "temperature", "top_k", "top_p", "unknown"})

        def lines(check: Check) -> Iterator[bytes]:  # noqa: ARG001
            check_words([body.text], self.limits.words)
            words = []
            for drawn in generate(model, body.text, **options):
                words.append(drawn.word)
                yield json_line(asdict(drawn))
            yield json_line({"text": detokenise(words), "done": True})

        return await self.streamed(lines)

    async def explain(self, body: schemas.ExplainRequest) -> Response:
        """What the model knows of a word, and what each form contributes."""
        run, model = self.choose(body)

        def work(check: Check) -> Response:  # noqa: ARG001
            check_words([body.context or ""], self.limits.words)
            return json_answer({"run": run, **asdict(explain(model, body.word, context=body.context))})

        return await self.workers.read(work)

    async def streamed(self, lines: Callable[[Check], Iterator[bytes]]) -> Response:
        stream = self.workers.stream(lines)
        first = await anext(stream, b"")  # before the answer begins: what is wrong is found here, and gets its status
        return Lines(first, stream)

    # --- glossaries -----------------------------------------------------------------------------------------------

    async def create_glossary(self, body: schemas.GlossaryRequest) -> schemas.GlossaryAnswer:
        """Keep a glossary for a while. Its id is the key to it: who knows it may use and change the glossary."""
        key, taught = await self.workers.write(lambda: self.glossaries.create(_terms(body)))
        return schemas.GlossaryAnswer(id=key, terms=len(taught.terms))

    async def read_glossary(self, key: str) -> schemas.GlossaryContent:
        terms = [
            schemas.TermModel(word=term.word, definition=term.definition, related=list(term.related))
            for term in self.glossaries.get(key).terms.values()
        ]
        return schemas.GlossaryContent(id=key, terms=terms)

    async def replace_glossary(self, key: str, body: schemas.GlossaryRequest) -> schemas.GlossaryAnswer:
        return await self.change(key, lambda: self.glossaries.replace(key, _terms(body)))

    async def delete_glossary(self, key: str) -> None:
        self.glossaries.delete(key)

    async def add_terms(self, key: str, body: schemas.GlossaryRequest) -> schemas.GlossaryAnswer:
        """Add terms; a term that is there takes its new meaning."""
        return await self.change(key, lambda: self.glossaries.add(key, _terms(body)))

    async def remove_term(self, key: str, word: str) -> schemas.GlossaryAnswer:
        return await self.change(key, lambda: self.glossaries.remove(key, word))

    async def change(self, key: str, work: Callable[[], Taught]) -> schemas.GlossaryAnswer:
        return schemas.GlossaryAnswer(id=key, terms=len((await self.workers.write(work)).terms))


class Lines(StreamingResponse):
    """Lines of JSON, of which the first is there already."""

    def __init__(self, first: bytes, rest: AsyncGenerator[bytes]) -> None:
        async def lines() -> AsyncIterator[bytes]:
            yield first
            async for line in rest:
                yield line

        super().__init__(lines(), media_type=NDJSON)
        self.rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self.rest.aclose()  # a client that hung up leaves it unfinished


def _terms(body: schemas.GlossaryRequest) -> list[Term]:
    return [Term(term.word, term.definition, tuple(term.related)) for term in body.terms]
