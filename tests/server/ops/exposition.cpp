#include "exposition.h"

#include <cstdlib>
#include <sstream>
#include <string_view>

namespace twostroke {
namespace {

// The family that a sample belongs to: a histogram's samples have suffixes of their own.
std::string family_of(const std::string& sample, const std::map<std::string, std::string>& types) {
  const std::string name = sample.substr(0, sample.find('{'));
  for (const std::string_view suffix : {"_bucket", "_sum", "_count"}) {
    if (!name.ends_with(suffix)) continue;
    const std::string family = name.substr(0, name.size() - suffix.size());
    const auto found = types.find(family);
    if (found != types.end() && found->second == "histogram") return family;
  }
  return name;
}

bool is_name(const std::string& name) {
  return !name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string::npos;
}

// The labels of a bucket without "le", to compare it with its histogram's count: "name_count{labels}".
std::string count_name(const std::string& bucket, const std::string& family) {
  std::string labels = bucket.substr(bucket.find('{'));
  const size_t le = labels.find("le=\"");
  const size_t begin = le > 1 ? le - 1 : le;  // with the comma before it
  labels.erase(begin, labels.find('"', le + 4) + 1 - begin);
  return family + "_count" + (labels == "{}" ? "" : labels);
}

}  // namespace

double Exposition::operator[](const std::string& name) {
  const auto found = samples.find(name);
  if (found != samples.end()) return found->second;
  faults.push_back("no sample " + name);
  return 0;
}

Exposition read_exposition(const std::string& text) {
  Exposition read;
  std::istringstream lines(text);
  std::string last_bucket_of;
  double last_bucket = 0;
  for (std::string line; std::getline(lines, line);) {
    const bool is_help = line.starts_with("# HELP ");
    if (is_help || line.starts_with("# TYPE ")) {
      const size_t end = line.find(' ', 7);
      const std::string family = line.substr(7, end - 7);
      auto& kept = is_help ? read.helps : read.types;
      if (end == std::string::npos || !is_name(family)) read.faults.push_back("not a description: " + line);
      if (!kept.emplace(family, line.substr(end + 1)).second) read.faults.push_back("described twice: " + family);
      continue;
    }
    const size_t space = line.rfind(' ');
    const std::string name = line.substr(0, space);
    char* end = nullptr;
    const double value = std::strtod(line.c_str() + space + 1, &end);
    if (space == std::string::npos || *end != '\0') read.faults.push_back("not a sample: " + line);
    if (!read.samples.emplace(name, value).second) read.faults.push_back("twice: " + name);
    const std::string family = family_of(name, read.types);
    if (!read.types.contains(family) || !read.helps.contains(family)) read.faults.push_back("undescribed: " + name);
    if (!name.starts_with(family + "_bucket{")) continue;
    // Buckets are cumulative, and the last is the count, which comes before them or after.
    const std::string histogram = count_name(name, family);
    if (histogram != last_bucket_of) last_bucket = 0;
    if (value < last_bucket) read.faults.push_back("not cumulative: " + name);
    last_bucket_of = histogram;
    last_bucket = value;
  }
  for (const auto& [name, value] : read.samples) {
    if (name.find("le=\"+Inf\"") == std::string::npos) continue;
    const std::string count = count_name(name, family_of(name, read.types));
    const auto found = read.samples.find(count);
    if (found == read.samples.end() || found->second != value) read.faults.push_back("not the count: " + name);
  }
  return read;
}

}  // namespace twostroke
