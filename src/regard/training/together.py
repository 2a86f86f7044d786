"""How ranks come to agree, in two channels.

What every step asks goes through all-reduce: a few numbers, a fraction of a millisecond. What is rare and needs words
goes as JSON through the store that rank 0 keeps, where every rank signs for itself, so whoever is missing has a name.
Neither channel is encrypted or checks who is calling: torch.distributed is made for a network that only trusted
machines reach.
"""

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import Store

from regard.errors import FAILURE, UserError
from regard.training.decided import differences
from regard.training.ranks import Ranks

T = TypeVar("T")

GRACE = 5.0
"Seconds in which, after a failure, every living rank signs; who does not is the one that is missing."


class Elsewhere(UserError):
    """Another rank has failed; it says itself what happened."""


class Together(Ranks):
    """What DDP and FSDP have in common: everything but the model."""

    def __init__(self, store: Store, seconds: float, device: str) -> None:
        super().__init__(device)
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.store, self.seconds = store, seconds
        self.calls = 0
        "Of `gather` and `first` so far; the same on all ranks, so it names what is exchanged."
        self.kept = ""
        self.hosts: list[str] = [""] * self.size
        self.hosts = self.gather(socket.gethostname(), "meeting")

    @property
    def is_first_here(self) -> bool:
        return self.hosts.index(self.hosts[self.rank]) == self.rank

    def name(self, rank: int) -> str:
        return f"rank {rank} (on {self.hosts[rank]})" if self.hosts[rank] else f"rank {rank}"

    # ---- numbers

    def sum(self, *values: float) -> list[float]:
        total = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(total)
        return total.tolist()

    def any(self, *flags: bool) -> list[bool]:
        return [count > 0 for count in self.sum(*map(float, flags))]

    # ---- words

    def gather(self, value: Any, what: str) -> list[Any]:
        """Every rank's value, which is plain JSON."""
        self.calls += 1
        keys = {rank: f"{self.calls}/{rank}" for rank in range(self.size)}
        self.store.set(keys[self.rank], json.dumps(value))
        self._await(keys, what)
        found = [json.loads(self.store.get(key)) for key in keys.values()]
        if self.kept:  # whoever has signed this call has read the one before
            self.store.delete_key(self.kept)
        self.kept = keys[self.rank]
        return found

    def _await(self, keys: dict[int, str], what: str, *, patient: bool = False) -> None:
        start, pause = time.monotonic(), 0.001
        while missing := [rank for rank, key in keys.items() if not self.store.check([key])]:
            if time.monotonic() - start > self.seconds and not patient:
                raise self._silent(missing, what)
            time.sleep(pause)
            pause = min(2 * pause, 0.1)

    def merge(self, own: list[T]) -> list[T]:
        shares = self.gather(own, "validating")
        merged: list[Any] = [None] * sum(map(len, shares))
        for rank, share in enumerate(shares):
            merged[rank :: self.size] = share
        return merged

    def compare(self, facts: dict[str, Any]) -> None:
        first, *others = self.gather(facts, "comparing the runs")
        for rank, other in enumerate(others, 1):
            found = [f"{path} is {there!r}, not {here!r}" for path, here, there in differences(first, other)]
            if found:
                raise UserError(
                    f"{self.name(rank)} differs from {self.name(0)}: {', '.join(found)}",
                    "all ranks need the same TOML and --set, the same versions, and one --out on a disk they share",
                )

    # ---- failures

    def every(self, what: str, action: Callable[[], T]) -> T:
        error: Exception | None = None
        try:
            result = action()
        except Exception as caught:
            error = caught
        if not self.any(error is not None)[0]:
            return result
        found = self.gather(error and _told(error), what)
        if error is not None:
            self.own = error
            raise error
        raise self._from(next(rank for rank, told in enumerate(found) if told), found, what)

    def first(self, what: str, action: Callable[[], T], *, patient: bool = False) -> T:
        self.calls += 1
        key = f"{self.calls}/first"
        if not self.is_first:
            self._await({0: key}, what, patient=patient)
            told = json.loads(self.store.get(key))
            if told["error"]:
                raise self._from(0, [told["error"]], what)
            result: T = told["result"]
            return result
        try:
            result = action()
        except BaseException as error:  # also Ctrl-C: nobody is to wait for what will not come
            self.store.set(key, json.dumps({"error": _told(error)}))
            raise
        self.store.set(key, json.dumps({"result": result, "error": None}))
        return result

    def _from(self, rank: int, found: list[Any], what: str) -> Elsewhere:
        told = found[rank]
        return Elsewhere(f"{self.name(rank)}, {what}: {told['message']}", told["hint"], exit_code=told["exit_code"])

    @contextlib.contextmanager
    def watched(self, where: Callable[[], str]) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            if not isinstance(error, dist.DistError) and "gloo" not in str(error).lower():
                raise
            raise self._silent(self._unsigned(), where(), gone="Timed out" not in str(error)) from error

    def _unsigned(self) -> list[int]:
        """The ranks that do not even say that they wait."""
        try:
            self.store.set(f"waiting/{self.rank}", "")
            end = time.monotonic() + GRACE
            while True:
                missing = [rank for rank in range(self.size) if not self.store.check([f"waiting/{rank}"])]
                if not missing or time.monotonic() > end:
                    return missing
                time.sleep(0.05)
        except RuntimeError:
            return [0]  # the store is rank 0's

    def part_ways(self) -> None:
        """The store goes with rank 0, so it leaves last; not for ever, since something may have gone wrong."""
        with contextlib.suppress(RuntimeError):
            self.store.set(f"bye/{self.rank}", "")
            end = time.monotonic() + GRACE
            while self.is_first and time.monotonic() < end:
                if self.store.check([f"bye/{rank}" for rank in range(self.size)]):
                    return
                time.sleep(0.01)

    def _silent(self, missing: list[int], what: str, *, gone: bool = False) -> UserError:
        who = " and ".join(map(self.name, missing)) or "a connection between ranks"
        how = "is gone" if gone else f"has not answered for {self.seconds:g} s"
        error = UserError(
            f"{who} {how} ({what}; said by {self.name(self.rank)})",
            "its own output says more. The last checkpoint is untouched: go on with `torchrun ... -m regard resume "
            "FOLDER`. A rank that is only slow needs a larger train.timeout_minutes",
            exit_code=FAILURE,
        )
        if 0 in missing and self.rank == min({*range(self.size)} - {*missing}):
            self.own = error  # else nobody would say it: rank 0 has the voice
        return error


def _told(error: BaseException) -> dict[str, Any]:
    if isinstance(error, UserError):
        return {"message": error.message, "hint": error.hint, "exit_code": error.exit_code}
    return {"message": f"{type(error).__name__}: {error}", "hint": "", "exit_code": FAILURE}
