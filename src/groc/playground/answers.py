"""Answers: JSON, and what is wrong as one sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from groc.errors import GrocError
from groc.playground.schemas import ONE_TEXT, SEVERAL_TEXTS, Error
from groc.report import perplexity, to_json
from groc.surprisal import WordScore

NDJSON = "application/x-ndjson"
LONGEST = 100
"""Characters of a client's own words in a sentence to it."""
ERRORS = {
    400: "a value that makes no sense, or a body that cannot be read",
    401: "no token, or the wrong one",
    404: "an unknown run, glossary or term",
    413: "too much at once",
    422: "a wrong type, a value out of range, an unknown field",
    429: "the service is busy: come back after the seconds that Retry-After gives",
    503: "this took too long",
}


Documented = dict[int | str, dict[str, Any]]


def documented(*statuses: int) -> Documented:
    """Error answers, for the OpenAPI document."""
    return {status: {"model": Error, "description": ERRORS[status]} for status in statuses}


def json_answer(content: dict[str, Any]) -> Response:
    return Response(to_json(content), media_type="application/json")


def json_line(content: dict[str, Any]) -> bytes:
    return to_json(content).encode() + b"\n"


def document(words: Sequence[WordScore]) -> dict[str, Any]:
    """A scored text and its sums."""
    bits = sum(word.surprisal for word in words)
    return {
        "words": [asdict(word) for word in words],
        "bits": bits,
        "perplexity": perplexity(bits / len(words) * math.log(2)) if words else None,
    }


# --- what is wrong ----------------------------------------------------------------------------------------------------


def explain_errors(app: FastAPI) -> None:
    """Make every error of the app an `Error`; a fault of the service becomes one in the guard."""

    @app.exception_handler(GrocError)
    async def wrong_value(request: Request, error: GrocError) -> Response:  # noqa: ARG001
        return JSONResponse({"error": str(error)}, 400)

    @app.exception_handler(RequestValidationError)
    async def wrong_shape(request: Request, error: RequestValidationError) -> Response:  # noqa: ARG001
        first = error.errors()[0]
        status = 413 if first["type"] in ("string_too_long", "too_long") else 422
        return JSONResponse({"error": sentence(first)}, status)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        explanation = {
            400: "The body must be JSON in UTF-8: this one cannot be read.",
            404: f"There is nothing at {request.url.path}: see /openapi.json for what there is.",
            405: f"{request.url.path} does not take {request.method}: see /openapi.json for what it takes.",
        }
        detail = error.detail if error.detail.endswith(".") else explanation.get(error.status_code, f"{error.detail}.")
        return JSONResponse({"error": detail}, error.status_code, error.headers)


def sentence(problem: dict[str, Any]) -> str:
    """What pydantic found, for a person."""
    place = ".".join(str(part) for part in problem["loc"][1:] if part not in (ONE_TEXT, SEVERAL_TEXTS))[:LONGEST]
    match problem["type"]:
        case "json_invalid":
            problem_there = f"{problem['ctx']['error'].lower()} at character {problem['loc'][1]}"
            return f"The body must be JSON in UTF-8: {problem_there}."
        case "extra_forbidden" if place == "text" and SEVERAL_TEXTS in problem["loc"]:
            return "Give text or texts, not both."
        case "extra_forbidden":
            return f"There is no field {place!r} here: leave it out, or see /openapi.json for the fields."
        case "missing":
            return f"The field {place!r} is missing: add it." if place else "The body is missing: send a JSON object."
        case "model_attributes_type" | "union_tag_invalid":
            return "The body is not a JSON object: send one, with the header Content-Type: application/json."
        case "string_too_long":
            return f"{place} may have at most {problem['ctx']['max_length']:,} characters: shorten it."
        case "too_long":
            return f"{place} may have at most {problem['ctx']['max_length']:,} items: send fewer at a time."
    return f"{place or 'The body'} is not right: {problem['msg'][0].lower()}{problem['msg'][1:]}."
