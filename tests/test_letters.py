"""Tables of what filters give characters. The kernels run on a CPU here, one thread behind the other; test_cuda.py has
them on a GPU."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from test_nn import forms_of, words
from torch import Tensor, nn

import groc.nn
from groc.nn import characters as characters_module
from groc.nn import cuda_letters
from groc.nn.characters import CODES, Characters
from groc.nn.cnn import CharacterCNN
from groc.nn.letters import (
    BLOCK,
    FEWEST_KEPT,
    LONGEST,
    MOST_KEPT,
    RARE,
    WIDEST,
    Letters,
    block_widths,
    letter_table,
)

NOWHERE = 255
NN = Path(groc.nn.__file__ or "").parent


@pytest.fixture(scope="session")
def on_cpu(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The kernels, compiled for a CPU."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++")
    library = tmp_path_factory.mktemp("letters") / "letters.so"
    source = Path(__file__).with_name("letters_on_cpu.cpp")
    command = [compiler, "-std=c++17", "-O1", "-shared", "-fPIC", f"-I{NN}", "-o", str(library), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "_Float16" in done.stderr:
        pytest.skip("needs a g++ that knows _Float16")
    assert not done.returncode, done.stderr
    return ctypes.CDLL(str(library))


@pytest.fixture
def kernels(on_cpu: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if this machine had a GPU."""

    def launch(name: str, grid: tuple[int, int], threads: int, memory: int, arguments: list[Any]) -> None:
        assert all(part.is_contiguous() for part in arguments if isinstance(part, Tensor))
        values = [ctypes.c_void_p(part.data_ptr()) if isinstance(part, Tensor) else part for part in arguments]
        run = getattr(on_cpu, f"run_{name}")
        run.restype = ctypes.c_bool
        assert run(*grid, threads, memory, *values), "a block wrote beyond its memory"

    monkeypatch.setattr(cuda_letters, "_launch", launch)
    monkeypatch.setattr(characters_module, "kernels_take", lambda lengths, widest: True)


def made(strings: list[str], filters: tuple[int, ...]) -> tuple[CharacterCNN, Characters]:
    torch.manual_seed(len(strings))
    cnn = CharacterCNN(8, 16, filters, 0, 40)  # no highway: it computes in bfloat16, which would hide a small fault
    nn.init.normal_(cnn.shifts)
    return cnn, cnn.features(forms_of(strings))


def gradients(cnn: CharacterCNN, strings: Characters, *, fast: bool) -> list[Tensor]:
    cnn.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=fast):
        pooled = cnn.pooled(strings)
    weights = torch.randn(pooled.shape, generator=torch.Generator().manual_seed(1))
    (pooled.float() * weights).sum().backward()
    return [pooled.detach().float(), *(parameter.grad for parameter in cnn.parameters() if parameter.grad is not None)]


def twin_of_maxima(table: Tensor, shifts: Tensor, codes: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    positions = int(lengths.max())
    scores = table[:, 0][codes[:, :positions].long()]  # [S, L, f], halves
    for offset in range(1, table.shape[1]):
        scores = scores + table[:, offset][codes[:, offset : offset + positions].long()]
    outside = torch.arange(positions) >= lengths[:, None]
    values, where = scores.float().masked_fill(outside[:, :, None], float("-inf")).max(1)
    features = torch.relu(values + shifts)
    return features.bfloat16(), where.where(features > 0, NOWHERE).to(torch.uint8)


def twin_of_histograms(gradient: Tensor, where: Tensor, codes: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
    values = gradient.double().where(where != NOWHERE, 0.0)
    places = where.long().where(where != NOWHERE, 0)
    counted = torch.zeros(table.shape, dtype=torch.float64)
    for offset in range(table.shape[1]):
        counted[:, offset].scatter_add_(0, codes.long().gather(1, places + offset), values)
    return counted, values.sum(0)


STRINGS, CHARACTERS, WIDTHS = [1, 9, 700], [2, 40, 64, 65, 200], [[1], [3, 8], [2, 4, 5, 6, 7]]
LIMITS = [FEWEST_KEPT, MOST_KEPT]


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("strings", STRINGS)
@pytest.mark.parametrize("characters", CHARACTERS)
@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("limit", LIMITS)
def test_kernels_do_what_their_twins_do(strings: int, characters: int, widths: list[int], limit: int) -> None:
    check_kernels(strings, characters, widths, limit, "cpu")


def check_kernels(strings: int, characters: int, widths: list[int], limit: int, device: str) -> None:
    torch.manual_seed(strings + characters)
    offsets, filters, longest = max(widths), BLOCK * len(widths), 20
    lengths = torch.randint(1, longest + 1, (strings,), dtype=torch.int32)
    codes = (torch.rand(strings, longest) ** 3 * (characters - 1) + 1).to(torch.uint8)
    codes = F.pad(codes.masked_fill(torch.arange(longest) >= lengths[:, None], 0), (0, 12))
    table, shifts = torch.randn(characters, offsets, filters), torch.randn(filters)
    table[0] = 0
    for block, width in enumerate(widths):
        table[:, width:, block * BLOCK : (block + 1) * BLOCK] = 0
    gradient = torch.randn(strings, filters).bfloat16()
    rare, blocks = (codes >= limit).any(1), torch.tensor(widths, dtype=torch.int32)

    def there(*tensors: Tensor) -> list[Tensor]:
        return [tensor.to(device) for tensor in tensors]

    features, where = cuda_letters.letter_maxima(*there(table.half(), shifts, codes, lengths, rare, blocks), limit)
    parts = cuda_letters.letter_histograms(*there(gradient, where, codes, blocks), characters, offsets, limit)
    features, where, tables, rares, sums = (tensor.cpu() for tensor in (features, where, *parts))
    counted_by_kernel = torch.cat([tables.sum(0), rares.sum(0)])

    expected, expected_where = twin_of_maxima(table.half(), shifts, codes, lengths)
    assert (features == expected).all()
    assert (where == expected_where).all()
    counted, summed = twin_of_histograms(gradient, where, codes, table)
    close = {"rtol": 1e-5, "atol": 1e-4}
    for block, width in enumerate(widths):
        mine = slice(block * BLOCK, (block + 1) * BLOCK)
        torch.testing.assert_close(counted_by_kernel[:, :width, mine].double(), counted[:, :width, mine], **close)
        assert (counted_by_kernel[:, width:, mine] == 0).all()
    torch.testing.assert_close(sums.sum(0).double(), summed, **close)


@pytest.mark.parametrize("offsets", range(1, WIDEST + 1))
def test_warps_share_a_block_of_which_two_fit(offsets: int) -> None:
    for kept in range(2, MOST_KEPT + 1):
        warps = cuda_letters._warps_of_histograms(kept, offsets)
        assert warps in (1, 2, 4)
        assert warps == 1 or warps * kept * offsets * 32 * 4 <= 100_000
        assert warps == 4 or 2 * warps * kept * offsets * 32 * 4 > 100_000


def test_python_and_kernels_have_the_same_constants() -> None:
    text = (NN / "letters.cuh").read_text()
    for name, value in {"LANES": cuda_letters.LANES, "BLOCK": BLOCK, "NOWHERE": NOWHERE}.items():
        assert f" {name} = {value}" in text
    assert f"case {WIDEST}:" in text
    assert f"case {WIDEST + 1}:" not in text
    assert LONGEST < NOWHERE
    assert FEWEST_KEPT.bit_count() == MOST_KEPT.bit_count() == 1  # one test of some bits is enough for all characters


@pytest.mark.usefixtures("kernels")
class TestStringsByTables:
    @pytest.mark.parametrize("filters", [(1,), (10, 20, 30, 40, 60, 3, 7), (32, 32, 64), (1,) * 8])
    @pytest.mark.parametrize("many", [False, True])
    def test_vectors_and_gradients_are_those_of_windows(self, filters: tuple[int, ...], many: bool) -> None:
        """Many strings are several shares of them, and have more characters than are kept."""
        some = ["a", "bank", "banker", "embankment", "x" * 60, "café", "東京"]
        if many:
            some += [chr(0x4E00 + 7 * number) + "river"[: number % 6] for number in range(150)]
        cnn, strings = made(some, filters)
        letters = strings.letters()
        assert letters is not None
        assert bool(letters.rare.any()) == many
        for plain, fast in zip(gradients(cnn, strings, fast=False), gradients(cnn, strings, fast=True), strict=True):
            assert float((plain - fast).norm() / plain.norm()) < 6e-2  # near ties in half precision

    def test_some_of_the_strings_have_the_vectors_they_have_among_all(self) -> None:
        cnn, strings = made(["bank", "banker", "embankment", "river"], (5, 6, 7))
        with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
            whole, part = cnn(strings), cnn(strings.take(torch.tensor([2, 0])))
        torch.testing.assert_close(part, whole[[2, 0]])

    def test_without_gradients_many_strings_are_taken_in_parts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        cnn, strings = made(["bank", "banker", "embankment", "river", "x" * 30], (5, 6, 7))
        taken, take = [], Characters.take
        monkeypatch.setattr(Characters, "take", lambda self, which: taken.append(len(which)) or take(self, which))
        with torch.no_grad():
            whole = cnn(strings)
            monkeypatch.setattr("groc.nn.surface.CHUNK", 2)
            torch.testing.assert_close(cnn(strings), whole)
            with torch.autocast("cpu", torch.bfloat16):
                torch.testing.assert_close(cnn(strings).float(), whole, rtol=5e-2, atol=5e-2)
        assert max(taken) == 2
        assert sum(taken) == 2 * len(strings)

    @pytest.mark.parametrize("which", ["characters", "kernels.1", "shifts"])
    @pytest.mark.parametrize("bad", [float("nan"), float("inf")])
    def test_what_is_not_a_number_is_not_hidden(self, which: str, bad: float) -> None:
        cnn, strings = made(["bank", "river"], (5, 6))
        with torch.no_grad():
            dict(cnn.named_parameters())[which].fill_(bad)
            with torch.autocast("cpu", torch.bfloat16):
                assert not cnn(strings).isfinite().all()

    def test_strings_that_move_to_where_no_kernels_are_forget_their_letters(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(characters_module, "kernels_take", lambda lengths, widest: lengths.device.type == "cpu")
        strings = made(["bank", "river"], (5, 6))[1]
        assert strings.letters() is not None
        assert strings.to("meta").letters() is None

    def test_the_encoder_is_compiled_in_one_piece(self) -> None:
        """Between pieces everything would be written to memory and read again."""
        cnn, strings = made(["bank", "banker", "embankment"], (5, 6, 7))
        with torch.autocast("cpu", torch.bfloat16):
            strings.make_ready()
            explained = torch._dynamo.explain(cnn)(strings)
        assert explained.graph_count == 1, explained.break_reasons


@given(st.lists(words, min_size=1, max_size=40))
def test_numbers_of_characters_name_the_same_characters(some: list[str]) -> None:
    """The more frequent first, 0 for none."""
    strings = Characters.of(forms_of(some), longest=20, widest=3)
    letters = Letters.of(strings.codes, strings.lengths, CODES)
    table = torch.arange(1, CODES, dtype=torch.float32)[:, None]  # each character is its own code
    codes = torch.cat([torch.zeros(1, 1), letters.alphabet(table)])[letters.codes.long()][:, :, 0]
    assert (codes[:, : strings.codes.shape[1]] == strings.codes).all()
    assert (codes[:, strings.codes.shape[1] :] == 0).all()
    assert codes.shape[1] >= strings.codes.shape[1] + 12
    assert codes.shape[1] % 4 == 0
    counts = torch.bincount(letters.codes.flatten().long())[1:]
    assert (counts[:-1] >= counts[1:]).all()
    assert letters.rare.tolist() == [max(row) >= letters.limit for row in letters.codes.tolist()]
    beyond_few = sum(max(row) >= FEWEST_KEPT for row in letters.codes.tolist())
    assert letters.limit == (FEWEST_KEPT if beyond_few <= RARE * len(letters.codes) else MOST_KEPT)


def test_a_table_has_nothing_for_no_character_nor_beyond_the_width_of_a_filter() -> None:
    kernels = [torch.randn(4, 3), torch.randn(8, 5)]
    table = letter_table(torch.randn(6, 4), kernels)
    assert table.shape == (7, 2, 8)
    assert (table[0] == 0).all()
    assert (table[:, 1, :3] == 0).all()
    assert (table[1:, :, 3:] != 0).all()


def test_blocks_of_filters_go_by_their_widest() -> None:
    assert block_widths((32, 32, 64, 128, 256, 512)).tolist() == [3, 4, 5, 5, 6, 6, 6, 6]
    assert block_widths((1, 2)).tolist() == [2]
    assert block_widths((128, 1)).tolist() == [1, 2]
