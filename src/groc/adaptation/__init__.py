"""A new domain: caches, learning while reading, fine-tuning, words kept out of training."""
