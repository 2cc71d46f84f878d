#!/bin/bash
# SPDX-License-Identifier: MIT
# The experiments in PyTorch: a run that is stopped goes on with the same bits and the same counts; another way trains.
# experiments.sh SOURCE_ROOT LIBRARY PYTHON
# With TLC_TEST_QUICK=1 a dense start is compared for one way alone.
set -euo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
root=$1 python=$3
"$python" -c 'import torch' 2>/dev/null || { echo 'skipped: there is no torch'; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export THREELC_LIBRARY=$2 PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore OMP_NUM_THREADS=1
# Debian builds PyTorch 2 without libuv; gloo need not ask DNS for the name of this host
export USE_LIBUV=0 GLOO_SOCKET_IFNAME=lo
mkdir data
cp "$root/README.md" data/text.txt
text() {
  "$python" "$root/bench/experiments/torch/text.py" --data data --model lstm --length 12 --batch 2 --workers 2 \
    --evaluate-every 3 --quiet "$@" >out 2>&1 || { echo "$*:"; cat out; exit 1; }
}

second=(--second-moment 0.95 --momentum-correction 0.5 --steps 6)
text "${second[@]}" --csv whole.csv
text "${second[@]}" --csv parts.csv --checkpoint saved --stop-after 3
text "${second[@]}" --csv parts.csv --checkpoint saved
# all columns but the seconds
same() { "$python" -c 'import csv, sys
for row in csv.DictReader(open(sys.argv[1])):
    print([value for name, value in row.items() if "seconds" not in name])' "$1"; }
diff <(same whole.csv) <(same parts.csv)
[[ $(wc -l <whole.csv) == 3 ]]
# a run that is all dense start equals that of raw, and differs from that of the codec
losses() { "$python" -c 'import csv, sys
print([row["loss"] for row in csv.DictReader(open(sys.argv[1]))])' "$1"; }
ways=(local)
[[ ${TLC_TEST_QUICK-} ]] || ways+=(sharded sharded-optimizer)
for way in "${ways[@]}"; do
  text --way $way --every 1 --steps 3 --codec 3lc:s=1.75 --dense-start 3 --csv dense.$way.csv
  text --way $way --every 1 --steps 3 --codec raw --csv raw.$way.csv
  text --way $way --every 1 --steps 3 --codec 3lc:s=1.75 --csv codec.$way.csv
  dense=$(losses dense.$way.csv)
  [[ $dense == "$(losses raw.$way.csv)" && $dense != "$(losses codec.$way.csv)" ]] ||
    { echo "$way: a dense start is not as raw"; exit 1; }
done
text --way dcd --codec qsgd:bits=8 --steps 3
grep -q 'text-lstm dcd qsgd:bits=8 step 3: loss' out

# the workers in one process train as the workers in processes do, to the bit
"$python" - <<'PYTHON'
import random
random.seed(1)
for name, count in (("data_batch_1", 40), ("test_batch", 10)):
    with open(f"data/{name}.bin", "wb") as file:
        for i in range(count):
            file.write(bytes([i % 10]) + random.randbytes(3072))
PYTHON
trained() { "$python" -c 'import csv, sys
print([(row["train_loss"], row["loss"], row["accuracy"]) for row in csv.DictReader(open(sys.argv[1]))])' "$1"; }
for way in sharded sharded-optimizer; do
  start=() # that of sharded has one step
  [[ $way == sharded ]] || start=(--dense-start 2)
  for program in cifar one_process; do
    "$python" "$root/bench/experiments/torch/$program.py" --data data --size 8 --batch 4 --workers 2 --steps 6 \
      --evaluate-every 3 --codec 3lc:s=1.75 --way $way "${start[@]}" \
      --csv $program.$way.csv >out 2>&1 || { cat out; exit 1; }
  done
  [[ $(trained cifar.$way.csv) == "$(trained one_process.$way.csv)" ]] ||
    { echo "$way: $(trained cifar.$way.csv), and in one process $(trained one_process.$way.csv)"; exit 1; }
done

# and so they do with momentum of their own, also when the run was stopped
alone=(--data data --size 8 --batch 4 --workers 2 --steps 6 --evaluate-every 3 --codec topk:p=0.1
  --momentum-correction 0.9)
"$python" "$root/bench/experiments/torch/one_process.py" "${alone[@]}" --csv corrected.csv >out 2>&1 ||
  { cat out; exit 1; }
"$python" - "$root/bench/experiments/torch" "${alone[@]}" --csv stopped.csv --checkpoint stopped >out <<'PYTHON'
import sys
sys.path.insert(0, sys.argv.pop(1))
import one_process
save = one_process.save
def save_and_stop(*arguments):
    save(*arguments)
    sys.exit()
one_process.save = save_and_stop

# gradients of two steps are added up, those of each worker
sent = []
class Sent(one_process.Compressed):
    def exchange(self, gradients):
        sent.append([[g.tolist() for g in of_worker] for of_worker in gradients])
o = one_process.OPTIONS.parse_args()
o.every, o.momentum_correction, o.dense_start = 2, 0, 0
two = Sent(o, [one_process.torch.nn.Parameter(one_process.torch.zeros(2))])
for step in range(4):
    given = [[one_process.torch.tensor([float(step), 1.0])], [one_process.torch.tensor([10.0 * step, 0.0])]]
    two.step(given)
    given[0][0].fill_(9.0)  # as GpuWorkers do with theirs
assert sent == [[[[1.0, 2.0]], [[10.0, 0.0]]], [[[5.0, 2.0]], [[50.0, 0.0]]]], sent
one_process.train(one_process.OPTIONS.parse_args())
PYTHON
"$python" "$root/bench/experiments/torch/one_process.py" "${alone[@]}" --csv stopped.csv --checkpoint stopped >out 2>&1
[[ $(trained corrected.csv) == "$(trained stopped.csv)" ]]
[[ $(same corrected.csv) != *nan* && $(trained corrected.csv) != "$(trained one_process.sharded.csv)" ]]

# local steps send every second time, and bits are those of each step
"$python" "$root/bench/experiments/torch/one_process.py" --data data --size 8 --batch 4 --workers 2 --steps 4 \
  --evaluate-every 2 --way sharded-optimizer --codec raw --every 2 --csv two.csv --bits bits.csv >out 2>&1 ||
  { cat out; exit 1; }
"$python" -c 'import csv, sys
bits, rows = ([{name: float(value or 0) for name, value in row.items() if "bits" in name or name == "step"}
               for row in csv.DictReader(open(path))] for path in ("bits.csv", "two.csv"))
assert [row["step"] for row in bits] == [2, 4] and all(32 < row["push_bits"] < 32.1 for row in bits), bits
assert all(16 < row[name] < 16.05 for row in rows for name in ("push_bits", "pull_bits")), rows'

# clients in one process train as ranks with local steps do, to the bit, and a run that was stopped goes on so. Those
# with two classes have two pieces of the sorted images
"$python" - "$root" --data data --lr 0.01 --batch 2 --every 2 --steps 6 --evaluate-every 2 \
  --codec topk:p=0.05,select=exact+golomb >out 2>&1 <<'PYTHON' || { cat out; exit 1; }
import copy, random, sys
root = sys.argv.pop(1)
sys.path[:0] = [f"{root}/bench/experiments/torch", f"{root}/tests/python"]
import clients
from clients import images, rate, torch
from fake_dist import Network
from faults import prepared
random.seed(1)
for name, count in (("train", 200), ("t10k", 10)):
    for kind, head, content in (("images-idx3", 16, random.randbytes(784 * count)),
                                ("labels-idx1", 8, bytes(i % 10 for i in range(count)))):
        with open(f"data/{name}-{kind}-ubyte", "wb") as file:
            file.write(bytes(head) + content)
options = lambda *more: clients.OPTIONS.parse_args([*sys.argv[1:], "--workers", "5", *more])
o = options("--images", "two-classes", "--participants", "2", "--csv", "whole-clients.csv")
shares = clients.shares_of(images.mnist(o), o)
assert sorted(label for share in shares for label in share.train[1].tolist()) == sorted(list(range(10)) * 20)
assert all(len(share.train[1]) == 40 and len(set(share.train[1].tolist())) <= 2 for share in shares)
prepared()
clients.train(o)
o.csv, o.checkpoint = clients.Path("parts-clients.csv"), clients.Path("checkpoint-clients")
save = clients.save
def save_and_stop(*arguments):
    save(*arguments)
    sys.exit()
clients.save = save_and_stop
for _ in range(3):
    try:
        clients.train(o)
    except SystemExit:
        pass
o.lr = 0.5
try:
    clients.train(o)
    sys.exit("a checkpoint of other options was taken")
except SystemExit as error:
    assert "other options" in str(error), error

for chosen in (["--optimizer", "adam", "--lr", "0.001", "--error-reset", "0", "--mask-momentum"], []):
    o = options("--images", "all", "--workers", "2", "--pull", "raw", *chosen)
    torch.manual_seed(o.seed)
    data = images.mnist(o)
    federation = clients.Federation(o, data)
    begin = copy.deepcopy(federation.model)
    def rank(number):
        model = copy.deepcopy(begin)
        inner = torch.optim.Adam(model.parameters()) if chosen else torch.optim.SGD(model.parameters(), 0.1, 0.9)
        local = clients.threelc.torch.LocalSteps(model, inner, every=2, codec=o.codec, error_reset=o.error_reset,
                                                 mask_momentum=o.mask_momentum)
        for step in range(o.steps):
            inner.param_groups[0]["lr"] = o.lr * rate(step, o.steps)
            local.zero_grad()
            images.loss(model, images.batch(data, o, step, number)).backward()
            local.step()
        with local.common_model():
            return [parameter.detach().flatten().clone() for parameter in model.parameters()]
    ends = Network(2).run(rank)
    for step in range(0, o.steps, o.every):
        federation.round(step)
    for how, values in ends:
        assert how == "returned", values
        assert all(map(torch.equal, values, federation.common)), chosen
PYTHON
diff <(same whole-clients.csv) <(same parts-clients.csv)
[[ $(wc -l <whole-clients.csv) == 4 && $(same whole-clients.csv) != *nan* ]]

# what overlaps with a model that computes elsewhere: a row for each codec
for way in owners hook local; do
  "$python" "$root/bench/experiments/torch/overlap.py" --way $way --workers 2 --offload 3 --turns 1 --codec raw \
    --steps 8 --codec 3lc >out 2>&1 || { cat out; exit 1; }
  [[ $(grep -cE "^$way +resnet20 +loopback +(raw|3lc) +[0-9]+ +[0-9]+ +[0-9]+ " out) == 2 ]] || { cat out; exit 1; }
done

# refuses MESSAGE PROGRAM OPTION...: status 2, before anything is started
refuses() {
  local status=0
  "$python" "$root/bench/experiments/torch/$2" "${@:3}" >out 2>&1 || status=$?
  # shellcheck disable=SC2053 # it is a pattern
  [[ $status == 2 && $(tail -n 1 out) == "$2: error: "$1 ]] || { echo "${*:2}: status $status:"; cat out; exit 1; }
}
refuses '--wy: there is no such option; did you mean --way[?]' text.py --data data --wy dcd
refuses 'argument --way: shardd: it is alone, *; did you mean sharded[?]' text.py --data data --way shardd
refuses '*3cl*[(]did you mean 3lc[?])*' text.py --data data --codec 3cl
refuses '*3cl*[(]did you mean 3lc[?])*' overhead.py --shapes "$root/bench/shapes/lenet5.txt" --codec 3lc --codec 3cl
refuses '--mask-momentum goes without --way dcd' text.py --data data --way dcd --mask-momentum
refuses '--every and --bits go without --way floats, *' one_process.py --data data --way floats --every 2
refuses '--steps and --evaluate-every are multiples of --every' clients.py --data data --every 3
refuses '--participants: from 1 to 5, the number of --workers' clients.py --data data --workers 5 --participants 0
refuses '--dense-start goes without --way dcd' text.py --data data --way dcd --dense-start 5
refuses '--momentum-correction goes without --way floats, which keeps nothing back' one_process.py --data data \
  --way floats --momentum-correction 0.9
refuses '--dense-start goes without --way floats' one_process.py --data data --way floats --dense-start 5
for program in text.py cifar.py mnist.py weights.py gradients.py; do
  refuses 'argument --data: nothere: there is no such folder' $program --data nothere
done

# recorded weights: those of a smaller rate differ less
"$python" "$root/bench/experiments/torch/weights.py" --data data --out weights --length 4 --batch 2 --steps 2 \
  --tensors 'norm.*' head.weight >out 2>&1 || { cat out; exit 1; }
[[ $(cd weights && echo *) == 'base lr1e-3-1 lr1e-3-8 lr1e-4-1 lr1e-4-8 lr1e-5-1 lr1e-5-8 lr1e-6-1 lr1e-6-8' ]]
"$python" -c 'import sys, numpy as np
base, *others = (np.load(f"weights/{name}/head.weight.npy") for name in ("base", "lr1e-3-8", "lr1e-4-1", "lr1e-6-1"))
changed = [int((other != base).sum()) for other in others]
sys.exit(not (base.dtype == np.uint16 and base.size == 128 * 128 and changed[0] > changed[1] > changed[2] > 0))'

# recorded gradients and changes: what the first worker sent, and its residual before. Of AdamW at 1e-3 a step changes
# no weight by more than 1.1e-3, and a round of two by twice that
"$python" "$root/bench/experiments/torch/gradients.py" --data data --out sent --length 4 --batch 2 --width 8 \
  --stages 2 4 --every 2 --record 2 >out 2>&1 || { cat out; exit 1; }
[[ $(cd sent && echo */*) == \
  'changes-2/gpt-2-s1.00 changes/gpt-4-s1.00 transformer-2/gpt-2-s1.00 transformer/gpt-4-s1.00' ]]
"$python" -c 'import pathlib, sys, numpy as np
for run in pathlib.Path("sent").glob("*/*"):
    rows = np.load(run / "layers.1.hidden.weight.npy")
    residual = np.load(run / "layers.1.hidden.weight.residual.npy")
    assert len(list(run.iterdir())) == 8 and rows.dtype == np.float16 and rows.shape == (2, 256), run
    assert residual.dtype == np.float32 and residual.shape == (256,) and residual.any(), run
    largest = np.abs(rows).max()
    assert largest > 1e-4 and (not run.parent.name.startswith("changes") or largest < 2.3e-3), (run, largest)'
