"""What each command does. Arguments are parsed in `groc.cli`; here they are plain values."""
