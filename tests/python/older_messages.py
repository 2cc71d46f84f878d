# SPDX-License-Identifier: MIT
"""Messages of WeightSync as releases before threelc.weights wrote them."""
import json
import secrets
import zlib

from threelc import _bundles, delta
from threelc.torch._common.sharing import places
from threelc.torch._common.weight_messages import DTYPES


def sealed(head, frames):
    """A message with this head."""
    head = head if isinstance(head, bytes) else json.dumps(head).encode()
    return _bundles.pack([zlib.crc32(head).to_bytes(4, "little") + head, *frames])


def parts(message):
    """The head, and the frames."""
    head, *frames = _bundles.unpack(message)
    return json.loads(bytes(head[4:])), frames


class Trainer:
    """What published them. named: gives the tensors by their names."""

    def __init__(self, named, form=3):
        self.named, self.form = named, form
        self.trainer, self.sequence, self.published = secrets.token_hex(16), 0, {}

    def publish(self):
        tensors = {name: tensor.detach() for name, tensor in self.named()}
        listed, frames, published = [], [], {}
        for name, place in places(tensors).items():
            tensor = tensors[name]
            entry = {"name": name, "shape": list(tensor.shape), "dtype": DTYPES[tensor.dtype]}
            listed.append(entry)
            if place.root == name:
                published[name] = tensor.contiguous().clone()
                frames.append(delta.compress(self.published.get(name), published[name]))
                continue
            entry["in"] = place.root
            if place.root_strides is not None:
                entry.update(root_strides=place.root_strides, strides=place.strides, first=place.first)
        self.published, self.sequence = published, self.sequence + 1
        return sealed({"format": self.form, "trainer": self.trainer, "sequence": self.sequence, "tensors": listed},
                      frames)
