#!/bin/bash
# SPDX-License-Identifier: MIT
# The experiment about optimisers: a few steps on drawn images, its idx reader, its messages.
# optimisers.sh PROGRAM
set -uo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
experiment=$1
program=optimisers quick=(--steps 40)
run() { "$experiment" "$@"; }
# shellcheck source-path=SCRIPTDIR source=bench-checks.sh
. "$(dirname "$0")/bench-checks.sh"

# train ARGUMENTS...: what a run prints, without times
train() {
  run --steps 40 "$@" >out 2>err || bad "$*: exit status $?: $(<err)"
  grep -v seconds out
}

# same ARGUMENTS / ARGUMENTS: both print the same losses and accuracy
same() {
  local left=() right
  count=$((count + 1))
  while [[ $1 != / ]]; do left+=("$1"); shift; done
  shift
  right=$(train "$@" | grep -v ratio)
  [[ -n $right && $(train "${left[@]}" | grep -v ratio) == "$right" ]] || bad "${left[*]} and $* differ"
}

# differ ARGUMENTS / ARGUMENTS: the losses are not the same
differ() {
  local left=()
  count=$((count + 1))
  while [[ $1 != / ]]; do left+=("$1"); shift; done
  shift
  [[ $(train "${left[@]}" | grep loss) != "$(train "$@" | grep loss)" ]] || bad "${left[*]} and $* do the same"
}

# learns LOSS RATIO ARGUMENTS...: the loss falls below LOSS, the ratio is above RATIO
learns() {
  local loss=$1 ratio=$2
  shift 2
  count=$((count + 1))
  train "$@" | awk -v most="$loss" -v least="$ratio" '$1 == "step" && first == "" {first = $4}
    {value[$1] = $2} END {exit !(first > 0.8 && value["loss"] < most && value["ratio"] > least)}' ||
    bad "$*: no loss below $loss, or no ratio above $ratio: $(<out)"
}

# ---- exchanges

for optimiser in momentum rmsprop adam; do
  o=(--optimiser "$optimiser")
  learns 0.5 20 "${o[@]}" --codec 3lc
  learns 0.5 20 "${o[@]}" --codec 3lc --send changes
  learns 0.5 20 "${o[@]}" --codec 3lc --answer changes
  same "${o[@]}" --codec raw / "${o[@]}" --codec none
  same "${o[@]}" --codec raw / "${o[@]}" --codec raw --answer means
  same "${o[@]}" --codec raw --send changes --local-steps 4 / "${o[@]}" --codec none --send changes --local-steps 4
  same "${o[@]}" --codec topk / "${o[@]}" --codec topk
  # one worker's changes, sent as floats, are its optimiser's steps, to rounding
  count=$((count + 1))
  [[ $(train "${o[@]}" --workers 1 --codec raw --send changes | awk '$1 == "loss" {printf "%.3f", $2}') == \
    "$(train "${o[@]}" --workers 1 --codec none | awk '$1 == "loss" {printf "%.3f", $2}')" ]] ||
    bad "$optimiser: changes of one worker"
done
learns 0.5 400 --codec sbc --send changes --local-steps 2
same --codec 3lc --warmup 40 / --codec raw
differ --codec 3lc --warmup 20 / --codec raw
differ --codec 3lc --warmup 20 / --codec 3lc
differ --codec 3lc --rate-warmup 20 / --codec 3lc
differ --codec 3lc --answer means / --codec 3lc
differ --codec 3lc --answer means / --codec 3lc --answer changes
same --codec 3lc --answer changes --warmup 40 / --codec raw --answer changes
differ --codec 3lc --seed 2 / --codec 3lc --seed 3
differ --codec 3lc --rate 0.01 / --codec 3lc --rate 0.02
differ --optimiser adam / --optimiser rmsprop --rate 0.005
differ --workers 2 / --workers 3
differ --batch 8 / --batch 9
count=$((count + 1))
train --optimiser momentum --rate 1e30 --codec raw | grep -q '^diverged [1-9]' || bad "a rate of 1e30 does not diverge"

# ---- idx files

# idx NAME BYTES...: the bytes as hexadecimal numbers
idx() { printf '%b' "$(printf '\\x%s' "${@:2}")" >"$1"; }
# images COUNT: COUNT images of 784 pixels
images() {
  idx head 0 0 8 3 0 0 0 "$1" 0 0 0 1c 0 0 0 1c
  yes 'some pixels' | head -c $((784 * $1)) | cat head -
}
mkdir data
images 4 >data/train-images-idx3-ubyte
images 4 >data/t10k-images-idx3-ubyte
idx data/train-labels-idx1-ubyte 0 0 8 1 0 0 0 4 0 1 2 9
idx data/t10k-labels-idx1-ubyte 0 0 8 1 0 0 0 4 0 1 2 9
train=(--data data --batch 2 --workers 2)
plain=$(train "${train[@]}")
cp -r data packed
gzip packed/*
count=$((count + 1))
[[ -n $plain && $(train --data packed --batch 2 --workers 2) == "$plain" ]] || bad "compressed files differ"
refuses '--batch: 6 images a step, but there are only 4' "${train[@]}" --batch 3

# damage FILE CONTENT MESSAGE: with CONTENT, a file, in place of FILE
damage() {
  mv "data/$1" kept
  cp "$2" "data/$1"
  refuses "$3" "${train[@]}"
  mv kept "data/$1"
}
images 4 >good
head -c 15 good >short
head -c 3151 good >clipped
{ cat good; echo; } >long
images 5 >five
idx none 0 0 8 1 0 0 0 0
idx flat 0 0 8 1 0 0 0 4 0 1 2 3 4 5 6 7
idx floats 0 0 d 3 0 0 0 4 0 0 0 1c 0 0 0 1c
idx narrow 0 0 8 3 0 0 0 4 0 0 0 1c 0 0 0 1b
echo 'text, and no images' >text
idx ten 0 0 8 1 0 0 0 4 0 1 2 a
damage train-images-idx3-ubyte short 'data/train-images-idx3-ubyte: is too short for an idx file'
damage train-images-idx3-ubyte flat '*: is an idx file of type 0x08 with 1 dimensions; *with 3'
damage train-images-idx3-ubyte floats '*: is an idx file of type 0x0d with 3 dimensions; *with 3'
damage train-images-idx3-ubyte text '*: begins with 7465; an idx file begins with 0000'
damage train-images-idx3-ubyte narrow '*: dimension 2 is 27; images are 28 x 28'
damage train-images-idx3-ubyte clipped '*: its header promises 3136 values, it has fewer'
damage t10k-images-idx3-ubyte long '*: its header promises 3136 values, it has more'
damage t10k-images-idx3-ubyte five 't10k: 5 images have 4 labels'
damage t10k-labels-idx1-ubyte none '*: has 0 images; 1 to 2097152 can be read'
damage train-labels-idx1-ubyte ten 'train: label 3 is 10'
refuses 'nowhere/train-images-idx3-ubyte.gz: No such file or directory, and none without .gz' --data nowhere

# ---- options

refuses '--bogus: there is no such option*' --bogus
refuses '--rate: it needs a value' --rate
refuses 'data: there are options only' data
refuses '--optimiser sgd: @(it|item|nothing|after) *' --optimiser sgd
refuses '--send weights: @(it|item|nothing|after) *' --send weights
refuses '--codec 3lc:s=2: at 6: *' --codec 3lc:s=2
for number in '' -1 x 1.5 99999999999999999999; do
  refuses "--seed $number: @(it|item|nothing|after) *" --seed "$number"
  refuses "--local-steps $number: @(it|item|nothing|after) *" --send changes --local-steps "$number"
done
refuses '--rate 0: @(it|item|nothing|after) *' --rate 0
refuses '--rate nan: @(it|item|nothing|after) *' --rate nan
refuses '--workers 17: @(it|item|nothing|after) *' --workers 17
refuses '--local-steps goes with --send changes' --local-steps 2
refuses '--answer goes with --send gradients, and with a codec' --send changes --answer means
refuses '--answer goes with --send gradients, and with a codec' --codec none --answer means
refuses '--answer weights: @(it|item|nothing|after) *' --answer weights
refuses '--steps 40: not a multiple of --local-steps 3' --send changes --local-steps 3
refuses '--warmup 3: not a multiple of --local-steps 2' --send changes --local-steps 2 --warmup 3
refuses '--batch: 4500 images a step, but there are only 4000' --batch 900 --workers 5

finish_checks
