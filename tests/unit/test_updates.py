"""One optimizer update: what it refuses before the first."""

import pytest
import torch

from gradscope.errors import GradscopeError
from gradscope.worker.optimizers.cgd import CGD
from gradscope.worker.update import Updater
from tests.training import Blocks, regression


def test_fp16_is_refused_with_an_optimizer_that_evaluates_the_loss_itself() -> None:
    module = Blocks(count=1)
    optimizer = CGD(module.parameters())
    with pytest.raises(GradscopeError, match="fp16 with CGD, which evaluates the loss itself"):
        Updater(regression(module), module, optimizer, device=torch.device("cpu"), precision="fp16")
