"""The demo's parts: two corpora that every machine has, what is told about the two models, and the picture."""
