#include "server/simulate/progress_bar.h"

#include <algorithm>
#include <ostream>

namespace twostroke::simulate {
namespace {

constexpr int kBarWidth = 40;
constexpr std::chrono::milliseconds kFirstAfter{1000};
constexpr std::chrono::milliseconds kRedrawAfter{200};

}  // namespace

ProgressBar::ProgressBar(std::ostream& out, bool on)
    : out_(out), on_(on), next_(std::chrono::steady_clock::now() + kFirstAfter) {}

void ProgressBar::begin(std::string what) { what_ = std::move(what); }

void ProgressBar::show(double progress) {
  if (!on_) return;
  const Time now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + kRedrawAfter;
  drawn_ = true;
  const double part = std::clamp(progress, 0.0, 1.0);
  const int filled = static_cast<int>(part * kBarWidth);
  out_ << "\r\033[K[" << std::string(static_cast<size_t>(filled), '=')
       << std::string(static_cast<size_t>(kBarWidth - filled), ' ') << "] " << static_cast<int>(part * 100) << "% "
       << what_ << std::flush;
}

void ProgressBar::clear() {
  if (drawn_) out_ << "\r\033[K" << std::flush;
  drawn_ = false;
}

}  // namespace twostroke::simulate
