// Exposition: Prometheus text, read strictly, so that tests can ask for samples and find what a scraper would refuse.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace twostroke {

struct Exposition {
  std::map<std::string, std::string> types;  // metric family: counter, gauge, histogram
  std::map<std::string, std::string> helps;
  std::map<std::string, double> samples;  // "name{labels}" as written
  std::vector<std::string> faults;        // what is wrong with the text

  // The sample of that name; a fault of its own, and 0, when there is none.
  double operator[](const std::string& name);
};

Exposition read_exposition(const std::string& text);

}  // namespace twostroke
