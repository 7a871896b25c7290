#!/usr/bin/env python3
"""Makes tests/interop/models and finetune.safetensors: small models with random weights, and what transformers computes.

Needs torch 2.15 and transformers 5.23. Run: ./make_models.py (writes into its own folder)

Numbers named _f64, gradients and steps are transformers' in double precision. Its RMS norms and softmaxes narrow to f32
whatever the model is, so these two are replaced by the same formulas in double; tables of RoPE stay in f32. The unchanged
classes in f32 must agree: how far they are off is in each file's metadata.
"""
import json
import pathlib
import shutil

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

HERE = pathlib.Path(__file__).parent
BATCH, TIME, STEPS = 2, 12, 4
LEARNING_RATE, BETAS, EPS, DECAY, CLIP = 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0

LLAMA = dict(vocab_size=37, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=False, bos_token_id=0, eos_token_id=1)
GPT2 = dict(vocab_size=37, n_positions=20, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            bos_token_id=0, eos_token_id=1)


def rope(theta, **scaling):
    return {"rope_theta": theta, "rope_type": "default", **scaling}


LLAMA3 = rope(10000.0, rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)
# name: config, type of the file, largest shard
MODELS = {
    "gpt2-tied": (GPT2Config(**GPT2), torch.float32, "1GB"),
    "gpt2-untied-erf": (GPT2Config(**{**GPT2, "n_inner": 24, "activation_function": "gelu", "layer_norm_epsilon": 1e-3,
                                      "tie_word_embeddings": False}), torch.bfloat16, "8KB"),
    "llama3-gqa": (LlamaConfig(**LLAMA, rope_parameters=LLAMA3), torch.float32, "1GB"),
    "llama-mqa-tied": (LlamaConfig(**{**LLAMA, "num_key_value_heads": 1, "head_dim": 6, "tie_word_embeddings": True},
                                   rope_parameters=rope(500000.0)), torch.float16, "1GB"),
    "mistral": (MistralConfig(**LLAMA, sliding_window=None, rope_parameters=rope(10000.0)), torch.float32, "1GB"),
    "qwen2-biases": (Qwen2Config(**LLAMA, rope_parameters=rope(10000.0)), torch.bfloat16, "1GB"),
    "qwen3-qk-norms": (Qwen3Config(**LLAMA, head_dim=8, rope_parameters=rope(1000000.0)), torch.float32, "1GB"),
}
TUNED = ["gpt2-tied", "llama3-gqa"]


def draw(model, generator):
    """Weights large enough that attention is not flat, gains around 1."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            gain = "norm" in name or ".ln_" in name
            spread = 0.1 if gain and name.endswith("weight") else 0.3
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * spread)
            if gain and name.endswith("weight"):
                parameter.add_(1.0)


def widened(folder):
    """The folder's model in double, norms and softmaxes too."""
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).double().eval()
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            eps = module.variance_epsilon
            module.forward = lambda x, m=module, eps=eps: m.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
    return model


softmax_of_f32 = torch.nn.functional.softmax


def softmax(x, dim=None, dtype=None, **rest):
    return softmax_of_f32(x, dim=dim, dtype=x.dtype if x.dtype == torch.float64 else dtype, **rest)


torch.nn.functional.softmax = softmax


def terms(model, tokens):
    """Logits and -log p of the targets."""
    logits = model(input_ids=tokens[:, :-1], use_cache=False).logits
    nll = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
    return logits, nll.view(tokens.shape[0], -1)


def greedy(model, generator, vocabulary):
    runs = []
    for length in (1, 3, 6):
        ids = torch.randint(vocabulary, (length,), generator=generator).tolist()
        prompt, gap, largest = list(ids), float("inf"), 0.0
        for _ in range(10):
            last = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1]
            best = last.topk(2).values
            gap, largest = min(gap, float(best[0] - best[1])), max(largest, float(last.abs().max()))
            ids.append(int(last.argmax()))
        if gap > 1e-3 * largest:  # else rounding may change a token
            runs.append({"prompt": prompt, "continuation": ids[length:], "smallest_gap": gap})
    return runs


def make(name, config, dtype, shard, generator):
    folder = HERE / "models" / name
    shutil.rmtree(folder, ignore_errors=True)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    draw(model, generator)
    model.to(dtype).save_pretrained(folder, max_shard_size=shard)
    double = widened(folder)
    tokens = torch.randint(config.vocab_size, (BATCH, TIME + 1), generator=generator)
    logits, nll = terms(double, tokens)
    nll.mean().backward()
    single = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    plain, _ = terms(single, tokens)
    largest, off = float(logits.abs().max()), float((plain.double() - logits).abs().max())
    assert off < 2e-6 * largest, (name, off, largest)
    tensors = {"tokens": tokens.to(torch.int32), "logits_f64": logits.detach(), "nll_f64": nll.detach()}
    for key, parameter in double.named_parameters():
        tensors["grad." + key] = parameter.grad.float()
    save_file({key: t.contiguous() for key, t in tensors.items()}, folder / "reference.safetensors",
              metadata={"made_with": f"transformers and torch {torch.__version__}, eager attention",
                        "largest_logit": repr(largest), "f32_logit_error": repr(off)})
    with torch.no_grad():
        runs = greedy(double, generator, config.vocab_size)
    assert runs, name
    (folder / "greedy.json").write_text(json.dumps(runs) + "\n")


def tune(name, generator):
    """AdamW's steps in double."""
    model = widened(HERE / "models" / name).train()
    vocabulary = model.config.vocab_size
    groups = [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": DECAY},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LEARNING_RATE, betas=BETAS, eps=EPS)
    tokens = torch.randint(vocabulary, (STEPS, BATCH, TIME + 1), generator=generator)
    losses, norms = [], []
    for batch in tokens:
        optimizer.zero_grad()
        _, nll = terms(model, batch)
        nll.mean().backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)))
        losses.append(float(nll.mean()))
        optimizer.step()
    result = {"tokens": tokens.to(torch.int32), "losses": torch.tensor(losses, dtype=torch.float64),
              "gradient_norms": torch.tensor(norms, dtype=torch.float64)}
    result.update({"after." + key: p.detach().float().contiguous() for key, p in model.named_parameters()})
    return {f"{name}.{key}": value for key, value in result.items()}


def main():
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(20251122)
    for name, (config, dtype, shard) in MODELS.items():
        make(name, config, dtype, shard, generator)
    steps = {}
    for name in TUNED:
        steps.update(tune(name, generator))
    save_file(steps, HERE / "finetune.safetensors",
              metadata={"optimizer": "torch.optim.AdamW in double", "learning_rate": str(LEARNING_RATE), "beta1": str(BETAS[0]),
                        "beta2": str(BETAS[1]), "eps": str(EPS), "weight_decay": f"{DECAY}, on tensors of rank 2 and more",
                        "clip_norm": str(CLIP)})


if __name__ == "__main__":
    main()
