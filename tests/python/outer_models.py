# SPDX-License-Identifier: MIT
"""The models that the tests of ways to train share, their data, and trainings that are stopped and go on."""
import torch


class Net(torch.nn.Module):
    """With batch normalization, so that there are buffers."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(20, 60)
        self.norm = torch.nn.BatchNorm1d(60)
        self.second = torch.nn.Linear(60, 30)

    def forward(self, x):
        return self.second(torch.relu(self.norm(self.first(x))))


class Sharded(torch.nn.Module):
    """Stands in for a module that fully_shard() was called for: its hook gets the averaged gradient of this shard."""

    def __init__(self, n):
        super().__init__()
        self.n, self.hook = n, None

    def set_all_reduce_hook(self, hook, *, stream=None):
        self.hook = hook

    def backward_ends(self, gradient):
        self.hook(gradient)
        return gradient


def build(rank):
    torch.manual_seed(rank)  # ranks start from rank 0's weights, whatever they had
    return Net()


def batch(rank, step):
    return torch.randn(16, 20, generator=torch.Generator().manual_seed(1000 * step + rank))


def backward(model, rank, step):
    loss = model(batch(rank, step)).pow(2).mean()
    loss.backward()
    return float(loss)


def bits(model):
    return {name: tensor.detach().numpy().tobytes() for name, tensor in model.state_dict().items()
            if tensor.is_floating_point()}


def sgd(model, momentum=0.9):
    return torch.optim.SGD(model.parameters(), 0.05, momentum=momentum)


def nesterov(parameters):
    return torch.optim.SGD(parameters, 0.7, momentum=0.9, nesterov=True)


def resumed(rank, world, pieces, make, settings):
    """Training in pieces: each but the first begins in a new model, from the state of the one before. make(model,
    settings): the optimizer, and the one inside it whose state is the caller's to save, or None."""
    saved = None
    for first, last in pieces:
        model = build(rank)
        optimizer, inner = make(model, settings)
        if saved is not None:
            model.load_state_dict(saved[0])
            optimizer.load_state_dict(saved[1])
            if inner is not None:
                inner.load_state_dict(saved[2])
        for step in range(first, last):
            optimizer.zero_grad()
            backward(model, rank, step)
            optimizer.step()
        saved = ({name: t.clone() for name, t in model.state_dict().items()}, optimizer.state_dict(),
                 inner and inner.state_dict())
    return bits(model), saved[0], saved[1]
