#!/usr/bin/env python3
"""Makes the reference values that reference_test.cpp compares with, by Hugging Face's `tokenizers`.

    python3 -m venv v && v/bin/pip install tokenizers==0.23.3 gguf==0.19.0
    v/bin/python tests/text/tokenizer/make_reference.py ~/.cache/twostroke/SmolLM2-135M-Instruct.Q4_1.gguf \
        tests/text/tokenizer/fixtures

writes
  smollm2.json         ids that SmolLM2's tokenizer gives for seeded texts, without special tokens
  pre_tokenizers.json  where each family's pre-tokenizer cuts seeded texts (ends of pieces, in bytes)

The patterns below are written as the models' tokenizer.json files publish them (Oniguruma syntax), apart from those in
server/text/pre_tokenizer_patterns.cpp, which are written for PCRE2.
"""

import json
import random
import sys

import gguf
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

LETTERS = ["a", "b", "Z", "Q", "s", "t", "re", "VE", "ll", "d", "M", "hello", "World", "THE", "éa", "Ä", "ß", "ſ", "K", "ǅ",
           "ʰ", "ж", "Щу", "中", "文字", "の", "カ", "한국", "ہ", "ខ្មែរ", "हिन्दी", "ไทย", "𝒜", "𐐀", "ᠮᠣ᠎ᠤ", "a\u0301", "\u0301"]
DIGITS = ["1", "23", "456", "7890", "12345", "٣٤", "²", "½", "Ⅷ"]
SPACES = [" ", " ", " ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", " \n", "\n ", "\u00a0", "\u3000", "\u2003", "\u0085", "\u2028",
          "\x0b", "\x1f", "\u200b"]
MARKS = ["'", "'s", "'T", "'re", "'VE", "'ll", "'D", "'ſ", "’s", ".", ",", "!", "?!", "...", "…", "-", "--", "_", "(", ")", "[", "]",
         "{", "}", "#", "$", "+=", "<", ">", "|", "\\", "/", "//", "`", "~", "^", "@", '"', "“", "”", "。", "，", "、", "！", "：",
         "।", "۔", "€", "→", "😀", "👍🏽", "🚀", "\u200d", "\x00"]


def text(rng):
    kinds = [LETTERS, DIGITS, SPACES, MARKS]
    weights = rng.choice([(5, 2, 4, 3), (8, 1, 6, 1), (1, 6, 2, 2), (1, 1, 6, 1), (2, 1, 2, 7)])
    return "".join(rng.choice(rng.choices(kinds, weights)[0]) for _ in range(rng.randint(1, 24)))


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def chain(*stages):
    return pre_tokenizers.Sequence(list(stages))


DIGIT = pre_tokenizers.Digits(individual_digits=True)
BYTE_LEVEL = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
CAPITALS = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
SMALLS = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CJK = r"[一-龥ࠀ-一가-퟿]+"
ASCII_PUNCTUATION = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"
HAN_CAPITALS = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
HAN_SMALLS = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"

# Falcon's and the default's own chains cut the byte-level alphabet as well; what is checked here is llama.cpp's form of
# them, in which the files are written.
PUNCTUATION = pre_tokenizers.Punctuation("contiguous")
THREE_DIGITS = split("[0-9][0-9][0-9]")

FAMILIES = {
    "default": chain(split(r"[\p{P}\$\+<=>\^~\|]+"), split(GPT2), split(r"\p{N}+"), THREE_DIGITS),
    "gpt-2": BYTE_LEVEL,
    "smollm": chain(DIGIT, BYTE_LEVEL),
    "llama-bpe": split(LLAMA3),
    "qwen2": split(QWEN2),
    "qwen35": split(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
                    r"|\s*[\r\n]+|\s+(?!\S)|\s+"),
    "laguna": chain(split(r"[^\n]+|[\n]+"), split(QWEN2)),
    "minicpm5": chain(split(r"\p{N}{1,3}"), split(LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}+"))),
    "seed-coder": split(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+"
                        r"|\s+(?!\S)|\s+"),
    "bailingmoe": split(r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
                        r"|\s+(?!\S)|\s+"),
    "gpt-4o": split(CAPITALS + "*" + SMALLS + "+" + SHORT + "|" + CAPITALS + "+" + SMALLS + "*" + SHORT +
                    r"|\p{N}{1,3}" + REST),
    "tekken": split(CAPITALS + "*" + SMALLS + "+|" + CAPITALS + "+" + SMALLS + r"*|\p{N}" + REST),
    "kimi-k2": split(r"[\p{Han}]+|" + HAN_CAPITALS + "*" + HAN_SMALLS + "+" + SHORT + "|" + HAN_CAPITALS + "+" +
                     HAN_SMALLS + "*" + SHORT + r"|\p{N}{1,3}" + REST.replace("/", "")),
    "exaone-moe": split(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}"
                        r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"),
    "deepseek-llm": chain(
        split("[\r\n]"),
        split("\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1f7d"
              "ᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ"
              "𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+"),
        split(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"), split(r"\s+$"), split(CJK), DIGIT),
    "deepseek-coder": chain(split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(CJK), DIGIT),
    "deepseek-v3": chain(
        split(r"\p{N}{1,3}"), split(r"[一-龥぀-ゟ゠-ヿ]+"),
        split(ASCII_PUNCTUATION + r"[A-Za-z]+|[^" + "\r\n" + r"\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[" + "\r\n" +
              r"]*|\s*[" + "\r\n" + r"]+|\s+(?!\S)|\s+")),
    "falcon": chain(PUNCTUATION, split(GPT2), THREE_DIGITS),
    "bloom": split(r" ?[^(\s|.,!?…。，、।۔،)]+"),
    "viking": chain(split(r" ?[^(\s|.,!?…。，、।۔،)]+"), split(r"\p{N}")),
}


def ends_in_bytes(pre_tokenizer, value):
    starts = {start for _, (start, _) in pre_tokenizer.pre_tokenize_str(value)} | {len(value)}
    return [len(value[:start].encode()) for start in sorted(starts) if start > 0]


def write(path, value):
    with open(path, "w", encoding="ascii") as out:
        json.dump(value, out, separators=(",", ":"))
        out.write("\n")


def main():
    model_path, directory = sys.argv[1:]
    rng = random.Random(1)
    texts = [text(rng) for _ in range(60)]
    cuts = {name: [ends_in_bytes(family, value) for value in texts] for name, family in FAMILIES.items()}
    write(directory + "/pre_tokenizers.json", {"texts": texts, "ends": cuts})

    fields = gguf.GGUFReader(model_path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"].contents()]
    model = Tokenizer(models.BPE(vocab={token: id for id, token in enumerate(tokens)}, merges=merges))
    model.pre_tokenizer = FAMILIES["smollm"]
    rng = random.Random(2)
    texts = [text(rng) for _ in range(300)]
    write(directory + "/smollm2.json", [{"text": value, "ids": model.encode(value).ids} for value in texts])


main()
