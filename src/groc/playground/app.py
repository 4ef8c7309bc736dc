"""The web application: routes, errors, the page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.responses import FileResponse, StreamingResponse
from fastapi.security import HTTPBearer
from starlette.staticfiles import StaticFiles

from groc import __version__
from groc.model import LanguageModel
from groc.playground import schemas
from groc.playground.answers import NDJSON, Documented, documented, explain_errors
from groc.playground.bodies import EachKeyOnce
from groc.playground.guard import Guard
from groc.playground.limits import DEFAULT, Limits
from groc.playground.service import Service

STATIC = Path(__file__).with_name("static")
API = "1"
"""Version of the HTTP interface: raised when a program that uses it would have to change."""


def create_app(
    models: Mapping[str, LanguageModel],
    token: str | None = None,
    limits: Limits = DEFAULT,
    warnings: Mapping[str, str] | None = None,
) -> FastAPI:
    """An app that serves these models, by the names of their runs; the first is the default.

    Without a token it answers to names of this machine alone.
    """
    service = Service(models, warnings or {}, limits)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:  # noqa: ARG001
        service.workers.open()
        yield
        service.workers.close()

    app = FastAPI(
        title="GroC",
        version=API,
        description="A language model whose vocabulary is data: score, suggest, generate, explain, teach.",
        docs_url=None,  # it would load its scripts from elsewhere
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
        lifespan=lifespan,
    )
    app.add_middleware(Guard, token=token, limits=limits)
    explain_errors(app)
    app.include_router(_about())
    app.include_router(_api(service), dependencies=[Depends(HTTPBearer(auto_error=False))] if token else [])
    app.mount("/static", StaticFiles(directory=STATIC))
    return app


def _about() -> APIRouter:
    router = APIRouter(tags=["about"], responses=documented(400, 401, 413))

    @router.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    @router.get("/health")
    async def health() -> schemas.Health:
        """Whether the service is up. Needs no token."""
        return schemas.Health(status="ok")

    @router.get("/version")
    async def version() -> schemas.Version:
        """The version of GroC, and of this interface."""
        return schemas.Version(groc=__version__, api=API)

    return router


def _api(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api", responses=documented(400, 401, 413), route_class=EachKeyOnce)
    lines: dict[int | str, dict[str, Any]] = {200: {"content": {NDJSON: {"schema": {"type": "string"}}}}}
    work = documented(404, 422, 429, 503)
    glossary = "/glossaries/{key}"

    def add(method: str, path: str, endpoint: Callable[..., Any], responses: Documented, **options: Any) -> None:
        router.add_api_route(path, endpoint, methods=[method], responses=responses, **options)

    add("GET", "/runs", service.runs, {})
    add("POST", "/score", service.score, work | lines, response_model=schemas.ScoreAnswer)
    add("POST", "/next", service.next, work, response_model=schemas.NextAnswer)
    add("POST", "/generate", service.generate, work | lines, response_class=StreamingResponse)
    add("POST", "/explain", service.explain, work, response_model=schemas.ExplainAnswer)
    add("POST", "/glossaries", service.create_glossary, documented(422, 429, 503), status_code=201)
    add("GET", glossary, service.read_glossary, documented(404))
    add("PUT", glossary, service.replace_glossary, work)
    add("DELETE", glossary, service.delete_glossary, documented(404), status_code=204)
    add("POST", glossary + "/terms", service.add_terms, work)
    add("DELETE", glossary + "/terms/{word:path}", service.remove_term, documented(404, 429, 503))
    return router
