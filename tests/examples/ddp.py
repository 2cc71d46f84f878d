# SPDX-License-Identifier: MIT
"""DistributedDataParallel with frames of 3LC: torchrun --nproc_per_node 4 ddp.py"""
import torch
import torch.distributed as dist
import threelc.torch

dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
model = torch.nn.parallel.DistributedDataParallel(model)
state = threelc.torch.register(model, codec="3lc-golomb")  # this line is new
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

torch.manual_seed(1 + dist.get_rank())  # your data; each rank has its own
for step in range(1, 201):
    x = torch.randn(64, 256)
    loss = torch.nn.functional.cross_entropy(model(x), x[:, :10].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if dist.get_rank() == 0 and step % 50 == 0:
        print(f"step {step}: loss {loss:.2f}, sent {state.stats.sent:,} bytes, as floats {state.stats.float_bytes:,}")
