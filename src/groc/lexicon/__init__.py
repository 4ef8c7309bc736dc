"""What is known about words: WordNet, glossaries, and ways to combine or restrict them."""

from groc.lexicon.base import Entry, Lexicon, Sense
from groc.lexicon.glossary import Glossary
from groc.lexicon.wordnet import WordNet
from groc.lexicon.wrappers import Chain, Coverage, Empty, Without

__all__ = ["Chain", "Coverage", "Empty", "Entry", "Glossary", "Lexicon", "Sense", "Without", "WordNet"]
