#!/usr/bin/env bash
# Trains three steps by a given mxtape, as tests/aarch64.sh compares them between machines:
#   tests/three_steps.sh FOLDER PROGRAM [WORDS]    the checkpoint is FOLDER/runs/three/checkpoints/step_00000003.h5
set -euo pipefail
mkdir -p "$1"
cd "$1"
shift
export MXTAPE_MAX_CPU=avx512_bf16
"$@" corpus --tales 200 --out tales.h5 --force >corpus.txt
"$@" train demo-mxfp4 --name=three --data.file=tales.h5 --compute.gemm=integer --model.layers=1 --model.width=32 --model.heads=2 \
  --model.context=32 --schedule.warmup_steps=0 --train.steps=3 --train.batch_size=2 --train.eval_windows=2 >train.txt
grep '^device\|^validation loss' train.txt
