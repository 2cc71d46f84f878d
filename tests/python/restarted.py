# SPDX-License-Identifier: MIT
"""A training with a checkpoint in each step, that goes on from the last one: torchrun --max-restarts 4
restarted.py FOLDER KILLED_IN

Rank 1 is killed once, in this step. 0.RANK and so on in FOLDER are the checkpoints."""
import faulthandler
import os
import signal
import sys
from pathlib import Path

STEPS = 10


def train(rank, world, folder, killed_in=None):
    """Returns with which step it began."""
    import torch
    import threelc.torch
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(40, 60), torch.nn.Tanh(), torch.nn.Linear(60, 40))
    model = torch.nn.parallel.DistributedDataParallel(model)
    state = threelc.torch.register(model, "3lc:s=1.75")
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    first = min(len(list(folder.glob(f"[0-9]*.{other}"))) for other in range(world))  # after the last that all have
    if first:
        saved = [torch.load(folder / f"{first - 1}.{other}") for other in range(world)]
        model.load_state_dict(saved[rank]["model"])
        optimizer.load_state_dict(saved[rank]["optimizer"])
        state.load_state_dict([each["residuals"] for each in saved])
    for step in range(first, STEPS):
        torch.manual_seed(100 * step + rank)
        optimizer.zero_grad()
        loss = model(torch.randn(8, 40)).pow(2).mean()
        if step == killed_in and rank == 1 and not (folder / "killed").exists():
            (folder / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        loss.backward()
        optimizer.step()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "residuals": state.state_dict(),
                    "first": first}, folder / f"new.{rank}")
        os.replace(folder / f"new.{rank}", folder / f"{step}.{rank}")
    return first


if __name__ == "__main__":
    import torch.distributed as dist

    faulthandler.dump_traceback_later(100)  # where it hangs
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "python"))
    dist.init_process_group("gloo")
    train(dist.get_rank(), dist.get_world_size(), Path(sys.argv[1]), int(sys.argv[2]))
