"""Ranks that `torchrun` has started: how they meet, and what DDP and FSDP2 make of the model."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from regard.errors import FAILURE, USAGE, UserError
from regard.layers.block import Block
from regard.models.base import Model
from regard.training import checkpoint, sharded
from regard.training.config import TrainConfig
from regard.training.ranks import Ranks
from regard.training.together import Together


@contextmanager
def joined(train: TrainConfig) -> Iterator[Ranks]:
    """The ranks of this run, as long as they are together."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if train.parallel == "none":
        raise UserError(
            f'{size} ranks were started, but train.parallel is "none"',
            "choose one with --set train.parallel=ddp or fsdp, or start without torchrun",
            exit_code=USAGE,
        )
    device = f"{train.device}:{os.environ.get('LOCAL_RANK', '0')}" if train.device == "cuda" else "cpu"
    if train.device == "cuda":
        torch.accelerator.set_device_index(int(os.environ.get("LOCAL_RANK", "0")))
    timeout = timedelta(minutes=train.timeout_minutes)
    backend = "cpu:gloo,cuda:nccl" if train.device == "cuda" else "gloo"
    try:
        store = _store(timeout)
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)
    except (RuntimeError, ValueError) as error:
        address = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        raise UserError(
            f"rank {rank} of {size} did not meet the others at {address}: {str(error).splitlines()[0]}",
            "is rank 0 running there, does the name resolve, is the port free and open to all machines?",
            exit_code=FAILURE,
        ) from error
    ranks: Together | None = None
    try:
        kind = Ddp if train.parallel == "ddp" else Fsdp
        ranks = kind(PrefixStore("regard", store), timeout.total_seconds(), device)
        yield ranks
    finally:
        if ranks is not None:
            ranks.part_ways()
        dist.destroy_process_group()


def _store(timeout: timedelta) -> Store:
    store, _, _ = next(rendezvous("env://", timeout=timeout))
    # An agent that lends its own store does not clear it when it restarts the ranks, and the new ones would call at
    # the old ones' addresses. On one machine all ranks know how often that was. On several they may count
    # differently: there TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 gives every start a store of its own.
    if os.environ.get("GROUP_WORLD_SIZE") == "1":
        return PrefixStore(f"start-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    return store


class Ddp(Together):
    """Every rank holds the whole model and adds its gradients to the others' (`DistributedDataParallel`)."""

    def spread(self, model: Model) -> nn.Module:
        trained = DistributedDataParallel(model, gradient_as_bucket_view=True)
        trained.register_comm_hook(None, _summed)
        return trained

    def part(self, trained: nn.Module, *, last: bool) -> AbstractContextManager[None]:
        assert isinstance(trained, DistributedDataParallel)
        return nullcontext() if last else trained.no_sync()


def _summed(_: Any, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:  # type: ignore[name-defined]
    """The sum, not DDP's mean: the loss is divided already, by the targets of all ranks."""
    work = dist.all_reduce(bucket.buffer(), async_op=True)
    assert work is not None
    return work.get_future().then(lambda future: future.value()[0])


class Fsdp(Together):
    """Every rank holds a share of each weight, gradient and moment (FSDP2, `fully_shard`)."""

    def spread(self, model: Model) -> nn.Module:
        mesh = init_device_mesh(self.device.type, (self.size,))
        for module in [*(module for module in model.modules() if isinstance(module, Block)), model]:
            fully_shard(module, mesh=mesh)
            assert isinstance(module, FSDPModule)
            module.set_gradient_divide_factor(1.0)  # the sum, as in Ddp
            module.set_force_sum_reduction_for_comms(True)  # gloo knows no other way to leave the division out
        return model

    def whole(self, model: Model, blank: Callable[[], Model]) -> Model:
        copy = blank().to(self.device)
        copy.load_state_dict({name: self.full(tensor) for name, tensor in model.state_dict().items()})
        return copy

    def full(self, tensor: Tensor) -> Tensor:
        return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor

    def local(self, tensor: Tensor) -> Tensor:
        share: Tensor = tensor.to_local()  # type: ignore[attr-defined]
        return share

    def over_shares(self, value: float) -> float:
        return self.sum(value)[0]

    def row(self, table: Tensor, index: int) -> Tensor:
        start = self.rank * -(-len(table) // self.size)  # as torch.chunk cuts
        return self.local(table)[max(index - start, 0) : max(index - start + 1, 0)]

    def save(
        self, folder: Path, step: int, model: Model, optimizer: torch.optim.Optimizer, meta: dict[str, Any]
    ) -> None:
        """Every rank writes its shares; the checkpoint appears when all are there."""
        place = Path(self.first("saving", lambda: str(checkpoint.begin(folder, step))))
        sharded.write(place, model, optimizer)
        own = self.every("saving", lambda: sharded.marks_of(place, self.rank))
        files = {name: mark for share in self.gather(own, "saving") for name, mark in share.items()}
        self.first("publishing", lambda: str(checkpoint.publish(place, step, files, meta)))

    def restore(self, path: Path, model: Model, optimizer: torch.optim.Optimizer) -> None:
        sharded.read(path, model, optimizer, alone=False)
