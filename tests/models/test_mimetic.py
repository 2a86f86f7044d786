"""Mimetic initialisation: before any training, a patch looks at its neighbours."""

import torch

from regard.inspection.attention import attention
from regard.inspection.reading import read_image
from regard.models.base import initialise
from regard.models.mimetic import imitate, waves
from regard.models.vit import Vit, VitConfig

CONFIG = VitConfig(d_model=64, n_heads=2, d_ff=64, n_layers=2, image_size=(24, 24), patch_size=4, channels=1)


def near_and_far(model: Vit) -> tuple[float, float]:
    """Mean weight of the first layer on patches one step away, and on patches four or more steps away."""
    torch.manual_seed(1)
    weights = attention(read_image(model, torch.rand(1, 24, 24)), "encoder", layer=0)[1:, 1:]  # (36, 36)
    places = torch.cartesian_prod(torch.arange(6), torch.arange(6))
    apart = (places[:, None] - places).abs().amax(-1)
    return float(weights[apart == 1].mean()), float(weights[apart >= 4].mean())


def test_a_fresh_patch_looks_at_its_neighbours() -> None:
    torch.manual_seed(0)
    model = Vit(CONFIG).eval()
    initialise(model, "normal")
    near, far = near_and_far(model)
    assert near < 1.1 * far  # looks nowhere
    imitate(model, CONFIG.grid)
    near, far = near_and_far(model)
    assert near > 1.5 * far


def test_waves_are_most_alike_for_neighbours() -> None:
    found = waves((6, 6), 64)
    alike = found @ found.mT
    assert (alike.argmax(-1) == torch.arange(36)).all()
    assert alike[14, 15] > alike[14, 17]
    assert alike[14, 8] > alike[14, 2] > 0


def test_the_class_token_does_not_begin_as_zeros() -> None:
    """A norm's gradient at a vector of zeros is 1 / sqrt(eps): it would drown all others in the first steps."""
    torch.manual_seed(0)
    model = Vit(CONFIG)
    initialise(model, "normal")
    imitate(model, CONFIG.grid)
    logits = model(torch.rand(4, 1, 24, 24)).logits
    torch.nn.functional.cross_entropy(logits, torch.arange(4)).backward()
    assert torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None]) < 100
