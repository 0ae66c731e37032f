#include "report/words.h"

namespace rlxc::report {
namespace {

constexpr ReasonWord kReasonWords[] = {
#define REASON(code, meaning, remedy) {#code, meaning, remedy},
#define PATTERN(name, pass, meaning, example)
#include "report/words.def"
#undef REASON
#undef PATTERN
};

constexpr PatternWord kPatternWords[] = {
#define REASON(code, meaning, remedy)
#define PATTERN(name, pass, meaning, example) {#name, #pass, meaning, example},
#include "report/words.def"
#undef REASON
#undef PATTERN
};

}  // namespace

std::span<const ReasonWord> reason_words() { return kReasonWords; }
std::span<const PatternWord> pattern_words() { return kPatternWords; }

}  // namespace rlxc::report
