# SPDX-License-Identifier: MIT
"""Local steps: ranks train alone, and exchange what changed every 20 steps (DiLoCo, SparseLoCo):
torchrun --nproc_per_node 4 local_steps.py"""
import torch
import torch.distributed as dist
import threelc.torch

dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
optimizer = threelc.torch.LocalSteps(  # in place of the optimizer; the model is not wrapped
    model, torch.optim.AdamW(model.parameters(), lr=1e-3),
    outer=lambda p: torch.optim.SGD(p, lr=0.7, momentum=0.9, nesterov=True),
    every=20, codec="topk:p=0.03,bits=2,block=4096+golomb")

torch.manual_seed(1 + dist.get_rank())  # your data; each rank has its own
for step in range(1, 201):
    x = torch.randn(64, 256)
    loss = torch.nn.functional.cross_entropy(model(x), x[:, :10].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if dist.get_rank() == 0 and step % 50 == 0:
        stats = optimizer.stats
        print(f"step {step}: loss {loss:.2f}, sent {stats.sent:,} bytes, as floats {stats.float_bytes:,}")
