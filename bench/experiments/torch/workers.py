# SPDX-License-Identifier: MIT
"""Workers in one process: copies of a network that share their weights. Each has batches and batch-norm statistics of
its own."""
import copy
from typing import Any, Dict, List, Tuple

import torch

import images

Gradients = List[torch.Tensor]  # of a worker, flat


def copies_of(model: torch.nn.Module, count: int) -> List[torch.nn.Module]:
    """The model and copies that share its parameters and have buffers of their own."""
    shared = {id(parameter): parameter for parameter in model.parameters()}
    return [model] + [copy.deepcopy(model, dict(shared)) for _ in range(count - 1)]


class Workers:
    """They compute on the CPU, one after the other."""

    def __init__(self, o: Any, data: images.Images, model: torch.nn.Module) -> None:
        self.o, self.data = o, data
        self.models = copies_of(model, o.workers)
        self.parameters = list(model.parameters())
        """what an optimizer is to step, on the CPU"""

    def batch(self, step: int, rank: int) -> Tuple[torch.Tensor, torch.Tensor]:
        return images.batch(self.data, self.o, step, rank, augment=True)

    def gradients(self, step: int) -> Tuple[List[Gradients], float]:
        """Those of all workers, until the next call; and the loss of the first."""
        found, losses = [], []
        for rank, model in enumerate(self.models):
            model.train()
            loss = images.loss(model, self.batch(step, rank))
            found.append([g.flatten() for g in torch.autograd.grad(loss, self.parameters)])
            losses.append(float(loss))
        return found, losses[0]

    def network(self) -> torch.nn.Module:
        """The first worker's, for evaluation."""
        return self.models[0].eval()

    def state_dict(self) -> List[Dict[str, Any]]:
        return [model.state_dict() for model in self.models]

    def load_state_dict(self, states: List[Dict[str, Any]]) -> None:
        for model, state in zip(self.models, states):
            model.load_state_dict(state)


class GpuWorkers(Workers):
    """They compute side by side on a GPU. A step is one CUDA graph; weights come from the CPU, gradients return."""

    def __init__(self, o: Any, data: images.Images, model: torch.nn.Module) -> None:
        super().__init__(o, data, model.to(o.device))
        sizes = [parameter.numel() for parameter in self.parameters]
        self.weights = torch.cat([parameter.detach().flatten() for parameter in self.parameters])
        for parameter, part in zip(self.parameters, self.weights.split(sizes)):
            parameter.data = part.view_as(parameter)
        self.on_gpu = self.parameters
        self.on_cpu = self.weights.cpu().pin_memory()
        self.parameters = [torch.nn.Parameter(part.view_as(parameter))
                           for parameter, part in zip(self.on_gpu, self.on_cpu.split(sizes))]
        self.batches = [self.batch(0, rank) for rank in range(o.workers)]
        self.found = torch.zeros(o.workers, sum(sizes) + 1, device=o.device)  # gradients, and the loss
        self.taken = torch.zeros(o.workers, sum(sizes) + 1, pin_memory=True)
        self.returned = [list(row[:-1].split(sizes)) for row in self.taken]
        self.ready = torch.cuda.Event(blocking=True)
        self.graph = self.captured()

    def compute(self, rank: int) -> None:
        loss = images.loss(self.models[rank], self.batches[rank])
        gradients = torch.autograd.grad(loss, self.on_gpu)
        torch.cat([g.flatten() for g in (*gradients, loss.detach())], out=self.found[rank])

    def captured(self) -> Any:
        """The graph of a step: a branch for each worker."""
        before = [{name: buffer.clone() for name, buffer in model.named_buffers()} for model in self.models]
        streams = [torch.cuda.Stream() for _ in self.models]
        for stream, _ in zip(streams, range(3)):  # what is chosen and loaded in first steps cannot be captured
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for rank in range(len(self.models)):
                    self.compute(rank)
            torch.cuda.synchronize()
        for model, buffers in zip(self.models, before):
            for name, buffer in model.named_buffers():
                buffer.copy_(buffers[name])
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            first = torch.cuda.current_stream()
            for rank, stream in enumerate(streams):
                stream.wait_stream(first)
                with torch.cuda.stream(stream):
                    self.compute(rank)
            for stream in streams:
                first.wait_stream(stream)
        return graph

    def gradients(self, step: int) -> Tuple[List[Gradients], float]:
        for model in self.models:
            model.train()
        self.weights.copy_(self.on_cpu, non_blocking=True)
        for rank, kept in enumerate(self.batches):
            for place, values in zip(kept, self.batch(step, rank)):
                place.copy_(values)
        self.graph.replay()
        self.taken.copy_(self.found, non_blocking=True)
        self.ready.record()
        self.ready.synchronize()
        return self.returned, float(self.taken[0, -1])

    def network(self) -> torch.nn.Module:
        self.weights.copy_(self.on_cpu)
        return super().network()

    def state_dict(self) -> List[Dict[str, Any]]:
        self.weights.copy_(self.on_cpu)
        return super().state_dict()

    def load_state_dict(self, states: List[Dict[str, Any]]) -> None:
        super().load_state_dict(states)
        self.on_cpu.copy_(self.weights)
