#!/usr/bin/env python3
"""Makes tests/interop/tokenizers: small tokenizers and the ids that other libraries give for some texts.

Needs tokenizers 0.23.3 and sentencepiece 0.2.3. Run: ./make.py (writes into its own folder)
"""
import base64
import json
import pathlib
import random
import tempfile

import sentencepiece
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent / "tokenizers"
END = "<|endoftext|>"
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
WORDS = """the a miller baker fox river mill hill stone bread snow night morning walked carried found asked answered
don't can't we'll I'm said: "Who has my bread?" 12 345 6789 über été naïve мир привет 世界 你好 مرحبا नमस्ते 한국어 😀 👍🏽 x+y=z""".split()
SCRIPTS = [(0x20, 0x7F), (0xA0, 0x17F), (0x300, 0x345), (0x391, 0x3FF), (0x410, 0x450), (0x5D0, 0x5EA), (0x661, 0x669),
           (0x904, 0x939), (0xE01, 0xE30), (0x1100, 0x1112), (0x1161, 0x1175), (0x2000, 0x200F), (0x2028, 0x2030),
           (0x2460, 0x2470), (0x3040, 0x3096), (0x4E00, 0x4E40), (0xAC00, 0xAC40), (0xFF10, 0xFF3A), (0x1F600, 0x1F620)]


def corpus(draw):
    return "".join(draw.choice(WORDS) + draw.choice([" "] * 8 + [", ", ".\n", "\n\n", "  "]) for _ in range(3000))


def strings(draw):
    fixed = ["", " ", "  a", "a  ", "\n", "a\r\n\r\nb", "I'm HE'LL it'\u017f", "''s", " 's", "123456 7", "\u00a0x\u0085y",
             "caf\u00e9 cafe\u0301", "\u1112\u1161\u11ab", "\u2581a\u2581", f"a{END}b", "<s>Hi</s>", "<0x41>", "a<sep>b", "\u0000"]
    made = ["".join(chr(draw.randint(*draw.choice(SCRIPTS[:1] * 6 + SCRIPTS))) for _ in range(draw.randint(1, 40)))
            for _ in range(60)]
    said = ["".join(draw.choice(WORDS) + draw.choice([" ", "  ", "\n", "", "\t"]) for _ in range(12)) for _ in range(30)]
    return fixed + made + said


def write(name, facts, texts, encode, decode):
    cases = []
    for text in texts:
        ids, plain = encode(text)
        case = {"ids": ids}
        if plain != ids:
            case["ids_specials_as_text"] = plain
        if decode(ids) != text:
            case["decoded"] = decode(ids)
        cases.append(case)
    runs = []
    for unit, count in [("a", 300), ("the ", 60), ("\u4e16", 90), (" ", 90)]:
        ids = encode(unit * count)[0]
        runs.append({"unit": unit, "count": count, "ids": {"head": ids, "period": [], "times": 0, "tail": []}})
    (HERE / name / "ids.json").write_text(json.dumps({**facts, "cases": cases, "long_runs": runs}))


def byte_level(name, text, texts, pattern, nfc=False, template=False):
    tokenizer = Tokenizer(models.BPE())
    cut = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    tokenizer.pre_tokenizer = cut if pattern is None else pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated"), cut])
    tokenizer.decoder = decoders.ByteLevel()
    if nfc:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tokenizer.add_special_tokens([END])
    last = tokenizer.get_vocab_size() - 1
    if template:
        tokenizer.post_processor = processors.TemplateProcessing(single=f"{END} $A", special_tokens=[(END, last)])
    (HERE / name).mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(HERE / name / "tokenizer.json"), pretty=False)

    def encode(string):
        tokenizer.encode_special_tokens = False
        ids = tokenizer.encode(string, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = True
        return ids, tokenizer.encode(string, add_special_tokens=False).ids

    facts = {"vocabulary": last + 1, "template_before": [last] if template else [], "added_tokens": {str(last): END}}
    write(name, facts, texts, encode, lambda ids: tokenizer.decode(ids, skip_special_tokens=False))


def piece_model(name, text, texts, **options):
    (HERE / name).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "text")
        source.write_text(text)
        rules = pathlib.Path(folder, "rules.tsv")  # code points: ﬁ to fi, ideographic blank to a blank, U+200B to nothing
        rules.write_text("FB01\t66 69\n3000\t20\n200B\t\nFF21\t41\nFF41\t61\n9\t20\nA\t20\n")
        if "normalization_rule_tsv" in options:
            options["normalization_rule_tsv"] = str(rules)
        sentencepiece.SentencePieceTrainer.train(
            input=str(source), model_prefix=str(pathlib.Path(folder, "m")), minloglevel=2, num_threads=1, **options)
        model = pathlib.Path(folder, "m.model").read_bytes()
    (HERE / name / "tokenizer.model").write_bytes(model)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    facts = {"vocabulary": processor.get_piece_size()}
    write(name, facts, texts, lambda string: (processor.encode(string),) * 2, processor.decode)


def main():
    draw = random.Random(1)
    text, texts = corpus(draw), strings(draw)
    HERE.mkdir(exist_ok=True)
    (HERE / "strings.json").write_text(json.dumps({"texts": texts}))
    byte_level("gpt2-style", text, texts, None)
    byte_level("llama3-style", text, texts, CONTRACTIONS + r"\p{N}{1,3}" + REST, template=True)
    byte_level("qwen2-style", text, texts, CONTRACTIONS + r"\p{N}" + REST, nfc=True)
    byte_level("o200k-style", text, texts, O200K)
    piece_model("sentencepiece-bpe", text, texts, model_type="bpe", vocab_size=420, byte_fallback=True,
                normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True)
    piece_model("sentencepiece-unigram", text, texts, model_type="unigram", vocab_size=120,
                normalization_rule_tsv="", user_defined_symbols="<sep>", hard_vocab_limit=False)
    bad = [b"\x80", b"ab\xff", b"\xc3", b"\xe4\xb8", b"ok \xed\xa0\x80", b"\xf4\x90\x80\x80"]
    (HERE / "not_utf8.json").write_text(json.dumps(
        [{"b64": base64.b64encode(b).decode(), "first_bad_byte": len(b.decode("utf-8", "ignore").encode())} for b in bad]))


main()
