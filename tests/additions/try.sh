#!/usr/bin/env bash
# Builds the program with every worked example of this folder in it, and uses each: tests/additions/try.sh [FOLDER]. The folder,
# build/additions if none is named, keeps the altered copy and its build. It takes about as long as ./run build.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=${1:-$root/build/additions}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
rm -rf "$folder/source"
mkdir "$folder/source"
git -C "$root" ls-files -z | (cd "$root" && xargs -0 cp --parents -t "$folder/source")
for example in "$root"/tests/additions/*.patch; do
  patch --quiet -p1 --directory="$folder/source" --input="$example"
done
cmake -S "$folder/source" -B "$folder/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DMXTAPE_TESTS=ON -DMXTAPE_BENCH=OFF \
  -DMXTAPE_CUDA=OFF >"$folder/configure.log"
cmake --build "$folder/build" --target mxtape_program
mxtape=$folder/build/mxtape
cd "$folder"
rm -rf runs tried ./*.toml ./*.h5
mkdir tried

"$mxtape" corpus --tales 300 --out data.h5 >/dev/null
"$mxtape" formats | grep -E '^ +e2m2 +5 '                                       # number_format
"$mxtape" formats 'mxfp4 rule=roomy round=outward'                              # scale_rule, rounding
"$mxtape" hash data.h5                                                          # command
printf '{"kind":"nibbles"}' >tried/own.nibbles
printf 'ab\n%.0s' {1..2000} >tried/text.txt
"$mxtape" prepare tried/text.txt --tokenizer tried/own.nibbles --out tried/nibbles.h5   # tokenizer
cat >bigram.toml <<'TOML'
extends = "demo-bf16"
[data]
file = "data.h5"
[model]
kind = "bigram"
[train]
steps = 20
[schedule]
kind = "linear"
power = 2
warmup_steps = 1
[[precision.rules]]
layers = "next"
format = "mxfp4 rule=roomy round=outward"
TOML
"$mxtape" check bigram.toml | tee tried/check.txt                               # model, knob, look
grep -q '^unseen ' tried/check.txt
"$mxtape" train bigram.toml

cmake --build "$folder/build" --target autograd_tests                             # op, argument, kernel_with_op
"$folder"/build/tests/autograd_tests --gtest_filter='AddBoth.*:Padding.*:SoftCap.*'
