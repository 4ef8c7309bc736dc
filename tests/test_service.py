"""The HTTP service: it says what Python says, it refuses with a sentence, it stays up and stops politely."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from conftest import tiny_config, tiny_model
from hypothesis import given
from hypothesis import strategies as st
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope, Send

from groc import checkpoint
from groc.cli import main
from groc.commands.serve import listen, open_runs
from groc.generate import generate
from groc.lexicon import Glossary
from groc.lexicon.terms import Term
from groc.model import LanguageModel
from groc.playground import limits, service
from groc.playground.app import create_app
from groc.playground.glossaries import Glossaries
from groc.playground.guard import HEADERS, Guard
from groc.playground.limits import DEFAULT, Limits
from groc.playground.workers import Check, Workers
from groc.surprisal import score_texts
from groc.vocabulary import Vocabulary

TEXT = "the dog sleeps on the old ship\nand a zebra runs"
TOKEN = "a-token"


@contextmanager
def served(
    models: dict[str, LanguageModel], limits: Limits = DEFAULT, token: str | None = None
) -> Iterator[httpx.Client]:
    """A client of the app behind a real socket."""
    with closing(listen("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(create_app(models, token, limits), log_level="critical"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=60) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def models(vocabulary: Vocabulary, glossary: Glossary) -> dict[str, LanguageModel]:
    usual = {"surface.longest_ngram": 6}  # longer than many words
    return {kind: tiny_model(kind, "ngrams", vocabulary, glossary, usual) for kind in ("groc", "tied")}


@pytest.fixture(scope="module")
def client(models: dict[str, LanguageModel]) -> Iterator[httpx.Client]:
    with served(models) as client:
        yield client


@pytest.fixture(scope="module")
def run_folder(models: dict[str, LanguageModel], glossary: Glossary, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "small"
    glossary.write(folder.parent / "lexicon.jsonl")
    changes = {"surface.longest_ngram": 6, "forms.lexicon": str(folder.parent / "lexicon.jsonl")}
    checkpoint.save(folder, models["groc"], tiny_config("groc", "ngrams", changes))
    return folder


def lines_of(response: httpx.Response) -> list[dict[str, Any]]:
    return [json.loads(line) for line in response.text.splitlines()]


def make_glossary(client: httpx.Client, **definitions: str) -> str:
    terms = [{"word": word, "definition": definition} for word, definition in definitions.items()]
    answer = client.post("/api/glossaries", json={"terms": terms})
    assert answer.status_code == 201, answer.text
    assert answer.json()["terms"] == len(terms)
    return answer.json()["id"]


# --- the same as Python -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", ["groc", "tied"])
@pytest.mark.parametrize("ends", [False, True])
def test_scores_are_those_of_python(
    client: httpx.Client, models: dict[str, LanguageModel], run: str, ends: bool
) -> None:
    texts = [TEXT, "", "a boat in the sea"]
    answer = client.post("/api/score", json={"texts": texts, "run": run, "ends": ends}).json()
    expected = models[run].score(texts, ends=ends)
    assert answer["run"] == run
    assert [document["words"] for document in answer["documents"]] == [list(map(asdict, rows)) for rows in expected]
    bits = [sum(row.surprisal for row in rows) for rows in expected]
    assert [document["bits"] for document in answer["documents"]] == bits
    first, empty, _ = answer["documents"]
    assert first["perplexity"] == pytest.approx(2 ** (bits[0] / len(expected[0])))
    assert empty["perplexity"] is None


def test_scores_are_those_of_the_command_line(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    assert main(["score", str(run_folder), str(tmp_path / "text.txt"), "--format", "jsonl"]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    model = checkpoint.load(run_folder).model
    with served({"small": model}) as client:
        words = client.post("/api/score", json={"text": TEXT}).json()["documents"][0]["words"]
    assert [{key: row[key] for key in words[0]} for row in printed] == words
    assert words == list(map(asdict, model.score(TEXT)))


def test_a_stream_of_scores_has_the_same_rows(client: httpx.Client, models: dict[str, LanguageModel]) -> None:
    texts = [TEXT, "a boat in the sea"]
    answer = client.post("/api/score", json={"texts": texts}, headers={"Accept": "application/x-ndjson"})
    assert answer.headers["content-type"] == "application/x-ndjson"
    expected = [
        {"document": number, **asdict(row)} for number, text in enumerate(texts) for row in models["groc"].score(text)
    ]
    assert lines_of(answer) == expected


@pytest.mark.parametrize("run", ["groc", "tied"])
@pytest.mark.parametrize("taught", [False, True])
def test_probabilities_over_the_served_words_sum_to_one(
    client: httpx.Client, models: dict[str, LanguageModel], run: str, taught: bool
) -> None:
    body = {"text": "the old", "run": run, "limit": limits.SUGGESTIONS, "unknown": True}
    if taught:
        body["glossary"] = make_glossary(client, zebra="a striped animal", tokamak="a ring of hot plasma")
    suggestions = client.post("/api/next", json=body).json()["suggestions"]
    assert len(suggestions) == len(models[run].vocabulary) + 2 * taught
    assert sum(suggestion["probability"] for suggestion in suggestions) == pytest.approx(1, abs=1e-5)


def test_next_words_are_those_of_python(client: httpx.Client, models: dict[str, LanguageModel]) -> None:
    answer = client.post("/api/next", json={"text": TEXT, "limit": 5, "words": ["dog", "zebra", "sea"]}).json()
    expected = models["groc"].next(TEXT, 5, words=["dog", "zebra", "sea"])
    assert answer["suggestions"] == json.loads(json.dumps(list(map(asdict, expected))))


def test_generated_text_is_that_of_python(client: httpx.Client, models: dict[str, LanguageModel]) -> None:
    options = {"length": 20, "seed": 3, "temperature": 0.7, "top_k": 9, "top_p": 0.9}
    *drawn, last = lines_of(client.post("/api/generate", json={"text": "the", **options}))
    assert drawn == list(map(asdict, models["groc"].generate("the", **options)))
    assert last["done"] is True
    assert all(word["word"] in last["text"] for word in drawn if word["word"] != "<eos>")


@pytest.mark.parametrize("context", [None, "the old"])
def test_explanations_are_those_of_python(
    client: httpx.Client, models: dict[str, LanguageModel], context: str | None
) -> None:
    answer = client.post("/api/explain", json={"word": "zebra", "context": context}).json()
    expected = asdict(models["groc"].explain("zebra", context=context))
    assert answer == {"run": "groc", **json.loads(json.dumps(expected))}


def test_answers_have_the_fields_that_are_documented(client: httpx.Client) -> None:
    documented = client.get("/openapi.json").json()["components"]["schemas"]
    explained = client.post("/api/explain", json={"word": "dog", "context": "the"}).json()
    scored = client.post("/api/score", json={"text": TEXT}).json()
    suggested = client.post("/api/next", json={"text": TEXT}).json()
    for name, answer in {
        "ExplainAnswer": explained,
        "Part": explained["parts"][0],
        "ScoreAnswer": scored,
        "Document": scored["documents"][0],
        "WordScore": scored["documents"][0]["words"][0],
        "NextAnswer": suggested,
        "Suggestion": suggested["suggestions"][0],
    }.items():
        assert answer.keys() == documented[name]["properties"].keys() == set(documented[name]["required"])
    assert "bits" in documented["WordScore"]["properties"]["surprisal"]["description"]


def test_runs_are_described(client: httpx.Client, models: dict[str, LanguageModel]) -> None:
    first, second = client.get("/api/runs").json()["runs"]
    assert (first["name"], first["open"], second["name"], second["open"]) == ("groc", True, "tied", False)
    assert first["parameters"] == models["groc"].parameter_count()
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/version").json()["api"] == "1"


# --- glossaries -------------------------------------------------------------------------------------------------------


def test_a_glossary_lives(client: httpx.Client, models: dict[str, LanguageModel]) -> None:
    key = make_glossary(client, zebra="a striped animal")
    path = f"/api/glossaries/{key}"
    second = {"word": "two words", "definition": "", "related": ["dog"]}
    assert client.post(f"{path}/terms", json={"terms": [second]}).json() == {"id": key, "terms": 2}
    assert client.get(path).json()["terms"] == [
        {"word": "zebra", "definition": "a striped animal", "related": []},
        second,
    ]
    twin = models["groc"].copy()
    twin.add_words(Glossary({"zebra": ("a striped animal", []), "two words": ("", ["dog"])}))
    scored = client.post("/api/score", json={"text": "the zebra has two words", "glossary": key}).json()
    assert scored["documents"][0]["words"] == list(map(asdict, twin.score("the zebra has two words")))

    assert client.delete(f"{path}/terms/two words").json()["terms"] == 1
    assert client.delete(f"{path}/terms/two words").status_code == 404
    assert client.put(path, json={"terms": []}).json()["terms"] == 0
    assert client.delete(path).status_code == 204
    for answer in (client.get(path), client.post("/api/next", json={"text": "", "glossary": key})):
        assert answer.status_code == 404


def test_a_word_that_is_no_longer_redefined_means_what_it_meant(client: httpx.Client) -> None:
    def probability(**body: Any) -> float:
        answer = client.post("/api/score", json={"text": "the dog", **body}).json()
        return answer["documents"][0]["words"][1]["probability"]

    key = make_glossary(client, dog="much salt water")
    assert probability(glossary=key) != probability()
    client.delete(f"/api/glossaries/{key}/terms/dog")
    assert probability(glossary=key) == probability()


def test_terms_that_come_at_the_same_time_all_stay(client: httpx.Client) -> None:
    key = make_glossary(client)
    words = [f"word{number}" for number in range(24)]

    def add(word: str) -> int:
        terms = [{"word": word, "definition": "an animal"}]
        return client.post(f"/api/glossaries/{key}/terms", json={"terms": terms}).status_code

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(add, words)) == {200}
    assert sorted(term["word"] for term in client.get(f"/api/glossaries/{key}").json()["terms"]) == sorted(words)


def test_a_glossary_has_room_for_so_many_characters_however_they_come(client: httpx.Client) -> None:
    half, other_half = (long_terms(limits.GLOSSARY)[side::2] for side in (0, 1))
    answer = client.post("/api/glossaries", json={"terms": half})
    assert answer.status_code == 201
    path = f"/api/glossaries/{answer.json()['id']}"
    full = client.post(f"{path}/terms", json={"terms": other_half})
    assert full.json()["terms"] == len(half) + len(other_half)
    for refusal in (
        client.post(f"{path}/terms", json={"terms": [{"word": "z"}]}),
        client.put(path, json={"terms": long_terms(limits.GLOSSARY + 1)}),
    ):
        refused(refusal, 413)
    assert len(client.get(path).json()["terms"]) == len(half) + len(other_half)  # as it was
    assert client.delete(f"{path}/terms/A").status_code == 200
    assert client.post(f"{path}/terms", json={"terms": [{"word": "z"}]}).status_code == 200


def test_that_a_glossary_is_full_is_said_with_what_to_do(client: httpx.Client) -> None:
    answer = client.post("/api/glossaries", json={"terms": long_terms(limits.GLOSSARY + 7)})
    error = answer.json()["error"]
    assert f"{limits.GLOSSARY:,} characters" in error
    assert f"{limits.GLOSSARY + 7:,}" in error
    assert "shorten" in error


def test_a_glossary_once_read_never_changes(models: dict[str, LanguageModel]) -> None:
    glossaries = Glossaries(models, DEFAULT)
    key, before = glossaries.create([Term("zebra", "a striped animal")])
    words, score = before.models["groc"].vocabulary.words, before.models["groc"].score(TEXT)
    glossaries.add(key, [Term("zebra", "much salt water"), Term("tokamak")])
    assert before.models["groc"].vocabulary.words == words
    assert before.models["groc"].score(TEXT) == score
    assert "zebra" not in models["groc"].vocabulary


class LockWithMoment:
    """A lock; when it was given back for the n-th time, something happens before anything else can."""

    def __init__(self, number: int, act: Callable[[], None]) -> None:
        self.lock, self.left, self.act = threading.Lock(), number, act

    def __enter__(self) -> None:
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()
        self.left -= 1
        if self.left == 0:
            self.act()


@pytest.mark.parametrize("moment", [1, 2])
@pytest.mark.parametrize("change", ["add", "replace", "remove"])
def test_a_deleted_glossary_does_not_come_back(models: dict[str, LanguageModel], change: str, moment: int) -> None:
    glossaries = Glossaries(models, DEFAULT)
    key, _ = glossaries.create([Term("zebra")])
    glossaries._lock = LockWithMoment(moment, lambda: glossaries.delete(key))  # type: ignore[assignment]
    with suppress(HTTPException):
        getattr(glossaries, change)(key, "zebra" if change == "remove" else [Term("tokamak")])
    with pytest.raises(HTTPException):
        glossaries.get(key)


def test_glossaries_that_are_not_used_go_first_and_in_time(models: dict[str, LanguageModel]) -> None:
    now = [0.0]
    glossaries = Glossaries(models, Limits(glossaries=2, idle=10), clock=lambda: now[0])

    def is_there(key: str) -> bool:
        return key in glossaries._kept

    first, second = (glossaries.create([])[0] for _ in range(2))
    glossaries.get(first)
    third, _ = glossaries.create([])
    assert [is_there(key) for key in (first, second, third)] == [True, False, True]
    now[0] = 8
    glossaries.get(third)
    now[0] = 12
    glossaries.get(third)
    assert [is_there(key) for key in (first, third)] == [False, True]


# --- bad input --------------------------------------------------------------------------------------------------------

TERM = {"word": "zebra", "definition": "a striped animal", "related": ["horse"]}


def long_terms(characters: int) -> list[dict[str, Any]]:
    """A few terms with so many characters in all, more of them in related words than in definitions."""
    whole = {"definition": "d" * limits.DEFINITION, "related": ["r" * limits.WORD] * limits.RELATED}
    number, rest = divmod(characters, 1 + limits.DEFINITION + limits.WORD * limits.RELATED)
    return [
        *({"word": chr(ord("A") + i), **whole} for i in range(number)),
        *({"word": "x" + f"{i:0{limits.WORD - 1}}"} for i in range(rest // limits.WORD)),
        *([{"word": "y" * (rest % limits.WORD)}] if rest % limits.WORD else []),
    ]


BAD = {
    "no text": ("/api/score", {"text": ""}, 400),
    "white space": ("/api/score", {"text": " \n\t "}, 400),
    "text and texts": ("/api/score", {"text": "a", "texts": ["a"]}, 422),
    "neither text nor texts": ("/api/score", {}, 422),
    "no texts": ("/api/score", {"texts": []}, 422),
    "an unknown field": ("/api/next", {"text": "a", "colour": "red"}, 422),
    "a number for a text": ("/api/next", {"text": 5}, 422),
    "a string for a number": ("/api/next", {"text": "a", "limit": "5"}, 422),
    "a fraction for a number": ("/api/next", {"text": "a", "limit": 1.5}, 422),
    "nothing to choose from": ("/api/next", {"text": "a", "words": []}, 422),
    "a word with a space": ("/api/next", {"text": "a", "words": ["b c"]}, 400),
    "no suggestion": ("/api/next", {"text": "a", "limit": 0}, 422),
    "too many suggestions": ("/api/next", {"text": "a", "limit": 10**9}, 422),
    "a huge number": ("/api/generate", {"seed": 10**30}, 422),
    "a negative temperature": ("/api/generate", {"temperature": -1}, 422),
    "an empty word": ("/api/explain", {"word": ""}, 422),
    "an unknown run": ("/api/next", {"text": "a", "run": "nobody"}, 404),
    "an unknown glossary": ("/api/next", {"text": "a", "glossary": "nobody"}, 404),
    "the same term twice": ("/api/glossaries", {"terms": [TERM, TERM]}, 400),
    "a term without a word": ("/api/glossaries", {"terms": [TERM, {"definition": "a"}]}, 422),
    "a term of white space": ("/api/glossaries", {"terms": [{"word": " "}]}, 400),
    "a term with an unknown key": ("/api/glossaries", {"terms": [{"word": "a", "meaning": "b"}]}, 422),
    "an empty related word": ("/api/glossaries", {"terms": [{"word": "a", "related": [""]}]}, 422),
    "a long definition": ("/api/glossaries", {"terms": [{"word": "a", "definition": "word " * 10_000}]}, 413),
    "too many terms": ("/api/glossaries", {"terms": [{"word": f"w{i}"} for i in range(limits.TERMS + 1)]}, 413),
    "too many characters in a glossary": ("/api/glossaries", {"terms": long_terms(limits.GLOSSARY + 1)}, 413),
    "a long text": ("/api/score", {"text": "a" * (limits.TEXT + 1)}, 413),
    "many words": ("/api/score", {"text": "a " * (DEFAULT.words + 1)}, 413),
    "many words before the next": ("/api/next", {"text": "a " * (DEFAULT.words + 1)}, 413),
    "many words to go on with": ("/api/generate", {"text": "a " * (DEFAULT.words + 1)}, 413),
    "many words of context": ("/api/explain", {"word": "a", "context": "a " * (DEFAULT.words + 1)}, 413),
    "many signs": ("/api/score", {"text": "東" * (DEFAULT.words + 1)}, 413),
    "many words in many texts": ("/api/score", {"texts": ["a b"] * 999 + ["a " * (DEFAULT.words - 1997)]}, 413),
    "a paste of 10 MB": ("/api/score", {"text": "all work and no play " * 500_000}, 413),
    "a list": ("/api/next", ["a"], 422),
    "nothing": ("/api/next", None, 422),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_requests_are_refused_with_a_sentence(client: httpx.Client, name: str) -> None:
    path, body, status = BAD[name]
    refused(client.post(path, json=body), status)
    assert client.get("/health").status_code == 200


@pytest.mark.parametrize("name", ["a long text", "a long definition", "too many terms"])
def test_what_is_too_long_is_said_with_what_to_do(client: httpx.Client, name: str) -> None:
    path, body, status = BAD[name]
    answer = client.post(path, json=body)
    refused(answer, status)
    assert re.search(r"at most [\d,]+ (characters: shorten|items: send fewer)", answer.json()["error"])


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 422),
        (b"{", 422),
        (b'{"text": "\xff"}', 400),
        (b'{"text": "\\ud800"}', 422),
        (b'{"\\ud800": 1}', 422),
        (b'{"text": NaN}', 422),
        (b'{"text": "a", "temperature": NaN}', 422),
        (b'{"text": "a", "temperature": Infinity}', 422),
        (b'{"length": ' + b"9" * 5000 + b"}", 400),
        (b"[" * 100_000, 400),
    ],
)
def test_bodies_that_are_not_json_are_refused(client: httpx.Client, content: bytes, status: int) -> None:
    refused(client.post("/api/generate", content=content, headers={"Content-Type": "application/json"}), status)


@pytest.mark.parametrize(
    ("path", "content", "key"),
    [
        ("/api/glossaries", '{"terms": [{"word": "a"}], "terms": []}', "terms"),
        ("/api/glossaries", '{"terms": [{"word": "a", "definition": "one", "definition": "two"}]}', "definition"),
        ("/api/next", r'{"text": "a", "t\u0065xt": "b"}', "text"),
    ],
)
def test_a_key_that_stands_twice_is_refused(client: httpx.Client, path: str, content: str, key: str) -> None:
    answer = client.post(path, content=content, headers={"Content-Type": "application/json"})
    refused(answer, 400)
    assert f"{key!r} stands twice" in answer.json()["error"]


def test_many_keys_are_looked_at_once(client: httpx.Client) -> None:
    content = json.dumps({str(number): 1 for number in range(100_000)})
    refused(client.post("/api/next", content=content, headers={"Content-Type": "application/json"}), 422)


@pytest.mark.parametrize("content", [b"{", '{"text": "é"}'.encode("latin-1"), b"text=a"])
def test_the_encoding_that_is_asked_for_is_said(client: httpx.Client, content: bytes) -> None:
    answer = client.post("/api/generate", content=content, headers={"Content-Type": "application/json"})
    assert answer.json()["error"].startswith("The body must be JSON in UTF-8: ")


def test_text_and_texts_together_are_said(client: httpx.Client) -> None:
    path, body, _ = BAD["text and texts"]
    assert client.post(path, json=body).json() == {"error": "Give text or texts, not both."}


def test_only_json_is_taken(client: httpx.Client) -> None:
    # A page of another site can send a form, or plain text, but not this type without being asked first.
    refused(client.post("/api/next", content='{"text": "a"}', headers={"Content-Type": "text/plain"}), 422)


@pytest.mark.parametrize("path", ["/nowhere", "/static/%00", "/static/../guard.py", "/static/%2e%2e/guard.py"])
def test_paths_that_are_not_there(client: httpx.Client, path: str) -> None:
    refused(client.get(path), 404)


def test_methods_that_are_not_there(client: httpx.Client) -> None:
    refused(client.get("/api/score"), 405)


def refused(answer: httpx.Response, status: int) -> None:
    assert answer.status_code == status, answer.text
    assert answer.json().keys() == {"error"}
    assert re.fullmatch(r".{10,}\.", answer.json()["error"]), answer.json()


@pytest.mark.parametrize(
    "text",
    [
        "the dog\x00\x01\x02 sleeps\x1b[31m red\x7f",
        "הכלב ישן \u202eon the ship\u202c",
        "the 🐕‍🦺 sleeps 👩🏽‍🚀 on 🇩🇪",
        "e\u0301 and \u200b and \ufeffdog",
        "the\r\ndog\u2028sleeps\x85on",
    ],
)
def test_strange_text_is_read(client: httpx.Client, text: str) -> None:
    for extra in ({}, {"tokenised": True}):
        words = client.post("/api/score", json={"text": text, **extra}).json()["documents"][0]["words"]
        assert words
        places = [place for word in words for place in (word["start"], word["end"])]
        assert places == sorted(places)
        assert places[-1] <= len(text)
    assert client.post("/api/next", json={"text": text}).status_code == 200
    assert client.post("/api/generate", json={"text": text, "length": 3}).status_code == 200


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_any_text_and_any_term_get_an_answer(client: httpx.Client, text: str) -> None:
    term = {"word": text[:9], "definition": text, "related": [text[9:12]]}
    for path, body in (
        ("/api/score", {"text": text}),
        ("/api/next", {"text": text}),
        ("/api/generate", {"text": text, "length": 2, "seed": 1}),
        ("/api/explain", {"word": text, "context": text}),
        ("/api/glossaries", {"terms": [term]}),
    ):
        answer = client.post(path, json=body)
        assert answer.status_code in (200, 201, 400, 422), answer.text
        if answer.status_code >= 400:
            refused(answer, answer.status_code)


# --- who may ask ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "192.168.1.5", ""])
def test_without_a_token_other_names_are_refused(client: httpx.Client, host: str) -> None:
    for path in ("/", "/health", "/api/runs", "/static/app.js"):
        refused(client.get(path, headers={"Host": host}), 400)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:99", "127.5.5.5", "[::1]:8000", "[::1]"])
def test_names_of_this_machine_are_taken(client: httpx.Client, host: str) -> None:
    assert client.get("/api/runs", headers={"Host": host}).status_code == 200


def test_a_token_is_asked_for(models: dict[str, LanguageModel]) -> None:
    with served(models, token=TOKEN) as client:
        client.headers["Host"] = "far.example"
        for path in ("/", "/api/runs", "/version", f"/api/runs?token={TOKEN}", "/?token=", f"/?token={TOKEN}x"):
            refused(client.get(path), 401)
        for given in ("", "Bearer", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN, "Bearer \xff"):
            refused(client.get("/api/runs", headers={"Authorization": given.encode("latin-1")}), 401)
        refused(client.post("/api/next", content=b"{"), 401)
        assert client.get("/api/runs", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
        for path in (f"/?token={TOKEN}", "/health", "/openapi.json"):
            assert client.get(path).status_code == 200


def test_the_page_loads_nothing_from_elsewhere_and_answers_are_not_kept(client: httpx.Client) -> None:
    page, answer = client.get("/"), client.get("/api/runs", headers={"Origin": "http://evil.example"})
    assert page.headers["content-security-policy"].startswith("default-src 'self';")
    assert "<html" in page.text
    assert answer.headers["cache-control"] == "no-store"
    assert not any(name.startswith("access-control") for name in answer.headers)


def test_every_answer_has_the_headers(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(service, "next_words", broken)
    fault = client.post("/api/next", json={"text": "the"})
    refused(fault, 500)
    stranger = client.get("/health", headers={"Host": "evil.example"})
    for answer in (fault, stranger, client.get("/health"), client.get("/nowhere"), client.post("/api/next")):
        assert HEADERS.items() <= {name.title(): value for name, value in answer.headers.items()}.items()
        assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("token", [TOKEN, None])
def test_what_is_refused_is_not_kept_in_memory(token: str | None) -> None:
    """Bodies of 100 MB: one without the token that is asked for, one that is too large."""
    left, answers = 100, []

    async def receive() -> Message:
        nonlocal left
        left -= 1
        return {"type": "http.request", "body": bytes(10**6), "more_body": left > 0}

    async def send(message: Message) -> None:
        answers.append(message)

    guard = Guard(create_app({}), token, Limits(body=10**9 if token else 10**6))
    scope = {"type": "http", "method": "POST", "path": "/api/next", "headers": [(b"host", b"localhost")]}
    tracemalloc.start()
    try:
        asyncio.run(guard({**scope, "query_string": b""}, receive, send))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert answers[0]["status"] == (401 if token else 413)
    assert left == 0
    assert peak < 10**7


# --- limits -----------------------------------------------------------------------------------------------------------


def endless_score(model: LanguageModel, texts: list[str], *, progress: Any, **options: Any) -> Any:  # noqa: ARG001
    while True:
        time.sleep(0.01)
        progress(0)


def endless_generate(model: LanguageModel, text: str, **options: Any) -> Any:
    return generate(model, text, **{**options, "length": 10**9})


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that ends only when it is stopped."""
    monkeypatch.setattr(service, "score_texts", endless_score)
    monkeypatch.setattr(service, "generate", endless_generate)


def wait_for_a_place(client: httpx.Client) -> None:
    deadline = time.monotonic() + 60
    while (answer := client.post("/api/next", json={"text": "the"})).status_code != 200:
        assert answer.status_code in (429, 503)  # where little time is given, a slow machine may need more
        refused(answer, answer.status_code)
        assert answer.status_code == 503 or answer.headers["Retry-After"] == "1"
        assert time.monotonic() < deadline
        time.sleep(0.01)


def connect(client: httpx.Client) -> socket.socket:
    return socket.create_connection((client.base_url.host, client.base_url.port), timeout=60)


@pytest.mark.usefixtures("endless")
@pytest.mark.parametrize("path", ["/api/score", "/api/generate"])
def test_work_for_a_client_that_hangs_up_is_stopped(models: dict[str, LanguageModel], path: str) -> None:
    head = "HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 19"
    with served(models, Limits(threads=1, waiting=0, seconds=600)) as client:
        with connect(client) as other:
            other.sendall(f'POST {path} {head}\r\n\r\n{{"text": "the dog"}}'.encode())
            if path == "/api/generate":
                assert other.recv(100).startswith(b"HTTP/1.1 200")
            deadline = time.monotonic() + 60
            while client.post("/api/next", json={"text": "the"}).status_code != 429:
                assert time.monotonic() < deadline
                time.sleep(0.01)
        wait_for_a_place(client)


@pytest.mark.usefixtures("endless")
def test_work_that_takes_too_long_is_stopped(models: dict[str, LanguageModel]) -> None:
    with served(models, Limits(threads=1, waiting=0, seconds=0.3)) as client:
        refused(client.post("/api/score", json={"text": "the dog"}), 503)
        wait_for_a_place(client)
        wait_for_a_place(client)


ENDLESS_STREAMS = {
    "/api/generate": ({"text": "the dog"}, "word"),
    "/api/score": ({"texts": ["the dog", "the end"]}, "document"),
}


@pytest.mark.parametrize("path", ENDLESS_STREAMS)
def test_a_stream_that_takes_too_long_ends_with_a_sentence(
    models: dict[str, LanguageModel], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless_end(model: LanguageModel, texts: list[str], **options: Any) -> Any:
        return (endless_score if texts == ["the end"] else score_texts)(model, texts, **options)

    monkeypatch.setattr(service, "score_texts", endless_end)
    monkeypatch.setattr(service, "generate", endless_generate)
    body, key = ENDLESS_STREAMS[path]
    with served(models, Limits(threads=1, waiting=0, seconds=1)) as client:
        answer = client.post(path, json=body, headers={"Accept": "application/x-ndjson"})
        *rows, last = lines_of(answer)
        assert answer.status_code == 200
        assert rows
        assert all(key in row for row in rows)
        assert last == {"error": "This took more than 1 seconds: ask for less at a time.", "done": False}
        wait_for_a_place(client)


def test_a_client_that_does_not_read_is_not_waited_for() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
        head = [(b"content-type", b"application/x-ndjson")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": b"{}\n", "more_body": True})

    bodies = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> Message:
        return next(bodies, None) or await asyncio.Future()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Future()

    scope = {"type": "http", "method": "POST", "path": "/api/score", "headers": [(b"host", b"localhost")]}
    guard = Guard(app, None, Limits(seconds=0.01))
    asyncio.run(asyncio.wait_for(guard({**scope, "query_string": b""}, receive, send), 60))


def test_a_stream_has_its_place_until_its_thread_is_done() -> None:
    began, may_end = threading.Event(), threading.Event()

    def work(check: Check) -> Iterator[int]:  # noqa: ARG001
        began.set()
        may_end.wait(60)
        yield 1

    async def hang_up() -> None:
        workers = Workers(Limits(threads=1, waiting=0))
        workers.open()
        first = asyncio.ensure_future(anext(workers.stream(work)))
        await asyncio.to_thread(began.wait, 60)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        with pytest.raises(HTTPException):
            await workers.read(lambda check: None)
        may_end.set()
        workers._readers.shutdown()  # waits for the thread
        workers.open()
        assert await workers.read(lambda check: 5) == 5
        workers.close()

    asyncio.run(hang_up())


def test_a_body_that_does_not_come_is_not_waited_for(models: dict[str, LanguageModel]) -> None:
    with served(models, Limits(seconds=0.3)) as client, connect(client) as other:
        other.sendall(b"POST /api/next HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        assert other.recv(100).startswith(b"HTTP/1.1 503")


def test_a_paste_that_comes_in_pieces_hears_why_it_is_refused(client: httpx.Client) -> None:
    refused(client.post("/api/score", content=iter([b"x" * 10**6] * 10)), 413)


# --- the process ------------------------------------------------------------------------------------------------------


@contextmanager
def process(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`groc serve` on a free port, and the address that it prints."""
    command = [sys.executable, "-m", "groc", "serve", "--port", "0", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            line = running.stdout.readline()
            yield running, re.findall(r"http://\S+", line)[0] if line else ""
        finally:
            running.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_service_finishes_what_runs(run_folder: Path, number: signal.Signals) -> None:
    with process(run_folder) as (running, base):
        body = {"text": "the", "length": limits.LENGTH, "seed": 1}
        with httpx.stream("POST", f"{base}api/generate", json=body, timeout=60) as answer:
            lines = answer.iter_lines()
            next(lines)
            running.send_signal(number)
            last = list(lines)[-1]
        assert json.loads(last)["done"] is True
        assert running.wait(60) == 0
        assert running.stderr is not None
        assert running.stderr.read() == ""
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{base}health", timeout=60)


def test_another_host_needs_a_token(run_folder: Path, glossary_file: Path) -> None:
    with process(run_folder, "--host", "0.0.0.0", "--glossary", glossary_file) as (_, address):
        token = address.partition("?token=")[2]
        base = f"http://127.0.0.1:{httpx.URL(address).port}"
        assert len(token) >= 20
        refused(httpx.get(f"{base}/api/runs", timeout=60), 401)
        runs = httpx.get(f"{base}/api/runs", headers={"Authorization": f"Bearer {token}"}, timeout=60).json()["runs"]
        assert [run["name"] for run in runs] == ["small"]
        assert httpx.get(f"{base}/?token={token}", timeout=60).status_code == 200


def test_runs_of_one_name_are_told_apart(run_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "small").symlink_to(run_folder)
    other = tmp_path / "other"
    other.mkdir()
    (other / "small").mkdir()
    for file in run_folder.iterdir():
        (other / "small" / file.name).symlink_to(file)
    assert list(open_runs([str(run_folder)], None)) == ["small"]
    assert list(open_runs([str(run_folder), str(other / "small")], None)) == [str(run_folder), str(other / "small")]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--port", "70000"], "There is no port 70000"),
        (["--host", "no-such-host.invalid"], "Cannot listen at no-such-host.invalid"),
        (["--token", "two words"], "A token is made of"),
        (["--token", ""], "A token is made of"),
        (["nowhere"], "nowhere is not a GroC checkpoint"),
        (["--glossary", "broken.tsv"], "Line 2 of the glossary broken.tsv"),
    ],
)
def test_what_cannot_be_served_is_said(
    arguments: list[str],
    sentence: str,
    run_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.tsv").write_text("word\tdefinition\nzebra\tan animal\thorse\tand more\n", encoding="utf-8")
    run = [] if arguments == ["nowhere"] else [str(run_folder)]
    assert main(["serve", "--port", "0", *run, *arguments]) == 1
    assert sentence in capsys.readouterr().err


def test_a_port_that_is_taken_is_said(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        port = listening.getsockname()[1]
        assert main(["serve", str(run_folder), "--port", str(port)]) == 1
    assert f"Cannot listen at 127.0.0.1, port {port} (address already in use)" in capsys.readouterr().err


def test_without_its_packages_the_service_says_what_to_install(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["serve", str(run_folder)]) == 1
    assert "groc serve needs uvicorn: pip install -c constraints.txt '.[serve]'" in capsys.readouterr().err


def test_the_load_test_runs() -> None:
    script = Path(__file__).parent.parent / "bench" / "load.py"
    options = {"--words": "60", "--clients": "3", "--seconds": "0.5", "--requests": "5"}
    command = [sys.executable, str(script), *(part for option in options.items() for part in option), "--json"]
    figures = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert figures["errors"] == 0
    assert {"next word", "add a term"} <= figures["one client"].keys() & figures["all clients"].keys()
