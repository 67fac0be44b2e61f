// Text: a UTF-8 string that knows which of its bytes the template wrote ("trusted") and which came from the context.
//
// A chat template puts control tokens such as <|im_start|> around what people wrote. A person may write the same
// characters; they must stay text. So every operation on strings carries the mark of each byte along, and the rendered
// prompt says which spans may hold control tokens.
//
// A mark changes only between whole characters: the pieces that are put together are valid UTF-8, and cutting happens
// at characters. Value type, not thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace twostroke::jinja {

class Text {
 public:
  struct Run {
    std::size_t end;  // one past the run's last byte; a run begins where the one before it ends
    bool trusted;
  };

  Text() = default;
  Text(std::string bytes, bool trusted);

  const std::string& bytes() const { return bytes_; }
  std::string_view view() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  // Neighbours differ in `trusted`, none is empty, the last ends at size().
  const std::vector<Run>& runs() const { return runs_; }
  bool all_trusted() const { return runs_.empty() || (runs_.size() == 1 && runs_.front().trusted); }
  // Requires offset < size().
  bool trusted_at(std::size_t offset) const;

  void append(std::string_view bytes, bool trusted);
  void append(const Text& other) { append(other, 0, other.size()); }
  // Appends bytes [begin, end) of `other`, which is not this one.
  void append(const Text& other, std::size_t begin, std::size_t end);
  Text slice(std::size_t begin, std::size_t end) const;

 private:
  void extend_run(std::size_t end, bool trusted);
  std::size_t run_index(std::size_t offset) const;

  std::string bytes_;
  std::vector<Run> runs_;
};

}  // namespace twostroke::jinja
