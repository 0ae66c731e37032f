// Libraries of image formats are opened when the first image of a format is read: few models have an ImageDecoder, and to link
// six libraries and what they need would be a quarter of a short compile. A struct derived from Library has a member of the same
// name for each function that its decoder calls.
#pragma once
#include <string>

#include "eval/image/codecs.h"

namespace rlxc::eval::codec {

class Library {
 public:
  // Opens the file where the dynamic linker looks for libraries.
  explicit Library(const char* file);
  // Why the library or a function of it is missing, or an empty string.
  const std::string& error() const { return error_; }

 protected:
  template <class Function>
  Function function(const char* name) {
    return reinterpret_cast<Function>(find(name));
  }

 private:
  void* find(const char* name);

  std::string file_, error_;
  void* handle_ = nullptr;
};

#define RLXC_LIBRARY_FUNCTION(name) decltype(&::name) name = function<decltype(&::name)>(#name)

// The library, opened once and kept; null, with the error of `d`, if it can't be.
template <class L>
const L* open_library(Decoding& d) {
  static const L library;
  if (library.error().empty()) return &library;
  d.fail(library.error());
  return nullptr;
}

}  // namespace rlxc::eval::codec
