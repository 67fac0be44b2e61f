#include "server/text/pre_tokenizer_patterns.h"

namespace twostroke {
namespace {

using Stages = std::string_view[];

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define NEWLINES_AND_SPACES R"(\s*[\r\n]+|\s+(?!\S)|\s+)"
#define LETTERS R"([^\r\n\p{L}\p{N}]?\p{L}+)"
#define PUNCTUATION R"( ?[^\s\p{L}\p{N}]+[\r\n]*)"
// Capitals, if any, before small letters; letters without case and marks belong to both.
#define CAPITALS R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define SMALLS R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define WORD_START R"([^\r\n\p{L}\p{N}]?)"

constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kCl100k = CONTRACTIONS "|" LETTERS R"(|\p{N}{1,3}|)" PUNCTUATION "|" NEWLINES_AND_SPACES;
constexpr std::string_view kQwen2 = CONTRACTIONS "|" LETTERS R"(|\p{N}|)" PUNCTUATION "|" NEWLINES_AND_SPACES;
constexpr std::string_view kDigit = R"(\p{N})";
constexpr std::string_view kCjk = R"([\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";

constexpr Stages kGpt2Stages = {kGpt2};
constexpr PreTokenizerPattern kGpt2Pattern{kGpt2Stages};

constexpr Stages kDigitsGpt2Stages = {kDigit, kGpt2};
constexpr PreTokenizerPattern kDigitsGpt2{kDigitsGpt2Stages};

// What llama.cpp does for files without a name.
constexpr Stages kDefaultStages = {R"([\p{P}$+<=>^~|]+)", kGpt2, R"(\p{N}+)", "[0-9][0-9][0-9]"};
constexpr PreTokenizerPattern kDefault{kDefaultStages};

constexpr Stages kFalconStages = {R"([\p{P}$+<=>^~|`]+)", kGpt2, "[0-9][0-9][0-9]"};
constexpr PreTokenizerPattern kFalcon{kFalconStages};

constexpr Stages kCl100kStages = {kCl100k};
constexpr PreTokenizerPattern kCl100kPattern{kCl100kStages};
constexpr PreTokenizerPattern kLlama3{kCl100kStages, /*ignore_merges=*/true, /*add_bos=*/true};

constexpr Stages kQwen2Stages = {kQwen2};
constexpr PreTokenizerPattern kQwen2Pattern{kQwen2Stages};

constexpr Stages kQwen35Stages = {
    CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)" NEWLINES_AND_SPACES};
constexpr PreTokenizerPattern kQwen35{kQwen35Stages};

constexpr Stages kLagunaStages = {R"([^\n]+|\n+)", kQwen2};
constexpr PreTokenizerPattern kLaguna{kLagunaStages};

constexpr Stages kMiniCpm5Stages = {R"(\p{N}{1,3})",
                                    CONTRACTIONS "|" LETTERS R"(|\p{N}+|)" PUNCTUATION "|" NEWLINES_AND_SPACES};
constexpr PreTokenizerPattern kMiniCpm5{kMiniCpm5Stages, /*ignore_merges=*/true};

constexpr Stages kSeedCoderStages = {CONTRACTIONS "|" LETTERS R"(|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|)" NEWLINES_AND_SPACES};
constexpr PreTokenizerPattern kSeedCoder{kSeedCoderStages};

constexpr Stages kBailingStages = {
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"};
constexpr PreTokenizerPattern kBailing{kBailingStages};

constexpr Stages kGpt4oStages = {WORD_START CAPITALS "*" SMALLS "+" CONTRACTIONS "?|" WORD_START CAPITALS "+" SMALLS
                                                     "*" CONTRACTIONS
                                                     R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" NEWLINES_AND_SPACES};
constexpr PreTokenizerPattern kGpt4o{kGpt4oStages};

constexpr Stages kTekkenStages = {WORD_START CAPITALS "*" SMALLS "+|" WORD_START CAPITALS "+" SMALLS
                                                      R"(*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" NEWLINES_AND_SPACES};
constexpr PreTokenizerPattern kTekken{kTekkenStages, /*ignore_merges=*/true, /*add_bos=*/true};

// As gpt-4o, with runs of Han apart. The published pattern intersects two classes ([\p{Lu}...&&[^\p{Han}]]), which
// PCRE2 cannot: here each is written as the complement of everything else.
#define CAPITALS_NOT_HAN R"([^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}])"
#define SMALLS_NOT_HAN R"([^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}])"
constexpr Stages kKimiStages = {R"(\p{sc:Han}+|)" WORD_START CAPITALS_NOT_HAN "*" SMALLS_NOT_HAN "+" CONTRACTIONS
                                "?|" WORD_START CAPITALS_NOT_HAN "+" SMALLS_NOT_HAN "*" CONTRACTIONS
                                R"(?|\p{N}{1,3}|)" PUNCTUATION "|" NEWLINES_AND_SPACES};
constexpr PreTokenizerPattern kKimi{kKimiStages};

// Possessive where the published pattern is greedy: nothing follows the group, so it never has to give anything back.
constexpr Stages kExaoneMoeStages = {
    CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*+(?: \p{L}\p{M}*+)*+)++|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?)"
                 R"(|\s*[\r\n]|\s+(?!\S)|\s+)"};
constexpr PreTokenizerPattern kExaoneMoe{kExaoneMoeStages};

// The long class holds the letters that have case, as of the model's Unicode version.
constexpr Stages kDeepSeekLlmStages = {
    R"([\r\n])",
    R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF})"
    R"(\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5})"
    R"(\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD})"
    R"(\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15})"
    R"(\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D})"
    R"(\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB})"
    R"(\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D})"
    R"(\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E})"
    R"(\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D})"
    R"(\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06})"
    R"(\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB})"
    R"(\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)",
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)",
    // Published as \s+$. Looking behind finds the same matches and tries each run of spaces once, not once per space.
    R"((?<!\s)\s++$)",
    kCjk,
    kDigit,
};
constexpr PreTokenizerPattern kDeepSeekLlm{kDeepSeekLlmStages};

constexpr Stages kDeepSeekCoderStages = {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kCjk, kDigit};
constexpr PreTokenizerPattern kDeepSeekCoder{kDeepSeekCoderStages};

constexpr Stages kDeepSeekV3Stages = {
    R"(\p{N}{1,3})",
    R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)",
    R"([!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)" NEWLINES_AND_SPACES,
};
constexpr PreTokenizerPattern kDeepSeekV3{kDeepSeekV3Stages};

#define BLOOM_WORD R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{0964}\x{06D4}\x{060C})]+)"
constexpr Stages kBloomStages = {BLOOM_WORD};
constexpr PreTokenizerPattern kBloom{kBloomStages};

constexpr Stages kVikingStages = {BLOOM_WORD, kDigit};
constexpr PreTokenizerPattern kViking{kVikingStages};

constexpr PreTokenizerName kNames[] = {
    {"default", &kDefault},
    {"gpt-2", &kGpt2Pattern},
    {"phi-2", &kGpt2Pattern},
    {"mpt", &kGpt2Pattern},
    {"olmo", &kGpt2Pattern},
    {"jais", &kGpt2Pattern},
    {"exaone4", &kGpt2Pattern},
    {"gigachat", &kGpt2Pattern},
    {"mellum", &kGpt2Pattern},
    {"a.x-4.0", &kGpt2Pattern},
    {"trillion", &kGpt2Pattern},
    {"granite-docling", &kGpt2Pattern},
    {"starcoder", &kDigitsGpt2},
    {"refact", &kDigitsGpt2},
    {"command-r", &kDigitsGpt2},
    {"smollm", &kDigitsGpt2},
    {"codeshell", &kDigitsGpt2},
    {"exaone", &kDigitsGpt2},
    {"minerva-7b", &kDigitsGpt2},
    {"mellum2", &kDigitsGpt2},
    {"llama3", &kLlama3},
    {"llama-v3", &kLlama3},
    {"llama-bpe", &kLlama3},
    {"falcon3", &kLlama3},
    {"falcon-h1", &kLlama3},
    {"pixtral", &kLlama3},
    {"midm-2.0", &kLlama3},
    {"lfm2", &kLlama3},
    {"dbrx", &kCl100kPattern},
    {"smaug-bpe", &kCl100kPattern},
    {"glm4", &kCl100kPattern},
    {"chatglm-bpe", &kCl100kPattern},
    {"qwen2", &kQwen2Pattern},
    {"deepseek-r1-qwen", &kQwen2Pattern},
    {"stablelm2", &kQwen2Pattern},
    {"megrez", &kQwen2Pattern},
    {"hunyuan", &kQwen2Pattern},
    {"solar-open", &kQwen2Pattern},
    {"grok-2", &kQwen2Pattern},
    {"qwen35", &kQwen35},
    {"laguna", &kLaguna},
    {"minicpm5", &kMiniCpm5},
    {"seed-coder", &kSeedCoder},
    {"bailingmoe", &kBailing},
    {"bailingmoe2", &kBailing},
    {"llada-moe", &kBailing},
    {"gpt-4o", &kGpt4o},
    {"llama4", &kGpt4o},
    {"kanana2", &kGpt4o},
    {"minimax-m2", &kGpt4o},
    {"tekken", &kTekken},
    {"kimi-k2", &kKimi},
    {"exaone-moe", &kExaoneMoe},
    {"deepseek-llm", &kDeepSeekLlm},
    {"deepseek-coder", &kDeepSeekCoder},
    {"deepseek-v3", &kDeepSeekV3},
    {"hunyuan-dense", &kDeepSeekV3},
    {"joyai-llm", &kDeepSeekV3},
    {"falcon", &kFalcon},
    {"bloom", &kBloom},
    {"poro-chat", &kBloom},
    {"gpt3-finnish", &kBloom},
    {"viking", &kViking},
};

}  // namespace

std::span<const PreTokenizerName> pre_tokenizer_names() { return kNames; }

}  // namespace twostroke
