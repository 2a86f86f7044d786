"""A run's length in steps, where its settings count in rounds through the data."""

from dataclasses import replace

import numpy as np

from regard.data.batches import Steps
from regard.training.config import RunConfig


def in_steps(config: RunConfig, lengths: np.ndarray) -> RunConfig:
    """The same run with every length in steps; the order of the data, and so the count, is a function of the seed."""
    train, valid = config.train, config.valid
    if not train.epochs and valid.every:
        return config
    in_one = Steps(lengths, budget=train.batch_tokens, seed=config.seed).steps_in_epoch(0)
    if train.epochs:
        steps = max(1, round(in_one * train.epochs))
        train = replace(train, steps=steps, warmup=min(train.warmup, steps // 10))
    return replace(config, train=train, valid=replace(valid, every=valid.every or in_one))


def is_same(kept: RunConfig, asked: RunConfig) -> bool:
    """Whether `kept`, which is in steps, is what was asked for, which may count in rounds."""
    train, valid = asked.train, asked.valid
    if train.epochs:
        train = replace(train, steps=kept.train.steps, warmup=kept.train.warmup)
    return kept == replace(asked, train=train, valid=replace(valid, every=valid.every or kept.valid.every))
