// The location of an option's value: a typed pointer to a member of CommandLine. A plain tagged union, because std::variant would
// cost every file that includes the table a tenth of a second of compile time.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/dim_range.h"
#include "options/values.h"

namespace rlxc {

struct CommandLine;

class OptionField {
 public:
  constexpr OptionField(bool CommandLine::*p) : type_(Type::Bool), bool_(p) {}
  constexpr OptionField(int64_t CommandLine::*p) : type_(Type::Integer), integer_(p) {}
  constexpr OptionField(uint64_t CommandLine::*p) : type_(Type::Unsigned), unsigned_(p) {}
  constexpr OptionField(double CommandLine::*p) : type_(Type::Number), number_(p) {}
  constexpr OptionField(std::optional<uint64_t> CommandLine::*p) : type_(Type::MaybeUnsigned), maybe_unsigned_(p) {}
  constexpr OptionField(std::optional<double> CommandLine::*p) : type_(Type::MaybeNumber), maybe_number_(p) {}
  constexpr OptionField(std::string CommandLine::*p) : type_(Type::Text), text_(p) {}
  constexpr OptionField(std::vector<std::string> CommandLine::*p) : type_(Type::List), list_(p) {}
  constexpr OptionField(std::set<std::string, std::less<>> CommandLine::*p) : type_(Type::Names), names_(p) {}
  constexpr OptionField(std::set<Emit> CommandLine::*p) : type_(Type::Emits), emits_(p) {}
  constexpr OptionField(DimBindings CommandLine::*p) : type_(Type::Sizes), sizes_(p) {}
  constexpr OptionField(std::vector<DimBindings> CommandLine::*p) : type_(Type::SizeSets), size_sets_(p) {}
  constexpr OptionField(SymbolRanges CommandLine::*p) : type_(Type::Ranges), ranges_(p) {}
  constexpr OptionField(std::vector<std::pair<std::string, std::string>> CommandLine::*p) : type_(Type::Pairs), pairs_(p) {}
  constexpr OptionField(FusionPolicy CommandLine::*p) : type_(Type::Fusion), fusion_(p) {}
  constexpr OptionField(KernelDispatch CommandLine::*p) : type_(Type::Dispatch), dispatch_(p) {}
  constexpr OptionField(Winograd CommandLine::*p) : type_(Type::Winograd), winograd_(p) {}
  constexpr OptionField(Engine CommandLine::*p) : type_(Type::Engines), engine_(p) {}

  // Calls f with the typed member pointer.
  template <class F>
  auto visit(F f) const {
    switch (type_) {
      case Type::Bool: return f(bool_);
      case Type::Integer: return f(integer_);
      case Type::Unsigned: return f(unsigned_);
      case Type::Number: return f(number_);
      case Type::MaybeUnsigned: return f(maybe_unsigned_);
      case Type::MaybeNumber: return f(maybe_number_);
      case Type::Text: return f(text_);
      case Type::List: return f(list_);
      case Type::Names: return f(names_);
      case Type::Emits: return f(emits_);
      case Type::Sizes: return f(sizes_);
      case Type::SizeSets: return f(size_sets_);
      case Type::Ranges: return f(ranges_);
      case Type::Pairs: return f(pairs_);
      case Type::Fusion: return f(fusion_);
      case Type::Dispatch: return f(dispatch_);
      case Type::Winograd: return f(winograd_);
      default: return f(engine_);
    }
  }

 private:
  enum class Type : uint8_t {
    Bool,
    Integer,
    Unsigned,
    Number,
    MaybeUnsigned,
    MaybeNumber,
    Text,
    List,
    Names,
    Emits,
    Sizes,
    SizeSets,
    Ranges,
    Pairs,
    Fusion,
    Dispatch,
    Winograd,
    Engines
  };
  Type type_;
  union {
    bool CommandLine::*bool_;
    int64_t CommandLine::*integer_;
    uint64_t CommandLine::*unsigned_;
    double CommandLine::*number_;
    std::optional<uint64_t> CommandLine::*maybe_unsigned_;
    std::optional<double> CommandLine::*maybe_number_;
    std::string CommandLine::*text_;
    std::vector<std::string> CommandLine::*list_;
    std::set<std::string, std::less<>> CommandLine::*names_;
    std::set<Emit> CommandLine::*emits_;
    DimBindings CommandLine::*sizes_;
    std::vector<DimBindings> CommandLine::*size_sets_;
    SymbolRanges CommandLine::*ranges_;
    std::vector<std::pair<std::string, std::string>> CommandLine::*pairs_;
    FusionPolicy CommandLine::*fusion_;
    KernelDispatch CommandLine::*dispatch_;
    rlxc::Winograd CommandLine::*winograd_;
    Engine CommandLine::*engine_;
  };
};

}  // namespace rlxc
