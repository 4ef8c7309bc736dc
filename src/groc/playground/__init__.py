"""The service behind `groc serve`: what models can do, over HTTP, and a page for it."""
