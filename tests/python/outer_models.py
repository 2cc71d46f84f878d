# SPDX-License-Identifier: MIT
"""The models that the tests of ways to train share, their data, and trainings that are stopped and go on."""
import torch

from threelc.torch._common.versions import fsdp_runs_on_cpus

HAS_FSDP2 = fsdp_runs_on_cpus()


class Net(torch.nn.Module):
    """With batch normalization, so that there are buffers."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(20, 60)
        self.norm = torch.nn.BatchNorm1d(60)
        self.second = torch.nn.Linear(60, 30)

    def forward(self, x):
        return self.second(torch.relu(self.norm(self.first(x))))


class Linear(torch.nn.Module):
    """A parameter that is compressed and one that is not. Their gradients do not depend on them."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(40, 50))
        self.bias = torch.nn.Parameter(torch.zeros(7))
        self.register_buffer("seen", torch.zeros(3))

    def gradient(self, rank, step):
        draw = torch.Generator().manual_seed(1000 * step + rank)
        return [torch.randn(p.shape, generator=draw) for p in self.parameters()]

    def forward(self, rank, step):
        return sum((p * gradient).sum() for p, gradient in zip(self.parameters(), self.gradient(rank, step)))


class Scaler:
    """Stands in for a GradScaler, which works on GPUs only in some releases."""

    def __init__(self, scale):
        self.scale = scale

    def get_scale(self):
        return self.scale


def shard(world, *modules):
    """fully_shard() on a mesh of this rank alone: each rank has a replica in one shard."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh("cpu", (world, 1), mesh_dim_names=("replicate", "shard"))
    for module in modules:
        fully_shard(module, mesh=mesh["shard"])
    return modules


def build(rank):
    torch.manual_seed(rank)  # ranks start from rank 0's weights, whatever they had
    return Net()


def batch(rank, step):
    return torch.randn(16, 20, generator=torch.Generator().manual_seed(1000 * step + rank))


def backward(model, rank, step):
    loss = model(batch(rank, step)).pow(2).mean()
    loss.backward()
    return float(loss)


def train(rank, model, optimizer, steps):
    for step in steps:
        optimizer.zero_grad()
        backward(model, rank, step)
        optimizer.step()


def ones(model, optimizer, steps=1):
    """Steps in which all gradients are 1."""
    for _ in range(steps):
        for p in model.parameters():
            p.grad = torch.ones_like(p)
        optimizer.step()


def bits(model):
    return {name: tensor.detach().numpy().tobytes() for name, tensor in model.state_dict().items()
            if tensor.is_floating_point()}


def memory(tensors):
    return [tensor.detach().clone().view(-1).view(torch.uint8).numpy().tobytes() for tensor in tensors]


def server_parts(optimizer):
    """The parts of the servers of this rank."""
    return [part for bucket in optimizer._buckets if bucket.server is not None for part in bucket.server.parts()]


def sgd(model, momentum=0.9):
    return torch.optim.SGD(model.parameters(), 0.05, momentum=momentum)


def nesterov(parameters):
    return torch.optim.SGD(parameters, 0.7, momentum=0.9, nesterov=True)


def in_pieces(pieces, make, step):
    """Training in pieces, from step `first` to `last`: each but the first begins in new objects, from the states of the
    ones before. make(): the objects. step(number, *objects). Returns the last objects and their states."""
    states = ()
    for first, last in pieces:
        objects = make()
        for thing, state in zip(objects, states):
            thing.load_state_dict(state)
        for number in range(first, last):
            step(number, *objects)
        states = [thing.state_dict() for thing in objects]
    return objects, states


def resumed(rank, world, pieces, make, settings):
    """The bits of a model that is trained in pieces, its state, and that of its optimizer. make(model, settings): the
    optimizer, and the one inside it whose state is the caller's to save, or None."""
    def made():
        model = build(rank)
        return [model, *filter(None, make(model, settings))]

    (model, *_), states = in_pieces(pieces, made, lambda step, *both: train(rank, *both[:2], [step]))
    return bits(model), states[0], states[1]
