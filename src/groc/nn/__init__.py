"""The parts of the model, each a small module that knows nothing of configuration."""
