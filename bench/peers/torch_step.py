#!/usr/bin/env python3
"""Times training steps of a GPT-2 style model in PyTorch, the peer that bench_step is compared with.

One JSON line on stdout: median, min and max ms of a step (forward, backward, clip, AdamW) and peak resident memory.
The model is bench_step's: learned positions, biases, tanh GELU, tied head, no dropout; random tokens.

  --peer torch-f32 | torch-bf16 (autocast)
         | microxcaling (needs --source, a checkout of microsoft/microxcaling)
         | torchao (needs torchao 0.18 and a PyTorch that it takes: 2.15 does)

The last two quantize all six operands of the blocks' linear layers to --element and multiply in floating point.

PyTorch 2 has fused attention and a fused AdamW, which are used, and torch.compile (--compile; on a CPU it wants a C++
compiler and Python's headers). On a GPU microxcaling may use its own CUDA extension (--custom-cuda). Debian's PyTorch 1.13
on a CPU is quickest here with OpenBLAS' OpenMP build and tcmalloc (libopenblas0-openmp, libtcmalloc-minimal4):
  LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/openblas-openmp LD_PRELOAD=libtcmalloc_minimal.so.4 \
  ATEN_CPU_CAPABILITY=avx512 OMP_NUM_THREADS=2 OPENBLAS_NUM_THREADS=2 /usr/bin/python3 bench/peers/torch_step.py
"""
import argparse
import contextlib
import importlib.metadata
import json
import math
import resource
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

QUANTIZING = "microxcaling", "torchao"  # peers whose linear layers are in --element
fused_attention = hasattr(F, "scaled_dot_product_attention")  # of PyTorch 2: on CPUs as well


class Block(nn.Module):
    def __init__(self, width, heads, context, linear):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = linear(width, 3 * width), linear(width, width)
        self.up, self.down = linear(width, 4 * width), linear(4 * width, width)
        mask = torch.full((context, context), float("-inf")).triu(1)
        self.register_buffer("mask", mask[None], persistent=False)

    def attention(self, x):
        batch, time_, width = x.shape
        head = width // self.heads
        q, k, v = (t.view(batch, time_, self.heads, head).transpose(1, 2).reshape(-1, time_, head)
                   for t in self.qkv(x).split(width, dim=2))
        if fused_attention or x.is_cuda:
            q, k, v = (t.view(batch, self.heads, time_, head) for t in (q, k, v))
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(mixed.transpose(1, 2).reshape(batch, time_, width))
        # Scale and mask inside the product: a few per cent faster than masking afterwards.
        scores = torch.baddbmm(self.mask[:, :time_, :time_].to(q.dtype), q, k.transpose(1, 2), alpha=head**-0.5)
        mixed = torch.bmm(F.softmax(scores, dim=-1).to(v.dtype), v).view(batch, self.heads, time_, head)
        return self.out(mixed.transpose(1, 2).reshape(batch, time_, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, o, linear, head):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(o.vocabulary, o.width), nn.Embedding(o.context, o.width)
        self.blocks = nn.ModuleList(Block(o.width, o.heads, o.context, linear) for _ in range(o.layers))
        self.norm, self.head = nn.LayerNorm(o.width), head
        for name, p in self.named_parameters():
            if p.dim() >= 2:
                residual = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * o.layers) if residual else 0.02)

    def forward(self, inputs, targets):
        x = self.tokens(inputs) + self.positions(torch.arange(inputs.shape[1], device=inputs.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.reshape(-1))


def microxcaling_layers(source, element, custom_cuda):
    """Linear layers with all six operands in `element`, blocks of 32, on microxcaling's PyTorch path."""
    sys.path.insert(0, source)
    import mx

    try:
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction
    except AssertionError:  # a CPU build lacks this CUDA setting, which changes nothing on a CPU
        sys.modules["mx.linear"].set_matmul_precision = lambda *a, **k: contextlib.nullcontext()
    specs = mx.finalize_mx_specs({"scale_bits": 8, "w_elem_format": element, "a_elem_format": element,
                                  "block_size": 32, "bfloat": 0, "fp": 0, "round": "even",
                                  "quantize_backprop": True, "custom_cuda": custom_cuda,
                                  "round_mx_grad_output_grad_input": "dither",
                                  "round_mx_grad_output_grad_weight": "dither"})
    return lambda i, o: mx.Linear(i, o, mx_specs=specs)


def torchao_layers(element):
    """Linear layers with all six operands in `element`, blocks of 32, scales rounded up, in torchao's emulation, which
    runs on any device: bf16 operands are quantized, dequantized and multiplied by operations of PyTorch. Parameters
    stay f32, as under autocast.

    torchao's own MXFP8Linear knows E4M3 alone; the function that it calls takes every element.
    """
    found = next((d.version for d in importlib.metadata.distributions(name="torchao")), "none")
    if not found.startswith("0.18."):  # each release moves and renames its prototypes
        sys.exit(f"torch_step: --peer torchao wants torchao 0.18, found {found}")
    from torchao.prototype.moe_training.mxfp8_linear import mx_mm
    from torchao.prototype.mx_formats import config, constants
    from torchao.quantization.quantize_.common import KernelPreference

    elements = {"fp8_e4m3": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2, "fp6_e2m3": constants.DTYPE_FP6_E2M3,
                "fp6_e3m2": constants.DTYPE_FP6_E3M2, "fp4_e2m1": torch.float4_e2m1fn_x2}
    if element not in elements:
        sys.exit(f"torch_step: --element {element}; torchao has {', '.join(elements)}")
    settings = dict.fromkeys(("in_elem_dtype", "w_elem_dtype", "grad_elem_dtype"), elements[element])
    settings.update(block_size=32, kernel_preference=KernelPreference.EMULATED,
                    mxfp8_dim0_cast_kernel_choice=config.MXFP8Dim0CastKernelChoice.TORCH,
                    mxfp8_dim1_cast_kernel_choice=config.MXFP8Dim1CastKernelChoice.TORCH,
                    scale_calculation_mode=config.ScaleCalculationMode.RCEIL, wgrad_with_hp=False)

    class Linear(nn.Linear):
        def forward(self, x):
            with torch.autocast(x.device.type, enabled=False):  # autocast knows nothing of torchao's tensors
                y = mx_mm.apply(x.bfloat16(), self.weight.bfloat16(), *settings.values())  # takes no keywords
                return y + self.bias.bfloat16()

    return Linear


def options():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--peer", choices=["torch-f32", "torch-bf16", "microxcaling", "torchao"], default="torch-f32")
    a.add_argument("--source", help="checkout of microxcaling")
    a.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    a.add_argument("--compile", action="store_true", help="torch.compile the model")
    a.add_argument("--custom-cuda", action="store_true", help="microxcaling's CUDA extension")
    a.add_argument("--element", default="fp4_e2m1", help="element format of microxcaling and torchao")
    for name, default in dict(layers=6, width=384, heads=6, context=256, batch=16, vocabulary=65, steps=5,
                              warmup=2, threads=2).items():
        a.add_argument("--" + name, type=int, default=default)
    return a.parse_args()


def main():
    o = options()
    torch.set_num_threads(o.threads)
    torch.manual_seed(1)
    linear = (microxcaling_layers(o.source, o.element, o.custom_cuda) if o.peer == "microxcaling" else
              torchao_layers(o.element) if o.peer == "torchao" else nn.Linear)
    model = Gpt(o, linear, F.linear).to(o.device)
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.1},
         {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}], lr=1e-3, betas=(0.9, 0.99),
        **({"fused": True} if fused_attention else {}))
    tokens = torch.randint(o.vocabulary, (o.batch, o.context + 1), device=o.device)
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    forward = torch.compile(model) if o.compile else model
    wait = torch.cuda.synchronize if o.device == "cuda" else lambda: None

    def step():
        with torch.autocast(o.device, dtype=torch.bfloat16, enabled=o.peer in ("torch-bf16", "torchao")):
            loss = forward(inputs, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    times = []
    for i in range(o.warmup + o.steps):
        wait()
        start = time.perf_counter()
        step()
        wait()
        if i >= o.warmup:
            times.append(1e3 * (time.perf_counter() - start))
    peak = torch.cuda.max_memory_allocated() if o.device == "cuda" else resource.getrusage(
        resource.RUSAGE_SELF).ru_maxrss * 1024
    name = [o.peer] + [o.element] * (o.peer in QUANTIZING) + ["compiled"] * o.compile
    print(json.dumps({"name": " ".join(name), "median_ms": statistics.median(times), "min_ms": min(times),
                      "max_ms": max(times), "peak_mib": peak / 2**20}))


if __name__ == "__main__":
    main()
