"""Run the examples of the pages and write what they print into them: python docs/examples.py [PAGE ...]

A page's `python` blocks run in order and share their names; a `text` block right behind one is what it prints. In a
`console` block a line behind `$ ` is a command, with the lines it prints below it: `groc ...`, also behind
`echo ... |`, `groc serve ... &`, which runs until the page ends, and `curl ...`. A line `...` stands for any further
lines. Before a block, `<!-- file: NAME -->` makes it a file of that name, `<!-- output varies -->` runs it but leaves
its output as it is, and `<!-- not run -->` leaves it alone. Port 8000 is replaced by a free one. Each page runs in an
empty folder.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

from groc.cli import main

FOLDER = Path(__file__).parent
PORT = "8000"
EXAMPLE = re.compile("^```(python|console)", re.MULTILINE)
BLOCK = re.compile(
    r"(?:<!-- (?P<note>[^>\n]+) -->\n)?^```(?P<language>\w+)\n(?P<body>.*?)^```\n"
    r"(?:\n```text\n(?P<output>.*?)^```\n)?",
    re.DOTALL | re.MULTILINE,
)
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


def pages() -> list[Path]:
    """The pages that have examples."""
    return [path for path in sorted(FOLDER.glob("*.md")) if EXAMPLE.search(path.read_text(encoding="utf-8"))]


def run(page: str) -> str:
    """The page with what its examples print now. They run in the current folder."""
    with ExitStack() as stack:
        names: dict[str, Any] = {}
        port = free_port()

        def fresh(block: re.Match[str]) -> str:
            note, language, body, output = block["note"] or "", block["language"], block["body"], block["output"]
            if note.startswith("file: "):
                Path(note.removeprefix("file: ")).write_text(body, encoding="utf-8")
            if note.startswith("file: ") or note == "not run" or language not in ("python", "console"):
                return block[0]
            if language == "python":
                printed = with_port(run_python(with_port(body, PORT, port), names), port, PORT)
                if output is None and printed:
                    return f"{block[0]}\n```text\n{printed}```\n"
                new = replaced(block, "output", shortened(output or "", printed))
            else:
                commands = re.split(r"^(?=\$ )", body, flags=re.MULTILINE)
                must_work = note == "output varies"  # elsewhere an error is what the page shows
                new = replaced(block, "body", "".join(run_command(c, port, stack, must_work) for c in commands if c))
            return block[0] if note == "output varies" else new

        return BLOCK.sub(fresh, page)


def replaced(block: re.Match[str], part: str, text: str) -> str:
    """The whole block, with another text in place of one of its parts."""
    if block[part] is None:
        return block[0]
    start, end = (place - block.start() for place in block.span(part))
    return block[0][:start] + text + block[0][end:]


def run_python(code: str, names: dict[str, Any]) -> str:
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(code, "<example>", "exec"), names)
    return printed.getvalue()


def run_command(text: str, port: str, stack: ExitStack, must_work: bool = False) -> str:
    """A command and what it prints, errors too."""
    line, _, shown = text.partition("\n")
    command, said = with_port(line.removeprefix("$ "), PORT, port), ""
    if command.startswith("echo "):
        said, _, command = command.partition(" | ")
    words = shlex.split(command.partition(" # ")[0])
    if words[-1] == "&":
        printed = start_service(words[1:-1], stack)
    elif words[0] == "curl":
        has_curl = shutil.which("curl") is not None
        printed = (
            subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout + "\n" if has_curl else shown
        )
    elif words[0] == "groc":
        printed = run_groc(words[1:], " ".join(shlex.split(said)[1:]) + "\n", must_work)
    else:
        raise ValueError(f"only groc and curl can be run, not {command!r}: say <!-- not run -->")
    return f"{line}\n{shortened(shown, with_port(printed, port, PORT))}"


def run_groc(arguments: list[str], standard_input: str, must_work: bool) -> str:
    printed = io.StringIO()
    with (
        redirect_stdout(printed),
        redirect_stderr(printed),
        mock.patch("sys.stdin", io.TextIOWrapper(io.BytesIO(standard_input.encode()), "utf-8")),
    ):
        status = main(arguments)
    if status and (must_work or not printed.getvalue().startswith("groc: ")):
        raise AssertionError(f"groc {shlex.join(arguments)} ended with {status}: {printed.getvalue()}")
    return printed.getvalue()


def start_service(arguments: list[str], stack: ExitStack) -> str:
    """The line by which a service says that it is ready; it ends with the stack."""
    service = subprocess.Popen(
        [sys.executable, "-m", "groc", *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    stack.enter_context(service)  # waits for its end
    stack.callback(service.terminate)
    line = service.stdout.readline() if service.stdout else ""
    if not line:
        raise AssertionError(f"groc {shlex.join(arguments)} ended with {service.wait()}.")
    return line


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def with_port(text: str, old: str, new: str) -> str:
    """The text with another port in addresses and commands; what it counts may have the same digits."""
    return re.sub(rf"(?<=127\.0\.0\.1:){old}\b|(?<=--port ){old}\b", new, text)


def shortened(shown: str, printed: str) -> str:
    """What was printed, cut where the page cuts it by a line of three dots."""
    lines, cut = printed.splitlines(keepends=True), shown.splitlines()
    return "".join(lines[: cut.index("...")]) + "...\n" if "..." in cut else printed


def alike(page: str, other: str) -> bool:
    """Whether two pages are the same but for the last digits of their numbers."""
    if NUMBER.sub("0", page) != NUMBER.sub("0", other):
        return False
    return all(near(a, b) for a, b in zip(NUMBER.findall(page), NUMBER.findall(other), strict=True))


def near(one: str, other: str) -> bool:
    a, b = (float(text.replace(",", "")) for text in (one, other))
    digits, _, power = one.partition("e")
    decimals = len(digits.partition(".")[2])
    last_digit = 10.0 ** (int(power or 0) - decimals)
    return a == b or (decimals > 0 and abs(a - b) <= 0.01 * abs(a) + 1.01 * last_digit)


if __name__ == "__main__":
    for path in [Path(name).resolve() for name in sys.argv[1:]] or pages():
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            path.write_text(run(path.read_text(encoding="utf-8")), encoding="utf-8")
            os.chdir(FOLDER)
