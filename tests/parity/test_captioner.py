"""A captioner that transformers saved opens here, with the same scores at every step."""

from pathlib import Path

import pytest
import torch
import transformers as hf

from parity.tiny import _GPT2 as GPT2
from parity.tiny import _VIT as VIT
from regard.models.captioner import Captioner
from regard.weights.store import load_model, save_model

pytestmark = pytest.mark.parity


def theirs(folder: Path) -> hf.VisionEncoderDecoderModel:
    torch.manual_seed(0)
    encoder, decoder = hf.ViTConfig(**VIT), hf.GPT2Config(**GPT2, n_inner=20)
    config = hf.VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    config.decoder_start_token_id, config.pad_token_id, config.eos_token_id = 1, 0, 2
    model = hf.VisionEncoderDecoderModel(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    return model


def test_it_opens_here_with_the_same_scores_and_goes_back(tmp_path: Path) -> None:
    expected_by, ours = theirs(tmp_path / "theirs"), load_model(tmp_path / "theirs")
    assert isinstance(ours, Captioner)
    pixels, ids = torch.randn(2, 3, 12, 12), torch.randint(3, 37, (2, 7))
    with torch.inference_mode():
        expected = expected_by(pixel_values=pixels, decoder_input_ids=ids).logits
        torch.testing.assert_close(ours(pixels, ids).logits, expected, atol=1e-4, rtol=1e-5)
        state = ours.new_state(ours.encode(pixels), None, 8)
        for at in range(ids.size(1)):  # one token at a time
            torch.testing.assert_close(ours.step(ids[:, at : at + 1], state), expected[:, at], atol=1e-4, rtol=1e-5)
        save_model(ours, tmp_path / "ours")
        again = hf.VisionEncoderDecoderModel.from_pretrained(tmp_path / "ours").eval()
        torch.testing.assert_close(again(pixel_values=pixels, decoder_input_ids=ids).logits, expected)
