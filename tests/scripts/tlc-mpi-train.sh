#!/bin/bash
# SPDX-License-Identifier: MIT
# tlc-mpi-train from outside: every kind learns, raw is plain MPI_Allreduce, momentum correction of floats is plain
# momentum and clears what was sent, a run whose rank was killed goes on with the same bits, and on other ranks with the
# residuals that were left; bad options and files.
# tlc-mpi-train.sh PROGRAM MPIEXEC SOURCE_ROOT
set -uo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
program=$1 mpiexec=$2
# shellcheck source-path=SCRIPTDIR source=checks.sh
. "$(dirname "$0")/checks.sh"

# train RANKS OPTION...: in out, err and row.csv what it prints. One rank needs no mpiexec.
train() {
  local ranks=$1 launch=()
  shift
  rm -f row.csv
  ((ranks == 1)) || launch=("$mpiexec" -n "$ranks")
  "${launch[@]}" "$program" --model mlp --batch 8 --csv row.csv "$@" >out 2>err </dev/null
}

# value COLUMN: of row.csv
value() {
  python3 -c 'import csv, sys; print(*[row[sys.argv[1]] for row in csv.DictReader(open("row.csv"))])' "$1"
}

# holds EXPRESSION WHAT: a condition in Python
holds() {
  count=$((count + 1))
  python3 -c "import sys; sys.exit(0 if $1 else 1)" || bad "$2: not $1: $(<out) $(<err)"
}

# learns RATIO RANKS OPTION...: the accuracy is above 80, and as floats it sends RATIO times as little at least
learns() {
  local ratio=$1
  shift
  train "$@" --steps 60 --quiet || bad "$*: exit status $?: $(<err)"
  holds "$(value accuracy) > 80 and $(value ratio) >= $ratio and $(value skipped) == 0" "$*"
}

learns 0 1 --kind mpi
learns 20 3 --kind all-reduce
holds "0 < $(value pull_residual) < 15 and 0 < $(value push_residual) and not '$(<err)'" "no warning"
train 3 --kind all-reduce --pull topk:p=0.0001 --steps 250 --quiet
holds "open('err').read().count(' times what they are made of: the training starves') == 1" "starving"
holds "open('err').read().count('\"topk:p=0.0001\" sends too little') == 1" "a pull that starves"
learns 20 2 --kind all-reduce --layers --pull 3lc:s=1.5
learns 20 3 --kind owners --layers --participants 2 -c 3lc:s=1.75 --momentum-correction 0.9
learns 20 3 --kind gather
learns 20 3 --kind gather --layers --participants 2
learns 10 3 --kind server:2 --optimiser adam --rate 0.002
learns 3.5 3 --kind server:3 -c natural --non-iid 4
learns 3.5 3 --kind gossip:ring
learns 3.5 3 --kind gossip:complete --algorithm ecd
learns 100 3 --kind gather -c sbc:p=0.01 --send changes --local-steps 3 --mask-momentum --optimiser adam
learns 30 4 --kind server:1 -c 3lc --send changes --local-steps 4 --participants 2

# The codec raw is plain MPI_Allreduce, but for the order of sums.
plain() {
  local loss
  train 3 --kind mpi --steps 30 --quiet "$@"
  loss=$(value loss)
  for kind in all-reduce gather server:2; do
    train 3 --kind "$kind" -c raw --steps 30 --quiet "$@"
    holds "abs($(value loss) - $loss) < 1e-5 * $loss" "raw, $kind, $*"
  done
}
plain
plain --send changes --local-steps 5 --participants 2

# Local steps add up gradients: those of two batches are twice that of a batch with the images of both.
train 3 --kind server:2 -c raw --steps 40 --local-steps 2 --rate 0.02 --quiet
summed=$(value loss) sent=$(value sent_bytes)
train 3 --kind server:2 -c raw --steps 20 --batch 16 --rate 0.04 --quiet
holds "abs($(value loss) - $summed) < 1e-4 * $summed and $sent == $(value sent_bytes)" "--local-steps 2"

# With raw the optimiser at the owners is that of an all-reduce, bit for bit, as w + (0 - x) is w - x; also where a run
# goes on with other ranks, whose owners put the state of the optimiser together.
# stops FOLDER RANKS OPTION...: 10 steps with 3 ranks, and then 10 with others
stops() {
  local folder=$1 ranks=$2
  shift 2
  train 3 --decay constant --steps 10 --quiet --checkpoint "$folder" --every 10 "$@"
  train "$ranks" --decay constant --steps 20 --quiet --checkpoint "$folder" --resume --every 10 "$@"
}
stops all 2 --kind all-reduce -c raw --optimiser adam --flush
whole=$(value weights)
stops own 2 --kind owners -c raw --optimiser adam --flush
holds "'$whole' and '$whole' == '$(value weights)'" 'raw, owners'

# Owners go on with the same bits.
stops same 3 --kind owners
whole=$(value weights)
train 3 --kind owners --decay constant --steps 20 --quiet
holds "'$whole' and '$whole' == '$(value weights)'" 'owners that go on'

# A warm-up of all steps is a run with raw, bit for bit. One of some steps is neither that nor the codec's run.
warms_up() {
  local raw dense some
  train 3 --steps 20 --quiet "$@" -c raw
  raw=$(value weights)
  train 3 --steps 20 --quiet "$@" -c 3lc:s=1.75 --warmup 20
  dense=$(value weights)
  train 3 --steps 20 --quiet "$@" -c 3lc:s=1.75 --warmup 10
  some=$(value weights)
  train 3 --steps 20 --quiet "$@" -c 3lc:s=1.75
  holds "'$raw' == '$dense' != '$some' != '$(value weights)'" "$*: warm-up"
}
warms_up --kind all-reduce --layers

# A run that is stopped in its warm-up, or at its end, goes on with the same bits.
for stop in 4 8; do
  warm=(-c 3lc:s=1.75 --momentum-correction 0.9 --decay constant --warmup 8 --rate-warmup 8 --quiet)
  train 2 "${warm[@]}" --steps 12
  whole=$(value weights)
  train 2 "${warm[@]}" --steps $stop --checkpoint warm --every $stop
  train 2 "${warm[@]}" --steps 12 --checkpoint warm --every 12 --resume
  holds "'$whole' == '$(value weights)'" "stopped after $stop steps of a warm-up"
done

# flushes OPTION...: at the end nothing is left in residuals, of pushes or answers, and the model is another one
flushes() {
  local weights
  train 3 --steps 8 -c 3lc:s=1.75 "$@"
  weights=$(value weights)
  train 3 --steps 8 -c 3lc:s=1.75 --flush "$@"
  holds "'$weights' != '$(value weights)' and 'flushed by 3 ranks; residuals of pushes: sum 0, norm 0; of answers: \
sum 0, norm 0' in open('out').read()" "$*: flush"
}
flushes --kind all-reduce --layers
flushes --kind gather --send changes --local-steps 2

# Momentum correction of pushes that are floats is plain momentum: bit for bit with one rank, where there is no sum.
train 1 --steps 10 -c raw --quiet
whole=$(value weights)
for kind in all-reduce gather server:1 owners; do
  train 1 --steps 10 -c 3lc --warmup 10 --momentum-correction 0.9 --quiet --kind $kind
  holds "'$whole' and '$whole' == '$(value weights)'" "$kind, as floats: momentum correction"
done

# So it is with several ranks, to the rounding of sums; on other ranks the mean of velocities goes on.
stops plain 2 --kind owners -c raw --layers
loss=$(value loss)
stops velocities 2 --kind owners -c 3lc --layers --warmup 20 --momentum-correction 0.9
holds "abs($(value loss) - $loss) < 1e-5 * $loss" 'momentum correction on other ranks'

# clears RANKS OPTION...: between two steps the velocity of a rank becomes 0 where it has sent a value, so that the
# model moves, and is another one elsewhere. That of a rank that is not in the round stays.
clears() {
  local step resume=()
  rm -rf steps step-*
  for step in 5 6; do
    train "$@" -c topk:p=0.05 --momentum-correction 0.9 --decay constant --steps $step --every 1 --checkpoint steps \
      "${resume[@]}" --quiet
    cp -r steps/step-0000000$step .
    resume=(--resume)
  done
  count=$((count + 1))
  python3 - "$1" <<'END' || bad "$*: velocities: $(<err)"
import array, pathlib, struct, sys
FIRST = 784 * 300  # values of the first layer

def read(step, rank):
    """Weights and velocities of the first layer."""
    data = pathlib.Path(f'step-0000000{step}/rank-{rank}').read_bytes()
    values, settings = struct.unpack_from('=QQ', data, 56)
    at = data.index(b'mlp,') + settings
    return [array.array('f', data[start:start + 4 * FIRST]) for start in (at, at + 4 * values)]

ranks = range(int(sys.argv[1]))
before, after = ([read(step, rank) for rank in ranks] for step in (5, 6))
stays = [r for r in ranks if before[r][1] == after[r][1]]
assert len(stays) == len(ranks) // 2, stays
moved = [i for i in range(FIRST) if before[0][0][i] != after[0][0][i]]
assert 0.04 * FIRST < len(moved) < 0.06 * FIRST, len(moved)
for velocity in (after[r][1] for r in ranks if r not in stays):
    assert not any(velocity[i] for i in moved)
    assert sum(v != 0 for v in velocity) > 0.5 * FIRST, sum(v != 0 for v in velocity)
END
}
for kind in all-reduce server:1 owners; do clears 1 --kind $kind --pull raw; done
clears 2 --kind gather --participants 1

# A rank of a run without end is killed at some step after its first checkpoint. All ranks end.
killed() {
  local pid victims
  rm -rf run
  "$mpiexec" -n 4 "$program" --model mlp --batch 8 --decay constant --steps 1000000 --checkpoint "$work/run" \
    --every 10 "$@" >before 2>err </dev/null &
  pid=$!
  until [[ -s run/latest ]] || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
  sleep "0.0$((RANDOM % 10))"
  mapfile -t victims < <(pgrep -f -- "--checkpoint $work/run " | while read -r p; do
    [[ $(readlink "/proc/$p/exe") != *"${program##*/}" ]] || echo "$p"
  done)
  count=$((count + 1))
  ((${#victims[@]})) && kill -9 "${victims[RANDOM % ${#victims[@]}]}" || bad "$*: there is no rank to kill: $(<err)"
  if wait $pid; then bad "$*: ended well, though a rank was killed"; fi
  [[ $(<run/latest) == *' 4' ]] || bad "$*: no checkpoint: $(<err)"
}

# trains RANKS OPTION...: to 40 steps after the checkpoint
trains() {
  local ranks=$1
  shift
  train "$ranks" --decay constant --steps "$last" "$@" || bad "$*: exit status $?: $(<err)"
}

# residuals: of the step that was loaded: the same as when it was saved, to the rounding of floats. A run that is killed
# may not come to say what it saved; then one that went on with as many ranks has said it.
residuals() {
  local step saved loaded
  step=$(sed -n 's/^step \([0-9]*\), loaded by.*/\1/p' out)
  saved=$(grep -h "^step $step, \(saved\|loaded\) by 4 ranks" before again | head -n 1)
  loaded=$(grep "^step $step, loaded by" out)
  count=$((count + 1))
  python3 - "$saved" "$loaded" "$1" <<'END' || bad "$2: residuals: '$saved', '$loaded'"
import re, sys
saved, loaded = ([float(x) for x in re.findall(r'(?:sum|norm) ([-+.e0-9]+)', text)] for text in sys.argv[1:3])
for kind, (i, j) in {'pushes': (0, 1), 'answers': (2, 3)}.items():
    norm = max(saved[j], 1e-30)
    assert (saved[j] > 0) == (kind in sys.argv[3]), f'{kind}: norm {saved[j]}'
    assert abs(saved[j] - loaded[j]) < 1e-5 * norm and abs(saved[i] - loaded[i]) < 1e-3 * norm
END
}

# goes_on WHICH RANKS KIND OPTION...: with 4 ranks the killed run goes on with the bits of one that was not killed; on
# other ranks it has the residuals (of WHICH: pushes, answers), and learns on. KIND: on other ranks, if not the same.
goes_on() {
  local which=$1 ranks=$2 kind=$3 whole last ratio
  shift 3
  killed "$@"
  last=$(($(cut -d ' ' -f 1 run/latest) + 40))
  cp -r run kept
  trains 4 --checkpoint run --every 10 --resume "$@"
  cp out again
  whole=$(value weights) ratio=$(value ratio)
  trains 4 --quiet "$@"
  count=$((count + 1))
  [[ $whole && $whole == "$(value weights)" ]] || bad "$*: other weights after it was killed and went on"
  rm -rf run
  mv kept run
  trains "$ranks" --checkpoint run --every 10 --resume "$@" ${kind:+--kind "$kind"}
  residuals "$which" "$*, $ranks ranks"
  holds "$(value accuracy) > 90 and $(value ratio) < 1.5 * $ratio" "$*, $ranks ranks"
}
goes_on pushes,answers 3 '' --kind all-reduce -c 3lc:s=1.5
goes_on pushes,answers 3 server:3 --kind server:4 --optimiser adam
goes_on pushes 5 '' --kind gather -c sbc:p=0.05 --send changes --local-steps 5
goes_on '' 3 '' --kind gossip:ring

# refuses RANKS STATUS MESSAGE OPTION...: MESSAGE, a pattern, is said once. mpiexec takes two seconds for a failure, so
# one rank is alone.
refuses() {
  local ranks=$1 want=$2 message=$3 status
  shift 3
  count=$((count + 1))
  if ((ranks > 1)); then
    train "$ranks" --steps 4 "$@"
  else
    "$program" --model mlp --batch 8 --steps 4 "$@" >out 2>err </dev/null
  fi
  status=$?
  # shellcheck disable=SC2053 # it is a pattern
  [[ $status == "$want" && $(grep '^tlc-mpi-train: ' err) == "tlc-mpi-train: "$message ]] ||
    bad "$*: status $status, said '$(<err)'"
}
refuses 2 2 "--kind server:3: there are 2 ranks" --kind server:3
refuses 1 2 "--kind gossip:rig: after the colon, it is ring, torus or complete; did you mean ring[?]" --kind gossip:rig
refuses 1 2 "--kind serve: it is *; did you mean server[?]" --kind serve
refuses 1 2 "--codec 4lc: *[(]did you mean 3lc[?])*" -c 4lc
refuses 1 2 "--pull 4lc: *[(]did you mean 3lc[?])*" --pull 4lc
refuses 1 2 "--codec goes without --kind mpi, which sends floats" --kind mpi -c 3lc
refuses 1 2 "--pull goes without --kind mpi, which sends floats" --kind mpi --pull 3lc
refuses 1 2 "--pull goes without --kind gather, *" --kind gather --pull 3lc
refuses 1 2 "--mask-momentum goes without --kind mpi, *" --kind mpi --send changes --mask-momentum
refuses 1 2 "--mask-momentum goes without --optimiser rmsprop, *" --send changes --mask-momentum --optimiser rmsprop
refuses 1 2 "--momentum-correction goes without --kind mpi, *" --kind mpi --momentum-correction 0.9
refuses 1 2 "--momentum-correction goes without --kind gossip:ring, *" --kind gossip:ring --momentum-correction 0.9
refuses 1 2 "--momentum-correction goes without --send changes, *" --send changes --momentum-correction 0.9
refuses 1 2 "--momentum-correction goes with --optimiser momentum, *" --optimiser adam --momentum-correction 0.9
refuses 1 2 "--momentum-correction goes without --codec raw, which keeps *" -c raw --momentum-correction 0.9
refuses 1 2 "--momentum-correction 1: it is above 0 and below 1" --momentum-correction 1
refuses 1 2 "--algorithm goes with --kind gossip" --algorithm ecd
refuses 1 2 "--every goes with --checkpoint" --every 2
refuses 1 2 "--mask-momentum goes with *" --mask-momentum
refuses 1 2 "--layers goes without --local-steps*" --layers --local-steps 2
refuses 1 2 "gossip goes without *" --kind gossip:ring --local-steps 2
refuses 1 2 "--steps, --every and --warmup must be multiples*" --send changes --local-steps 3
refuses 1 2 "--steps, --every and --warmup must be multiples*" --send changes --local-steps 2 --warmup 3
refuses 1 2 "--warmup goes without --kind mpi, which sends floats" --kind mpi --warmup 2
refuses 1 2 "--flush goes without --kind mpi, which sends floats" --kind mpi --flush
refuses 1 2 "--warmup goes without --kind gossip:ring, which has no residuals" --kind gossip:ring --warmup 2
refuses 1 2 "--layers goes with *" --layers --kind server:1
refuses 1 2 "--kind owners goes without --send changes, *" --kind owners --send changes
refuses 1 2 "gossip goes without *" --kind gossip:ring --send changes
refuses 1 2 "--kind gossip:ring: it needs a codec without bias*" --kind gossip:ring -c 3lc
refuses 1 2 "--participants 3: there are 1 ranks" --participants 3
refuses 1 2 "--resume: from which*" --resume
refuses 1 2 "*/train-images-idx3-ubyte.gz: No such file or directory, and none without .gz" --data nowhere
refuses 1 1 "new: there is no checkpoint" --checkpoint new --resume
refuses 1 1 "*: No such file or directory" --checkpoint no/where --every 4
train 2 --steps 4 --checkpoint new --every 4
first=new/step-00000004/rank-0
refuses 1 1 "$first: is of a run with --kind all-reduce, this one with --kind gather" --checkpoint new --resume \
  --kind gather
refuses 1 1 "$first: is of a run with --kind all-reduce, this one with --kind gossip:torus" --checkpoint new --resume \
  --kind gossip:torus
refuses 1 1 "$first: is of a run with --seed 1, this one with --seed 2" --checkpoint new --resume --seed 2
refuses 1 1 "$first: is of a run with --codec 3lc, this one with --codec sbc:p=0.1,block=99" --checkpoint new --resume \
  -c sbc:p=0.1,block=99 --seed 2
refuses 1 1 "$first: is of a run without --pull, this one with --pull raw" --checkpoint new --resume --pull raw
refuses 1 1 "$first: is of a run without --momentum-correction, this one with --momentum-correction 0.9" \
  --checkpoint new --resume --momentum-correction 0.9
refuses 1 1 "$first: is of a run without --layers, this one with --layers" --checkpoint new --resume --layers
refuses 1 1 "$first: is of a run with --steps 4, this one with --steps 8: *" --checkpoint new --resume --steps 8
cp -r new other
python3 - other/step-00000004/rank-0 <<'END' # another kind, with the right checksum
import pathlib, sys, zlib
path = pathlib.Path(sys.argv[1])
data = path.read_bytes()
data = data[:8] + b'\xff' + data[9:-4]
path.write_bytes(data + zlib.crc32(data).to_bytes(4, sys.byteorder))
END
refuses 1 1 "other/step-00000004/rank-0: is of a run of another version" --checkpoint other --resume

# All steps were made before: the result again, and what was sent, with the kind by its name, too; on another number of
# ranks there was no batch, so there is no loss.
whole="$(value weights) $(value sent_bytes)"
train 2 --steps 4 --checkpoint new --resume --kind all-reduce || bad "a run that has ended: exit status $?: $(<err)"
holds "'$(value weights) $(value sent_bytes)' == '$whole' and '$(value loss)'" 'a run that has ended'
train 3 --steps 4 --checkpoint new --resume || bad "a run that has ended, on 3 ranks: exit status $?: $(<err)"
holds "$(value accuracy) > 0 and '$(value loss)' == '' and 'diverged' not in open('out').read()" \
  'a run that has ended, on 3 ranks'
truncate -s 5000 new/step-00000004/rank-1
refuses 2 1 "new/step-00000004/rank-1: is not a whole checkpoint" --checkpoint new --resume
rm new/step-00000004/rank-1
refuses 2 1 "new/step-00000004/rank-1: No such file or directory" --checkpoint new --resume

# A rank finds the file of another rank in place of its own: the message names the rank whose state is missing, or is
# there twice.
for kind in all-reduce gather server:3 gossip:ring; do
  rm -rf new
  train 3 --kind $kind --steps 4 --decay constant --checkpoint new --every 4 --quiet
  cp $first new/step-00000004/rank-2
  refuses 3 1 "the checkpoint: *2 *missing of a run of 3; *" --kind $kind --decay constant --checkpoint new \
    --resume
  refuses 1 1 "the checkpoint: * 0 has two states" --kind "${kind/:3/:1}" --decay constant --checkpoint new \
    --resume
done
# The file of rank 1 is of a run that began on two ranks, with the same settings and in the same step.
for kind in all-reduce gather server:1 gossip:ring; do
  options=(--kind "$kind" --decay constant --every 2)
  rm -rf new two
  train 3 "${options[@]}" --steps 4 --checkpoint new --quiet
  train 2 "${options[@]}" --steps 2 --checkpoint two --quiet
  train 3 "${options[@]}" --steps 4 --checkpoint two --quiet --resume
  cp two/step-00000004/rank-1 new/step-00000004
  message='the state of rank 1 is of another run'
  [[ $kind != gossip* ]] || message='the model of node * is not its replica here'
  refuses 3 1 "the checkpoint: *$message" "${options[@]}" --checkpoint new --resume
  train 3 "${options[@]}" --steps 4 --checkpoint two --quiet --resume || bad "$kind: exit status $?: $(<err)"
done
refuses 1 1 "$first: is of step 4, this run with --steps 2 ends before it" --kind gossip:ring --decay constant \
  --checkpoint new --resume --steps 2

"$program" --version | grep -q '^tlc-mpi-train (libthreelc)' || bad '--version'
count=$((count + 1))
finish_checks
