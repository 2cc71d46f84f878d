# SPDX-License-Identifier: MIT
"""The options of the experiments. Each program reads them before it loads PyTorch, so that --help needs nothing and
answers at once."""
import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "lib"))
from arguments import Parser  # noqa: E402

WAYS = {
    "alone": "no exchange: what computing takes",
    "floats": "DistributedDataParallel as it is",
    "fp16": "torch's fp16_compress_hook",
    "powersgd": "torch's powerSGD_hook, --rank, one bucket",
    "sharded": "threelc.torch.register, --codec",
    "gather": "the same in mode gather",
    "local": "threelc.torch.LocalSteps, --codec, --every, --outer, --error-reset, --decay, --fragments, --delay, --mix",
    "local-sharded": "the same in mode sharded, with a second lossy step",
    "push-pull": "threelc.torch.PushPull, --codec, --servers",
    "sharded-optimizer": "threelc.torch.ShardedOptimizer, --codec",
    "dcd": "threelc.torch.Gossip on a ring, --codec without bias",
    "ecd": "the same with ECD-PSGD",
}


def folder(text: str) -> Path:
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text}: there is no such folder")
    return Path(text)


def common() -> Parser:
    """The options of all programs that train."""
    parser = Parser(description=sys.modules["__main__"].__doc__,
                    formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--data", type=folder, required=True, help="folder with the files")
    parser.add_argument("--pull", help="of what comes back; else the library's choice")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=32, help="of each worker")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--evaluate-every", type=int, default=100, metavar="STEPS")
    parser.add_argument("--csv", type=Path, help="rows are added to this file, at each evaluation")
    return parser


def options_of(**defaults: Any) -> Parser:
    parser = common()
    parser.add_argument("--way", choices=WAYS, default="sharded", help="; ".join(f"{k}: {v}" for k, v in WAYS.items()))
    parser.add_argument("--codec", default="3lc", help="of gradients or changes")
    parser.add_argument("--dense-start", type=int, metavar="STEPS",
                        help="the first steps, or rounds of local steps, go as floats, then comes the codec; default 1 "
                        "with sharded and gather, else 0")
    parser.add_argument("--momentum-correction", type=float, default=0.0, metavar="MOMENTUM",
                        help="of ranks, in place of the optimizer's")
    parser.add_argument("--second-moment", type=float, metavar="BETA",
                        help="of ranks, in place of the optimizer's, which then has the first moment alone")
    parser.add_argument("--every", type=int, default=20, help="local steps in a round")
    parser.add_argument("--outer", choices=("none", "nesterov"), default="nesterov", help="optimizer of rounds")
    parser.add_argument("--error-reset", type=float, default=1.0, metavar="SHARE",
                        help="of what was not sent in a round, that stays in a rank's weights")
    parser.add_argument("--decay", type=float, default=1.0, help="of what was not sent in a round")
    parser.add_argument("--mask-momentum", action="store_true",
                        help="momentum becomes 0 where a value was sent, as in SBC; of local steps")
    parser.add_argument("--fragments", type=int, default=1, help="of the model, exchanged in turn (Streaming DiLoCo)")
    parser.add_argument("--delay", type=int, default=0, metavar="STEPS", help="from the start of a round to its result")
    parser.add_argument("--mix", type=float, default=0.0, help="of local weights in those after a round")
    parser.add_argument("--servers", type=int, default=1, help="ranks that are servers")
    parser.add_argument("--rank", type=int, default=2, help="of powersgd's matrices")
    parser.add_argument("--workers", type=int, default=4, help="processes started here; not under torchrun")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--no-evaluation", action="store_true", help="the model is not tested")
    parser.add_argument("--stop-after", type=int, default=0, metavar="STEPS", help="leave off here; 0: do not")
    parser.add_argument("--checkpoint", type=Path, help="folder: saves at each evaluation, and goes on from there")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    parser.set_defaults(**defaults)
    return parser


def one_process_options() -> Parser:
    """Those of one_process.py."""
    parser = common()
    parser.add_argument("--way", choices=("floats", "fp16", "sharded", "gather", "sharded-optimizer"),
                        default="sharded", help="as those of cifar.py")
    parser.add_argument("--codec", default="3lc", help="of gradients")
    parser.add_argument("--dense-start", type=int, metavar="STEPS",
                        help="the first steps go as floats, then comes the codec; default 1 with sharded and gather, "
                        "else 0")
    parser.add_argument("--momentum-correction", type=float, default=0.0, metavar="MOMENTUM",
                        help="at the workers, in place of the optimizer's; not with floats and halves")
    parser.add_argument("--every", type=int, default=1, metavar="STEPS",
                        help="so many gradients are added up, then sent (3LC's local steps); not with floats, halves")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--layers", type=int, default=20, help="of the ResNet: 20, 32, ... 110")
    parser.add_argument("--size", type=int, default=32, help="of images; smaller ones are means of pixels")
    parser.add_argument("--checkpoint", type=Path, help="file: saves at each evaluation, and goes on from there")
    parser.add_argument("--bits", type=Path, metavar="CSV",
                        help="bits of pushes and pulls of each step are added to this file; not with floats and halves")
    parser.add_argument("--device", default="cpu", help="where the networks are, as cuda; the exchange is on the CPU")
    parser.set_defaults(steps=1500, evaluate_every=250)
    return parser
