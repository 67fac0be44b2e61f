// TooLargeStacks: while it lives, the system refuses every new thread, as where a container's limit of processes is
// reached: threads would get a stack of more than there are addresses. For tests.
#pragma once

#include <pthread.h>

#include "kernels/check.h"

namespace twostroke {

class TooLargeStacks {
 public:
  TooLargeStacks() {
    CHECK(pthread_getattr_default_np(&before_) == 0);
    pthread_attr_t attributes;
    CHECK(pthread_getattr_default_np(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, size_t{1} << 47) == 0);
    CHECK(pthread_setattr_default_np(&attributes) == 0);
    pthread_attr_destroy(&attributes);
  }
  ~TooLargeStacks() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  TooLargeStacks(const TooLargeStacks&) = delete;
  TooLargeStacks& operator=(const TooLargeStacks&) = delete;

 private:
  pthread_attr_t before_;
};

}  // namespace twostroke
