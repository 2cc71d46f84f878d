# SPDX-License-Identifier: MIT
"""3LC's fine-grained barriers (section 3). PyTorch tells while a model computes that a gradient is there, and that a
module is about to read its parameters."""
from __future__ import annotations

import threading
import weakref
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set

import torch

from .._common.module import Model


class Overlap:
    """Watches a model. Its hooks do not keep it alive, and go when it does."""

    def __init__(self, model: Model, buckets: Sequence[Sequence[str]],
                 needed: Callable[[Optional[Set[str]]], None], full: Optional[Callable[[int], None]]) -> None:
        """buckets: names of parameters. needed: is called with the names of the parameters that a module is about to
        read; None: all may be read. full: is called with the index of each bucket, in this order, as soon as all its
        gradients of this step are there. None: it is not called. Neither is kept alive."""
        self._root = model.module
        self._names = {id(parameter): name for name, parameter in model.parameters.items()}
        self._bucket = {name: i for i, names in enumerate(buckets) for name in names}
        self._sizes = [len(names) for names in buckets]
        self._needed = _Weakly(needed)
        self._accumulates = False
        self._lock = threading.Lock()  # gradients of several devices come from several threads
        self.begin()
        self._called: "weakref.WeakSet[Any]" = weakref.WeakSet()  # modules whose forward() was called
        self._reads: Dict[Any, Set[str]] = {}  # of modules, when _reads_of of them were called
        self._reads_of = 0
        came, about = _Weakly(self._came), _Weakly(self._about_to_compute)
        computed, saved = _Weakly(self._computed), _Weakly(self._saved)
        handles: List[Any] = []
        if full is not None:
            self._full = _Weakly(full)
            self._accumulators = [_accumulator(parameter) for parameter in model.parameters.values()]
            handles += [accumulator.register_hook(_with(came, name))
                        for name, accumulator in zip(model.parameters, self._accumulators)]
        handles += [module.register_forward_pre_hook(about) for module in self._root.modules()]
        handles += [self._root.register_forward_hook(computed), self._root._register_state_dict_hook(saved),
                    self._root._register_load_state_dict_pre_hook(saved)]
        weakref.finalize(self, _remove, handles)

    def begin(self) -> None:
        """Gradients that come now are of the next step."""
        self._seen: Set[str] = set()
        self._left = list(self._sizes)
        self._next = 0

    @contextmanager
    def accumulating(self) -> Iterator[None]:
        """Gradients that come meanwhile are not the last of their step."""
        before, self._accumulates = self._accumulates, True
        try:
            yield
        finally:
            self._accumulates = before

    def _came(self, name: str, *_: Any) -> None:
        with self._lock:
            if self._accumulates:
                return
            if name in self._seen:
                raise RuntimeError(f"a second gradient of {name} came before step(), when the first was on its way: "
                                   "with overlap=True all backward passes of a step but the last go into "
                                   "`with optimizer.no_sync():`")
            self._seen.add(name)
            self._left[self._bucket[name]] -= 1
            while self._next < len(self._left) and not self._left[self._next]:
                self._next += 1
                self._full(self._next - 1)

    # ---- modules ----

    def _about_to_compute(self, module: Any, _: Any) -> None:
        self._called.add(module)
        # Without gradients modules may take a shorter way, which reads parameters of others.
        trains = self._root.training and torch.is_grad_enabled()
        self._needed(self._read_by(module) if trains else None)

    def _computed(self, *_: Any) -> None:
        self._needed(None)

    def _saved(self, *_: Any) -> None:
        """What is in a state of the module lies in the memory of the parameters."""
        self._needed(None)

    def _read_by(self, module: Any) -> Set[str]:
        """Its own parameters, and those of modules in it that are not called, as torch.nn.MultiheadAttention reads the
        weight of its out_proj."""
        if self._reads_of != len(self._called):
            self._reads, self._reads_of = {}, len(self._called)
        if module not in self._reads:
            names = {self._names[id(p)] for p in module._parameters.values() if id(p) in self._names}
            self._reads[module] = names.union(*(self._read_by(child) for child in module.children()
                                                if child not in self._called))
        return self._reads[module]


def _accumulator(parameter: torch.Tensor) -> Any:
    """The node of autograd that adds to the gradient. Its hooks are called afterwards."""
    with torch.enable_grad():
        node: Any = parameter.expand_as(parameter).grad_fn
    return node.next_functions[0][0]


class _Weakly:
    """A method that does nothing once its object is gone. Copies and pickles of a module have one without an object."""

    def __init__(self, method: Optional[Callable[..., None]] = None) -> None:
        self._reference: Callable[[], Any] = lambda: None
        if method is not None:
            self._reference = weakref.WeakMethod(method)

    def __call__(self, *arguments: Any) -> None:
        found = self._reference()
        if found is not None:
            found(*arguments)

    def __reduce__(self) -> Any:
        return _Weakly, ()


def _with(function: Callable[..., None], name: str) -> Callable[..., None]:
    return lambda *arguments: function(name, *arguments)


def _remove(handles: List[Any]) -> None:
    for handle in handles:
        handle.remove()
