#!/usr/bin/env bash
# Trains ten small runs of 12 steps with a given mxtape, and prints of each its losses and the sum of its last checkpoint.
# Two builds that compute the same bits print the same on one machine:
#   tests/same_bits.sh OLD >before; tests/same_bits.sh NEW | diff before -
set -euo pipefail
program=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
cd "$folder"
"$program" corpus --tales 300 --out data.h5 >/dev/null

# run NAME PRECISION KEYS...: rules are read from the input.
run() {
  local name=$1 precision=$2
  shift 2
  { echo "extends = [\"demo-bf16\", \"precision/$precision\"]"; cat; } >"$name.toml"
  local arguments=(train "$name.toml" --data.file=data.h5 --train.steps=12 --train.eval_every=6 --train.eval_windows=8
    --train.batch_size=8 --schedule.warmup_steps=1 --model.layers=2 --model.width=64 --model.heads=2 --model.context=64 "$@")
  "$program" "${arguments[@]}" >"$name.log"
  echo "== $name"
  grep -oE '^step +[0-9]+/.*(norm|floor) [0-9.]+' "$name.log"
  sha256sum "$(find runs -name '*.h5' -path "*$name*" | sort | tail -1)" | cut -d' ' -f1
}
rule() { printf '[[precision.rules]]\nlayers = "blocks.*"\nslots = [%s]\nformat = "%s"\n' "$@"; }

run plain bf16 --model.bias=true --model.dropout=0.1 </dev/null
run saved mxfp4 --compute.saved=packed --compute.recompute=norm+gelu --train.accumulation=2 </dev/null
run bytes mxint8 --compute.gemm=integer --compute.saved=packed </dev/null
run four four-bit --compute.gemm=integer --model.norm=rms --model.positions=rope --model.mlp=swiglu </dev/null
run tiles nvidia2025 < <(rule '"dgrad.source"' source=shared; rule '"norm.gain", "out"' bf16)
run forward quartet2025 --model.bias=true </dev/null
run eden quartet2-2026 --compute.activations=bf16 </dev/null
run offsets yang2025-int4 --model.norm=rms --model.positions=rope --model.mlp=swiglu --compute.saved=packed </dev/null
run attention mxfp8 --model.dropout=0.1 < <(rule '"qk.*", "pv.*", "dv.*", "dp.*", "dq.*", "dk.*"' 'mxfp4 round=stochastic'; rule '"scores"' bf16; rule '"*.source"' source=shared)
run devices nvfp4 --devices 2 --train.strands=3 --train.gather=copies < <(rule '"sum.dw"' mxfp8)
