"""How to compute: the device, bfloat16, compilation, several processes. The one place where such choices are made."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from groc.config import Compute
from groc.errors import GrocError

Function = TypeVar("Function", bound=Callable[..., object])


@dataclass(frozen=True)
class Policy:
    """What was chosen for this machine."""

    device: torch.device
    bf16: bool
    bf16_prefix: bool
    compile: bool
    graphs: bool

    def autocast(self) -> AbstractContextManager[None]:
        """Matrix products of the word encoder in bfloat16 where the policy says so. Weights stay float32."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16)

    def autocast_prefix(self) -> AbstractContextManager[None]:
        """The same for LSTM layers and softmax in training."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16_prefix)

    def compiled(self, function: Function) -> Function:
        """The function, compiled if the policy says so (and left as it is where a machine has no compiler)."""
        if not self.compile:
            return function
        torch._dynamo.config.suppress_errors = True
        return cast(Function, torch.compile(function, dynamic=False))

    def describe(self) -> str:
        name = device_name(self.device)
        number = "bfloat16 with LSTM and softmax" if self.bf16_prefix else "bfloat16" if self.bf16 else "float32"
        ways = {"compiled": self.compile, "recorded": self.graphs}
        return ", ".join([name, number, *(way for way, taken in ways.items() if taken)])


def seed_apart(seed: int, number: int) -> int:
    """A seed for something that is counted, an epoch or a step: far from those of its neighbours and of small seeds."""
    return (seed + 1_000_003 * number) % 2**63


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def choose(compute: Compute, group: Group | None = None) -> Policy:
    """The policy for this machine: `auto` takes a GPU if there is one, and bfloat16 and compilation on a GPU alone."""
    name = compute.device
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and group is not None:
        name = f"cuda:{group.local_rank}"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).tolist()  # "meta" takes tensors and has no numbers
    except (RuntimeError, AssertionError, NotImplementedError):
        raise GrocError(
            f"The device {name!r} is not there: give compute.device=cpu (or --device cpu), or auto for what is."
        ) from None
    on_gpu = device.type == "cuda"
    if on_gpu:
        if device.index is not None:
            torch.cuda.set_device(device)
        exact = compute.bf16 == "no"  # else the prefix network and the softmax are trained in TF32
        torch.set_float32_matmul_precision("highest" if exact else "high")
        torch.backends.cudnn.allow_tf32 = not exact
    decide = {"yes": True, "no": False, "auto": on_gpu, "all": True}
    return Policy(
        device,
        bf16=decide[compute.bf16],
        bf16_prefix=compute.bf16 == "all",
        compile=decide[compute.compile],
        graphs=on_gpu and decide[compute.graphs],
    )


class _WithoutTF32:
    """PyTorch's switches of TF32 are the whole process's: who comes in first turns them off, and who leaves last puts
    them back, in whatever threads they are."""

    def __init__(self) -> None:
        self.lock, self.inside, self.before = threading.Lock(), 0, ("highest", False)

    def __enter__(self) -> None:
        with self.lock:
            self.inside += 1
            if self.inside == 1:
                self.before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
                self._set("highest", False)

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside:
                self._set(*self.before)

    @staticmethod
    def _set(products: str, layers: bool) -> None:
        torch.set_float32_matmul_precision(products)
        torch.backends.cudnn.allow_tf32 = layers


_without_tf32 = _WithoutTF32()


@contextmanager
def full_float32() -> Iterator[None]:
    """Products in float32 proper, not in TF32 and not under a caller's autocast: what is reported is computed so."""
    with _without_tf32, ExitStack() as stack:
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        yield


def told_by_torchrun(name: str, usual: int) -> int:
    """How many processes there are, or which of them this is; `usual` where there is no torchrun."""
    told = os.environ.get(name, str(usual))
    try:
        return int(told)
    except ValueError:
        raise GrocError(f"{name}={told} is no number: unset it, or leave it to torchrun.") from None


class Group:
    """The processes that train together: one, or those that torchrun started."""

    def __init__(self) -> None:
        self.size = told_by_torchrun("WORLD_SIZE", 1)
        self.rank = told_by_torchrun("RANK", 0)
        self.local_rank = told_by_torchrun("LOCAL_RANK", 0)
        if self.size > 1 and not dist.is_initialized():
            dist.init_process_group()  # gloo for tensors on the CPU, nccl for those on GPUs

    @property
    def leads(self) -> bool:
        """Whether this process writes files and talks to the user."""
        return self.rank == 0

    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        self.average(parameter.grad for parameter in parameters if parameter.grad is not None)

    def average(self, tensors: Iterable[Tensor]) -> None:
        """Average tensors over all processes in one message, each in its place."""
        places = list(tensors)
        if self.size == 1 or not places:
            return
        flat = torch.cat([place.flatten() for place in places])
        dist.all_reduce(flat)
        start = 0
        for place in places:
            place.copy_(flat[start : start + place.numel()].view_as(place) / self.size)
            start += place.numel()

    def any(self, flag: bool) -> bool:
        """Whether any process raised its flag."""
        return flag if self.size == 1 else bool(self.total(torch.tensor(float(flag))) > 0)

    def must_stop(self, told: bool) -> bool:
        """Asked in each step: whether any process was told to stop."""
        return self.any(told)

    def total(self, value: Tensor) -> Tensor:
        """The sum over all processes."""
        if self.size > 1:
            value = value.clone()
            dist.all_reduce(value)
        return value

    def gather(self, value: Tensor) -> list[Tensor]:
        """The same tensor from every process."""
        if self.size == 1:
            return [value]
        everyone = [torch.empty_like(value) for _ in range(self.size)]
        dist.all_gather(everyone, value.contiguous())
        return everyone

    def share(self, words: int) -> Tensor:
        """The ids of the words that this process encodes for all: as many as every other does, so that the very last
        word may be encoded more than once."""
        each = -(-words // self.size)
        return torch.arange(self.rank * each, (self.rank + 1) * each).clamp(max=words - 1)

    def wait(self) -> None:
        """Until all processes are here. A message on the CPU: PyTorch's own barrier may take GPUs, which are chosen
        later."""
        self.total(torch.zeros(()))

    def close(self) -> None:
        """Say goodbye to the other processes and end this one; alone, do nothing."""
        if self.size == 1:
            return
        self.wait()
        end_in_group(0)


def end_in_group(status: int) -> None:
    """End a process that has trained with others, here and now: threads of the group may outlive it, and then the
    interpreter's shutdown aborts now and then. Alone, do nothing."""
    if dist.is_available() and dist.is_initialized():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
