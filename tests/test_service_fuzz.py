"""Requests made from the OpenAPI document, right ones and wrong ones: none may break the service or its promises."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import schemathesis
from conftest import tiny_model
from hypothesis import HealthCheck, given, settings

from groc.lexicon import Glossary
from groc.playground.app import create_app
from groc.vocabulary import Vocabulary

TOKEN = "a-token"
AUTHORISED = {"Authorization": f"Bearer {TOKEN}"}
JSON = "application/json"


def operations() -> Iterator[tuple[str, str, schemathesis.GenerationMode]]:
    for path, methods in create_app({}, TOKEN).openapi()["paths"].items():
        for method, operation in methods.items():
            yield method, path, schemathesis.GenerationMode.POSITIVE
            if operation.keys() & {"parameters", "requestBody", "security"}:  # there is something to do wrong
                yield method, path, schemathesis.GenerationMode.NEGATIVE


@pytest.fixture(scope="module")
def api(vocabulary: Vocabulary, glossary: Glossary) -> schemathesis.BaseSchema:
    model = tiny_model("groc", "ngrams", vocabulary, glossary, {"surface.longest_ngram": 6})
    app = create_app({"groc": model}, TOKEN)
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    checks = schema.config.checks
    # Beyond what a schema can say: a text of white space, the same term twice, too many words in all.
    checks.positive_data_acceptance.expected_statuses = ["2xx", "400", "404", "413"]
    checks.negative_data_rejection.expected_statuses = ["400", "401", "404", "405", "413", "422"]
    return schema


@pytest.mark.parametrize(("method", "path", "mode"), list(operations()))
def test_no_request_breaks_the_service(
    api: schemathesis.BaseSchema, method: str, path: str, mode: schemathesis.GenerationMode
) -> None:
    @settings(suppress_health_check=list(HealthCheck))
    @given(case=api[path][method].as_strategy(generation_mode=mode))
    def ask(case: schemathesis.Case) -> None:
        if mode is schemathesis.GenerationMode.POSITIVE and "key" in case.path_parameters:
            glossary = api["/api/glossaries"]["post"].Case(body={"terms": [{"word": "zebra"}]}, media_type=JSON)
            case.path_parameters["key"] = glossary.call(headers=AUTHORISED).json()["id"]  # else there never is one
        case.call_and_validate(headers=AUTHORISED)

    ask()
