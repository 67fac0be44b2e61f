#include <algorithm>
#include <iterator>
#include <string>

#include "backend/gguf.h"

namespace twostroke {
namespace {

struct Entry {
  uint32_t type;
  GgufTypeTraits traits;  // block_bytes == 0: known by name only
};

// Block sizes and bytes follow from the formats: a block of Q4_0 is a half scale and 32 4-bit values (2 + 16 bytes), a
// super-block of the K types is 256 values with packed 4- or 6-bit scales.
constexpr Entry kTypes[] = {
    {0, {"F32", 1, 4}},       {1, {"F16", 1, 2}},       {2, {"Q4_0", 32, 18}},    {3, {"Q4_1", 32, 20}},
    {4, {"Q4_2", 0, 0}},      {5, {"Q4_3", 0, 0}},      {6, {"Q5_0", 32, 22}},    {7, {"Q5_1", 32, 24}},
    {8, {"Q8_0", 32, 34}},    {9, {"Q8_1", 0, 0}},      {10, {"Q2_K", 256, 84}},  {11, {"Q3_K", 256, 110}},
    {12, {"Q4_K", 256, 144}}, {13, {"Q5_K", 256, 176}}, {14, {"Q6_K", 256, 210}}, {15, {"Q8_K", 0, 0}},
    {16, {"IQ2_XXS", 0, 0}},  {17, {"IQ2_XS", 0, 0}},   {18, {"IQ3_XXS", 0, 0}},  {19, {"IQ1_S", 0, 0}},
    {20, {"IQ4_NL", 32, 18}}, {21, {"IQ3_S", 0, 0}},    {22, {"IQ2_S", 0, 0}},    {23, {"IQ4_XS", 0, 0}},
    {24, {"I8", 0, 0}},       {25, {"I16", 0, 0}},      {26, {"I32", 0, 0}},      {27, {"I64", 0, 0}},
    {28, {"F64", 0, 0}},      {29, {"IQ1_M", 0, 0}},    {30, {"BF16", 1, 2}},     {31, {"Q4_0_4_4", 0, 0}},
    {32, {"Q4_0_4_8", 0, 0}}, {33, {"Q4_0_8_8", 0, 0}}, {34, {"TQ1_0", 0, 0}},    {35, {"TQ2_0", 0, 0}},
    {39, {"MXFP4", 0, 0}},
};

const Entry* find_entry(uint32_t type) {
  const auto* entry =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const Entry& e) { return e.type == type; });
  return entry == std::end(kTypes) ? nullptr : entry;
}

}  // namespace

const GgufTypeTraits* gguf_type_traits(uint32_t type) {
  const Entry* entry = find_entry(type);
  return entry != nullptr && entry->traits.block_bytes != 0 ? &entry->traits : nullptr;
}

std::string gguf_type_name(uint32_t type) {
  const Entry* entry = find_entry(type);
  return entry != nullptr ? entry->traits.name : "number " + std::to_string(type);
}

}  // namespace twostroke
