#!/usr/bin/env python3
"""Times training steps of GPT-2 in llm.c, on random tokens, the peer of bench_step on a GPU.

One JSON line on stdout, as torch_step.py's. llm.c is not part of mxtape: --source is a checkout of karpathy/llm.c, or
--program its train_gpt2cu, built elsewhere. With --source the program is built first; with --cudnn-frontend (the
include folder of NVIDIA's cudnn-frontend) its attention is cuDNN's, without it llm.c's own, which is slower.

  bench/peers/in_turn.py --rounds 3 \\
    "build/bench/bench_step gpt2-124m-cuda-bf16 --set train.accumulation=1 --json --rounds 3 --steps 10" \\
    "bench/peers/llmc_step.py --source ../llm.c --cudnn-frontend ../cudnn-frontend/include"
"""
import argparse
import json
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile

LAYERS = {12: "d12", 24: "d24", 36: "d36", 48: "d48"}  # llm.c's names for 124M, 350M, 774M, 1.5B
HEADER_WORDS, MAGIC, VERSION = 256, 20240520, 1        # of its token files


def build(source, cudnn_frontend):
    command = ["make", "-C", source, "train_gpt2cu"]
    if cudnn_frontend:
        command += ["USE_CUDNN=1", f"CUDNN_FRONTEND_PATH={cudnn_frontend}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"llmc_step: exit code {done.returncode} from: {' '.join(command)}\n{done.stdout[-2000:]}")
    return pathlib.Path(source) / "train_gpt2cu"


def write_tokens(path, count):
    header = [MAGIC, VERSION, count] + [0] * (HEADER_WORDS - 3)
    tokens = random.Random(1)
    with open(path, "wb") as f:
        f.write(b"".join(word.to_bytes(4, "little") for word in header))
        f.write(b"".join(tokens.randrange(50257).to_bytes(2, "little") for _ in range(count)))


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--source", help="checkout of llm.c")
    a.add_argument("--program", help="its train_gpt2cu, already built")
    a.add_argument("--cudnn-frontend", help="include folder of cudnn-frontend")
    a.add_argument("--recompute", type=int, default=0, help="llm.c's -r: 0 nothing, 1 GELU, 2 GELU and norms")
    for name, default in dict(layers=12, batch=64, context=1024, steps=20, warmup=5).items():
        a.add_argument("--" + name, type=int, default=default)
    o = a.parse_args()
    if bool(o.source) == bool(o.program):
        a.error("want either --source or --program")
    if o.layers not in LAYERS:
        a.error(f"--layers {o.layers}; llm.c has {', '.join(map(str, LAYERS))}")
    program = build(o.source, o.cudnn_frontend) if o.source else pathlib.Path(o.program)

    steps = o.warmup + o.steps
    with tempfile.TemporaryDirectory() as folder:
        tokens = pathlib.Path(folder) / "tokens.bin"
        write_tokens(tokens, o.batch * o.context * 4 + 1)
        command = [str(program.resolve()), "-i", str(tokens), "-j", str(tokens), "-e", LAYERS[o.layers],
                   "-b", str(o.batch), "-t", str(o.context), "-d", str(o.batch * o.context), "-x", str(steps),
                   "-v", "1000000", "-m", "1", "-s", "0", "-n", "0", "-r", str(o.recompute), "-l", "0.0006", "-c", "0.1"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder)
    times = [float(ms) for ms in re.findall(r"^step.*\| ([0-9.]+) ms \|", done.stdout, re.MULTILINE)]
    if done.returncode or len(times) < steps:
        sys.exit(f"llmc_step: exit code {done.returncode}, {len(times)} of {steps} steps timed\n{done.stdout[-2000:]}")
    times = times[o.warmup:]
    used = re.search(r"device memory usage: (\d+) MiB", done.stdout)
    print(json.dumps({"name": f"llm.c {'with cuDNN' if o.cudnn_frontend else ''}".strip(),
                      "median_ms": statistics.median(times), "min_ms": min(times), "max_ms": max(times),
                      "peak_mib": int(used[1]) if used else 0}))


if __name__ == "__main__":
    main()
