# SPDX-License-Identifier: MIT
"""A served model follows one that is trained, to the bit: python3 weights.py"""
import torch
import threelc.torch


def make():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
    return model.to(torch.bfloat16)


trained, served = make(), make()
optimizer = torch.optim.AdamW(trained.parameters(), lr=1e-5)
publisher, receiver = threelc.torch.WeightSync(trained), threelc.torch.WeightSync(served)
receiver.receive(publisher.publish())  # the first message has all weights

size = sum(p.numel() * p.element_size() for p in trained.parameters())
for step in range(1, 4):
    x = torch.randn(64, 256)
    loss = torch.nn.functional.cross_entropy(trained(x.bfloat16()).float(), x[:, :10].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    message = publisher.publish()  # bytes, the same for all receivers; your program carries them
    receiver.receive(message)
    exact = all(torch.equal(a, b) for a, b in zip(trained.parameters(), served.parameters()))
    print(f"step {step}: {len(message):,} bytes in place of {size:,}, {'exact' if exact else 'wrong'}")
