# SPDX-License-Identifier: MIT
"""Which tensors of a model have memory in common: tied weights, views, flattened parameters."""
from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

Strides = Tuple[int, ...]


class Place(NamedTuple):
    """Where a tensor lies, as a part of the tensor `root`, which shares its memory with no other root."""

    root: str
    root_strides: Optional[Strides] = None
    """of the dimensions of root, which is dense in memory. None: the tensor is the whole root, in its shape"""
    strides: Strides = ()
    """of the tensor's own dimensions, in that memory"""
    first: int = 0
    """its first value in that memory"""


class _Extent(NamedTuple):
    """The addresses that a tensor reaches over."""

    start: int
    end: int
    name: str
    tensor: torch.Tensor


class Overlap(ValueError):
    """Two tensors have some memory in common, but neither is a part of the other."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} and {other} have memory in common, but neither is a view of the other that can be "
                         "sent: give one of them memory of its own")
        self.names = one, other


def strides_of(tensor: torch.Tensor) -> Strides:
    """Its strides, 0 for dimensions of one value."""
    return tuple(stride if length > 1 else 0 for length, stride in zip(tensor.shape, tensor.stride()))


def reach(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Values of memory from the first to the last one of a tensor that is not empty."""
    return 1 + sum((length - 1) * stride for length, stride in zip(shape, strides))


def dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether a tensor has each value of its memory once, in any order of dimensions."""
    at = 1
    for stride, length in sorted((stride, length) for length, stride in zip(shape, strides) if length > 1):
        if stride != at:
            return False
        at *= length
    return True


def overlaps_itself(tensor: torch.Tensor) -> bool:
    """Whether several of its values are the same memory, as after expand()."""
    if not tensor.numel() or dense(tensor.shape, tensor.stride()):
        return False
    touched = torch.zeros(reach(tensor.shape, tensor.stride()), dtype=torch.bool)
    touched.as_strided(tensor.shape, tensor.stride()).fill_(True)
    return bool(touched.sum() < tensor.numel())


def places(tensors: Dict[str, torch.Tensor]) -> Dict[str, Place]:
    """The place of each tensor. Overlap: two have some memory in common, but neither is a part of the other."""
    devices: Dict[torch.device, List[_Extent]] = {}  # by addresses: two storages may have the same memory
    for name, tensor in tensors.items():
        if tensor.numel():
            start, size = tensor.data_ptr(), tensor.element_size()
            devices.setdefault(tensor.device, []).append(
                _Extent(start, start + size * reach(tensor.shape, tensor.stride()), name, tensor))
    found = {name: Place(name) for name in tensors}
    for extents in devices.values():
        roots: List[_Extent] = []  # those that may reach over the next one
        for extent in sorted(extents, key=lambda e: (e.start, -e.end, -e.tensor.numel())):
            roots = [root for root in roots if root.end > extent.start]
            inside = [place for place in (_place_in(root, extent) for root in roots) if place is not None]
            if inside:
                found[extent.name] = inside[0]
            else:
                roots.append(extent)
    return found


def shared(tensors: Dict[str, torch.Tensor]) -> Optional[Tuple[str, str]]:
    """The names of two that have some memory in common. None: there are none."""
    try:
        found = places(tensors)
    except Overlap as error:
        return error.names
    return next(((place.root, name) for name, place in found.items() if place.root != name), None)


def _place_in(root: _Extent, extent: _Extent) -> Optional[Place]:
    """None: they have no memory in common."""
    whole, part = root.tensor, extent.tensor
    size = whole.element_size()
    if whole.dtype == part.dtype and (extent.start - root.start) % size == 0:
        strides, first = strides_of(part), (extent.start - root.start) // size
        if first == 0 and whole.shape == part.shape and strides_of(whole) == strides:
            return Place(root.name)
        if dense(whole.shape, whole.stride()) and extent.end <= root.end:
            return Place(root.name, strides_of(whole), strides, first)
        touched = torch.zeros((max(root.end, extent.end) - root.start) // size, dtype=torch.bool)
        touched.as_strided(whole.shape, whole.stride()).fill_(True)
        if not touched.as_strided(part.shape, part.stride(), first).any():
            return None
    raise Overlap(root.name, extent.name)


def values_in(root: torch.Tensor, place: Place, shape: Sequence[int]) -> torch.Tensor:
    """The values of a tensor of this place and shape."""
    if place.root_strides is None:
        return root
    memory = torch.empty_strided(tuple(root.shape), place.root_strides, dtype=root.dtype)
    return memory.copy_(root).as_strided(tuple(shape), place.strides, place.first)


def check_same(mine: Dict[str, Place], theirs: Dict[str, Place]) -> None:
    """Raises ValueError if tensors share memory here that have values of their own there. The reverse is no harm."""
    for name, place in mine.items():
        if place.root == name:
            continue
        one, other = theirs[name], theirs[place.root]
        if place.root_strides is None:  # the same values
            same = one == other
        elif other.root_strides is None:  # there, too, a part of that tensor
            same = one == place._replace(root=other.root)
        else:  # both are parts of a third one
            same = (one.root == other.root and one.strides == place.strides and other.strides == place.root_strides
                    and one.first - other.first == place.first)
        if not same:
            raise ValueError(f"{name} and {place.root} share memory in this model, but not in the one that was "
                             "published, or in another way: give each memory of its own")
