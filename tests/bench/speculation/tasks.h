// The prompt set: tasks whose answers repeat much of what they were given.
#pragma once

#include <span>

namespace twostroke {

struct EditingTask {
  const char* name;
  const char* instruction;
  const char* text;
};

std::span<const EditingTask> editing_tasks();

}  // namespace twostroke
