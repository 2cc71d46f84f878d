#!/bin/bash
# SPDX-License-Identifier: MIT
# The experiment about loops on a quadratic: with raw all loops give the result of floats, answers that starve show, and
# so do local steps that are done twice; what it says of options.
# quadratic.sh PROGRAM
set -uo pipefail
[[ ${1-} != -h && ${1-} != --help ]] || { sed -n '3,/^[^#]/s/^#\( \|$\)//p' "$0"; exit; }
experiment=$1
program=quadratic quick=(--values 1000)
run() { "$experiment" "${quick[@]}" "$@"; }
# shellcheck source-path=SCRIPTDIR source=bench-checks.sh
. "$(dirname "$0")/bench-checks.sh"

# figure NAME ARGUMENTS...: of a run
figure() {
  run "${@:2}" >out 2>err || bad "${*:2}: exit status $?: $(<err)"
  awk -v name="$1" '$1 == name {print $2}' out
}

# holds EXPRESSION: of awk
holds() {
  count=$((count + 1))
  awk "BEGIN {exit !($1)}" || bad "not $1"
}

floats=$(figure loss -c raw)
holds "$floats > 0.00005 && $floats < 0.0003"
for loop in gather deltas; do
  holds "$(figure loss -c raw --loop $loop) == $floats"
  holds "$(figure loss -c 3lc --loop $loop) < 1.1 * $floats"
  holds "$(figure answer-bits -c 3lc --loop $loop) $([[ $loop == gather ]] && echo '==' || echo '>') 0"
done
holds "$(figure loss -c 3lc:s=1.75 --loop gather) < 5 * $floats"
holds "$(figure loss -c 3lc:s=1.75 --pull raw) < 5 * $floats && $(figure answer-residual -c 3lc --pull raw) == 0"
holds "$(figure loss -c 3lc:s=1.75 --pull topk:p=0.05,bits=2+golomb) < 10 * $floats"
holds "$(figure loss -c 3lc:s=1.75 --pull 3lc:s=1.75) > 1000 * $floats"
holds "$(figure loss -c 3lc:s=1.75 --pull 3lc-golomb --loop deltas) < 10 * $floats"
# without --pull
holds "$(figure loss -c 3lc:s=1.75) < $(figure loss -c 3lc:s=1.75 --pull 3lc:s=1.75) / 100"
holds "$(figure loss -c 3lc:s=1.75 --loop deltas) == $(figure loss -c 3lc:s=1.75 --pull 3lc-golomb --loop deltas)"
holds "$(figure push-residual -c 3lc:s=1.75) > 2 * $(figure push-residual -c 3lc)"
holds "$(figure loss -c raw --ranks 16) < $floats / 2"
holds "$(figure loss -c raw --noise 0.1) < $floats / 2"
holds "$(figure loss -c raw --seed 2) != $floats"
holds "$(figure loss -c raw --steps 60) > 5 * $floats && $(figure loss -c raw --rate 0.001) > 10 * $floats"
# local steps: with error feedback alone they are done twice
local=(--local-steps 10 --rate 0.5 --loop gather)
floats=$(figure loss -c raw "${local[@]}")
for codec in 3lc topk:p=0.03+golomb; do
  holds "$(figure loss -c "$codec" "${local[@]}") < 3 * $floats"
  holds "$(figure loss -c "$codec" "${local[@]}" --error feedback) > 1000 * $floats"
done

refuses '--loop delta: it is means, gather or deltas; did you mean deltas[?]' --loop delta
refuses "rank 0: push: at 6: *" -c 3lc:s=2
refuses '--pull goes without --loop gather, *' --loop gather --pull raw
refuses '--local-steps goes without --loop deltas: *' --local-steps 2 --loop deltas
refuses '--steps should be a multiple of --local-steps 7' --local-steps 7
refuses '--error goes with --local-steps of 2 or more' --error feedback
refuses '--error reste: it is reset or feedback; did you mean reset[?]' --error reste
refuses '--ranks 65: it is *' --ranks 65
refuses 'data: there are options only' data

finish_checks
