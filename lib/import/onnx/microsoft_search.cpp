// Searches of com.microsoft: a decoder, which is a sub-graph, generates tokens. The first step is inlined; a Loop does the
// others. Decoders alone (model_type 0) get ids, positions, mask and pasts [2,N,H,P,D]; decoders with an encoder of ids
// (model_type 1) get ids, the encoder's mask and states, and pasts [N,H,P,D]; decoders with an encoder of sound (model_type 2)
// get no mask. N is batch times beams.
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "import/onnx/attention.h"
#include "import/onnx/dynamic.h"
#include "import/onnx/expressions.h"
#include "import/onnx/handlers.h"
#include "support/text.h"

namespace rlxc::onnx_import {
namespace {

constexpr double kLowest = -3.4028234663852886e38;  // of f32: the score of a token that is not allowed
constexpr int64_t kMostNumbers = 1 << 20;           // drawn at import
constexpr double kNever = -std::numeric_limits<double>::infinity();

// Input numbers. SIZE_MAX: no such input.
struct SearchInputs {
  size_t min_length, beams, returned, length_penalty, repetition_penalty, vocabulary, prefix, mask;
  size_t presence = SIZE_MAX, seed = SIZE_MAX, temperature = SIZE_MAX;
};

// Words of a vocabulary of speech. Time stamps are the words from `begin` on.
struct SpeechTokens {
  int64_t end = 0, start = 0, translate = 0, transcribe = 0, start_of_lm = 0, no_timestamps = 0, begin = 0;
};

// How Sampling draws a token: by the probabilities of the words that are left.
struct Draws {
  double temperature = 1, top_p = 0, filter = -1e20, presence_penalty = 0;
  int64_t keep = 0, seed = 0;  // keep: words that are always left
  bool descending = false;     // the words are dropped from the end of the descending order, not the start of the ascending one
};

// `count` numbers in [0,1) as the C++ library of GNU, hence onnxruntime on Linux, draws them: two numbers of a linear
// congruential generator each.
std::vector<float> uniform_numbers(int64_t seed, int64_t count) {
  constexpr int64_t kModulus = 2147483647, kFactor = 16807;
  constexpr double kRange = kModulus - 1;
  int64_t state = ((seed % kModulus) + kModulus) % kModulus;
  if (state == 0) state = 1;
  const auto next = [&] { return static_cast<double>((state = state * kFactor % kModulus) - 1); };
  std::vector<float> out;
  for (int64_t i = 0; i < count; ++i) {
    const double low = next();
    out.push_back(static_cast<float>((low + next() * kRange) / (kRange * kRange)));
  }
  return out;
}

// Scores [N,V] of the words that may follow `tokens` [N,longest], of which the first `length` count: time stamps come in pairs
// (the first may be alone) and grow, and they come wherever together they are more likely than any other word.
ValueId with_timestamps(Op& op, const SpeechTokens& t, ValueId scores, ValueId tokens, ValueId length) {
  constexpr int64_t kMostAtFirst = 50;  // of the first time stamp
  Builder& b = op.b;
  const std::vector<Dim> d = dims_of(op, scores), sequence = dims_of(op, tokens);
  const ValueId word = positions(op, d[1]), at = positions(op, sequence[1]), lowest = b.scalar(DType::F32, kLowest);
  const auto any = [&](ValueId x, ValueId y) { return compute(op, OpKind::Or, x, y); };
  const auto both = [&](ValueId x, ValueId y) { return compute(op, OpKind::And, x, y); };
  const auto is = [&](int64_t id) { return compute(op, OpKind::Eq, word, integer(op, id)); };
  const auto is_time = [&](ValueId x) { return compute(op, OpKind::Ge, b.cast(x, DType::I64), integer(op, t.begin)); };
  const auto before = [&](int64_t n) {  // token [N,1] at length-n
    const ValueId i = compute(op, OpKind::Max, b.sub(length, integer(op, n)), integer(op, 0));
    return b.create(OpKind::Gather, {tokens, b.reshape(i, {Dim(1)})}, AxisAttrs{1});
  };
  const ValueId times = both(is_time(tokens), compute(op, OpKind::Lt, at, length));
  const ValueId last_time = b.reduce(ReduceOp::Max, select(op, times, at, integer(op, -1)), {1}, true);
  const ValueId has_time = compute(op, OpKind::Ge, last_time, integer(op, 0));
  const ValueId prompt = compute(  // up to the first time stamp, [N,1]
      op, OpKind::Min, length,
      b.add(b.reduce(ReduceOp::Min, select(op, times, at, size_of(op, sequence[1])), {1}, true), integer(op, 1)));
  const ValueId last = is_time(before(1)), further = compute(op, OpKind::Gt, length, prompt);
  const ValueId pair = any(b.unary(OpKind::Not, further), is_time(before(2))), alone = both(last, b.unary(OpKind::Not, pair));
  const ValueId time = compute(op, OpKind::Ge, word, integer(op, t.begin));

  ValueId hidden = any(is(t.no_timestamps), is(t.start_of_lm));
  hidden = any(hidden, both(further, any(is(t.start), any(is(t.translate), is(t.transcribe)))));
  hidden = any(hidden, both(both(last, pair), time));
  hidden = any(hidden, both(alone, compute(op, OpKind::Lt, word, integer(op, t.end))));
  const ValueId place = compute(op, OpKind::Max, last_time, integer(op, 0));
  const ValueId stamp = b.cast(b.create(OpKind::GatherElements, {tokens, place}, AxisAttrs{1}), DType::I64);
  const ValueId next = b.add(stamp, select(op, alone, integer(op, 0), integer(op, 1)));
  hidden = any(hidden, both(both(has_time, time), compute(op, OpKind::Lt, word, next)));
  const ValueId late = compute(op, OpKind::Gt, word, integer(op, t.begin + kMostAtFirst));
  hidden = any(hidden, both(b.unary(OpKind::Not, further), late));
  scores = select(op, hidden, lowest, scores);

  const Dim texts(t.begin);
  const ValueId text = b.narrow(scores, 1, Dim(0), texts), stamps = b.narrow(scores, 1, texts, op.dims().sub(d[1], texts));
  const ValueId most = b.reduce(ReduceOp::Max, stamps, {1}, true);
  const ValueId weights =
      select(op, compute(op, OpKind::Gt, stamps, lowest), b.unary(OpKind::Exp, b.sub(stamps, most)), b.scalar(DType::F32, 0));
  const ValueId sum = b.reduce(ReduceOp::Sum, weights, {1}, true);
  const ValueId together =
      select(op, compute(op, OpKind::Gt, sum, b.scalar(DType::F32, 0)), b.add(b.unary(OpKind::Log, sum), most), lowest);
  const ValueId wins = compute(op, OpKind::Gt, together, b.reduce(ReduceOp::Max, text, {1}, true));
  return select(op, both(wins, b.unary(OpKind::Not, time)), lowest, scores);
}

// What an iteration changes, in the order of the values that the loop carries.
struct State {
  ValueId tokens;                            // i32 [N,longest]
  ValueId done;                              // bool [B]
  ValueId scores;                            // f32 [N]: of the beams
  ValueId found, found_scores, found_count;  // i32 [B,W,longest], f32 [B,W], i64 [B]: finished sequences
  ValueId positions, mask;                   // decoders alone: i32 [N,1] of the next tokens, i32 [N,P]
  std::vector<ValueId> pasts;

  std::vector<ValueId*> fields() {
    std::vector<ValueId*> all{&tokens, &done, &scores, &found, &found_scores, &found_count, &positions, &mask};
    for (ValueId& v : pasts) all.push_back(&v);
    std::erase_if(all, [](const ValueId* v) { return !v->valid(); });
    return all;
  }
};

class Search {
 public:
  Search(Op& op, bool greedy, const SearchInputs& inputs) : op_(op), greedy_(greedy), at_(inputs) {}

  // Draws the tokens instead of taking the best.
  bool draw() {
    Draws d;
    d.temperature = op_.f("temperature", 1);
    d.top_p = op_.f("top_p", 0);
    d.filter = op_.f("filter_value", d.filter);
    d.presence_penalty = op_.f("presence_penalty", 0);
    d.keep = op_.i("min_tokens_to_keep", 0);
    d.descending = op_.i("custom", 0) != 0;
    if (!number(at_.seed, 0, INT32_MIN, INT32_MAX, "seed", &d.seed)) return false;
    if (!(d.temperature > 0)) return op_.fail(Code::BadAttribute, "temperature must be > 0");
    if (d.keep < 0) return op_.fail(Code::BadAttribute, "min_tokens_to_keep must be at least 0");
    draws_ = d;
    return true;
  }

  void run() {
    if (!read() || !start()) return;
    const std::array<ValueId, 2> first = first_step();
    if (!first[0].valid()) return;
    const State end = other_steps(first[0], first[1]);
    if (end.tokens.valid()) finish(end);
  }

 private:
  bool number(size_t input, int64_t fallback, int64_t low, int64_t high, std::string_view what, int64_t* out) {
    *out = fallback;
    if (input == SIZE_MAX || !op_.has(input)) return true;
    const auto v = op_.need_ints(input, what);
    if (!v) return false;
    *out = v->size() == 1 ? (*v)[0] : low - 1;
    return (*out >= low && *out <= high) || op_.fail(Code::BadAttribute, "the " + std::string(what) + " is out of range");
  }

  bool real(size_t input, std::string_view what, double* out) {
    *out = 1;
    if (input == SIZE_MAX || !op_.has(input)) return true;
    const auto v = op_.need_reals(input, what);
    if (!v) return false;
    *out = v->size() == 1 ? (*v)[0] : 0;
    return *out > 0 || op_.fail(Code::BadAttribute, "the " + std::string(what) + " must be > 0");
  }

  bool read() {
    const bool whisper = op_.row.name == "WhisperBeamSearch";
    const int64_t type = op_.i("model_type", whisper ? 2 : 0);
    if (type < (whisper ? 2 : 0) || type > 2) return op_.unsupported("model_type " + std::to_string(type));
    spoken_ = type == 2;
    paired_ = type != 0;
    eos_ = op_.i("eos_token_id", -1);
    pad_ = op_.i("pad_token_id", -1);
    start_ = op_.i("decoder_start_token_id", -1);
    ngram_ = op_.i("no_repeat_ngram_size", 0);
    early_ = op_.i("early_stopping", 0) != 0;
    vocabulary_ = op_.i("vocab_size", -1);
    if (paired_ && greedy_) return op_.unsupported("a greedy search with an encoder");
    if (paired_ != op_.has_attr("encoder"))
      return op_.fail(Code::BadAttribute, "model_type 1 and 2, and no other, have an encoder");
    if (ngram_ < 0 || ngram_ > 64) return op_.fail(Code::BadAttribute, "no_repeat_ngram_size is out of range");
    if (op_.has(11) && !greedy_) {  // logits_processor
      int64_t processor = 0;
      if (!number(11, 0, 0, 1 << 20, "kind of the logits processor", &processor)) return false;
      if (processor > (spoken_ ? 1 : 0)) return op_.unsupported("the logits processor " + std::to_string(processor));
      if (processor == 1 && !read_speech_tokens()) return false;
    }
    if (op_.has(10) && !greedy_ && !spoken_) return op_.unsupported("decoder_input_ids");
    if (whisper) {
      for (const std::string_view name : {"translate_token_id", "transcribe_token_id", "start_of_lm_token_id",
                                          "no_timestamps_token_id", "beginning_timestamp_token_id"})
        op_.i(name, -1);  // of the logits processor
      silence_ = op_.i("no_speech_token_id", -1);
      if (op_.i("decoder_output_cross_qk", 0) != 0) return op_.unsupported("scores of the attention to the encoder");
      if (op_.has(13)) return op_.unsupported("extra_decoding_ids");
    }
    if (!op_.has(0) || op_.rank(0) != (spoken_ ? 3 : 2))
      return op_.fail(Code::BadShape,
                      (spoken_ ? "needs features [batch, size, length]: " : "needs ids [batch, length]: ") + op_.show(0));
    if (spoken_ && op_.has(10) && op_.rank(10) != 2)
      return op_.fail(Code::BadShape, "decoder_input_ids must be [batch, length]: " + op_.show(10));
    if (!number(1, 0, 1, 1 << 16, "maximum length", &longest_) ||
        !number(at_.min_length, 0, 0, 1 << 16, "minimum length", &shortest_) ||
        !number(at_.beams, 1, 1, 256, "number of beams", &beams_) ||
        !number(at_.returned, 1, 1, beams_, "number of returned sequences", &returned_) ||
        !real(at_.length_penalty, "length penalty", &length_penalty_) ||
        !real(at_.repetition_penalty, "repetition penalty", &repetition_) || !real(at_.temperature, "temperature", &temperature_))
      return false;
    batch_ = op_.sizes(0)[0];
    rows_ = op_.dims().mul(batch_, Dim(beams_));
    prompt_ = !paired_ ? op_.sizes(0)[1] : spoken_ && op_.has(10) ? op_.sizes(10)[1] : Dim(1);
    if (const auto n = op_.dims().constant_value(prompt_); n && *n >= longest_)
      return op_.fail(Code::BadShape, "the prompt has the maximum length already");
    const auto body = op_.body("decoder");
    if (!body) return false;
    decoder_ = *body;
    inputs_ = op_.im.body_inputs(decoder_);
    return op_.failed() ? false : true;
  }

  bool read_speech_tokens() {
    SpeechTokens t;
    t.end = eos_;
    t.start = start_;
    for (const auto& [name, id] :
         std::initializer_list<std::pair<std::string_view, int64_t*>>{{"translate_token_id", &t.translate},
                                                                      {"transcribe_token_id", &t.transcribe},
                                                                      {"start_of_lm_token_id", &t.start_of_lm},
                                                                      {"no_timestamps_token_id", &t.no_timestamps},
                                                                      {"beginning_timestamp_token_id", &t.begin}}) {
      *id = op_.i(name, -1);
      if (*id < 0) return op_.fail(Code::BadAttribute, "the logits processor 1 needs " + std::string(name));
    }
    speech_ = t;
    return true;
  }

  // Repeats each entry of axis `axis` for its beams.
  ValueId for_beams(ValueId x, int64_t axis = 0) {
    if (beams_ == 1 || !x.valid()) return x;
    std::vector<Dim> d = dims_of(op_, x), wide = d;
    const auto at = static_cast<size_t>(axis);
    wide.insert(wide.begin() + axis + 1, Dim(beams_));
    std::vector<Dim> one = wide;
    one[at + 1] = Dim(1);
    d[at] = op_.dims().mul(d[at], Dim(beams_));
    return op_.b.reshape(op_.b.expand(op_.b.reshape(x, one), wide), d);
  }

  // The state before the first step.
  bool start() {
    Builder& b = op_.b;
    const ValueId pad = b.scalar(DType::I32, static_cast<double>(pad_));
    const ValueId given = !paired_ ? b.cast(op_.in(0), DType::I32)
                          : spoken_ && op_.has(10)
                              ? b.cast(op_.in(10), DType::I32)
                              : b.expand(b.scalar(DType::I32, static_cast<double>(start_)), {batch_, Dim(1)});
    const ValueId prompt = for_beams(given);
    given_ = given;
    PadAttrs p;
    p.before = {Dim(0), Dim(0)};
    p.after = {Dim(0), op_.dims().sub(Dim(longest_), prompt_)};
    now_.tokens = b.create(OpKind::Pad, {prompt, pad}, std::move(p));
    now_.done = b.expand(b.scalar(DType::Bool, 0), {batch_});
    if (!greedy_) {
      // The first beam alone counts at first, so that the beams differ.
      const ValueId first = compute(op_, OpKind::Eq, positions(op_, Dim(beams_)), integer(op_, 0));
      const ValueId each = select(op_, first, b.scalar(DType::F32, 0), b.scalar(DType::F32, -1e9));
      now_.scores = b.reshape(b.expand(each, {batch_, Dim(beams_)}), {rows_});
      now_.found = b.expand(pad, {batch_, Dim(beams_), Dim(longest_)});
      now_.found_scores = b.expand(b.scalar(DType::F32, kNever), {batch_, Dim(beams_)});
      now_.found_count = b.expand(integer(op_, 0), {batch_});
    }
    if (!paired_) {
      const ValueId zero = b.scalar(DType::I32, 0);
      ValueId mask =
          op_.has(at_.mask) ? b.cast(op_.in(at_.mask), DType::I32) : b.cast(compute(op_, OpKind::Ne, given, pad), DType::I32);
      mask = for_beams(mask);
      const ValueId count = b.create(OpKind::Cumsum, {mask}, CumAttrs{1, true});
      first_positions_ = select(op_, compute(op_, OpKind::Eq, mask, zero), zero, count);
      now_.positions = b.reduce(ReduceOp::Sum, mask, {1}, true);
      now_.mask = mask;
      prompt_ids_ = prompt;
    }
    return now_.tokens.valid() && !op_.failed();
  }

  std::vector<ValueId> call(Op& op, Bytes body, std::span<const ValueId> inputs) {
    std::vector<ValId> values;
    for (ValueId v : inputs) {
      if (!v.valid()) return {};
      values.push_back(op.im.value(v));
    }
    std::vector<ValueId> out;
    for (ValId v : op.im.inline_body(body, values)) out.push_back(op.im.materialise(v));
    if (out.empty()) op_.give_up();
    return out;
  }

  // Runs the encoder, or the decoder on the prompt, and chooses the first tokens. Returns the state and whether to go on.
  std::array<ValueId, 2> first_step() {
    Builder& b = op_.b;
    std::vector<ValueId> out;
    if (paired_) {
      const auto encoder = op_.body("encoder");
      if (!encoder) return {};
      const auto expected = op_.im.body_inputs(*encoder);
      if (expected.size() != (spoken_ ? 2 : 3)) {
        op_.unsupported("an encoder without the first step of the decoder");
        return {};
      }
      const ValueId ids = op_.in(0);
      ValueId mask = op_.has(at_.mask) && !spoken_ ? op_.in(at_.mask) : ValueId();
      if (!mask.valid() && !spoken_) {  // padding on the left is hidden
        const ValueId real = b.cast(compute(op_, OpKind::Ne, ids, b.scalar(op_.dtype(0), static_cast<double>(pad_))), DType::I32);
        const ValueId seen = b.create(OpKind::Cumsum, {real}, CumAttrs{1});
        mask = b.cast(compute(op_, OpKind::Gt, seen, b.scalar(DType::I32, 0)), DType::I32);
      }
      std::vector<ValueId> feeds{ids, mask, given_};
      if (spoken_) feeds.erase(feeds.begin() + 1);
      out = call(op_, *encoder, feeds);
      const size_t first = spoken_ ? 1 : 2;
      const bool states = inputs_.size() > first && inputs_[first].name == "encoder_hidden_states";
      const size_t fixed = first + states, layers = inputs_.size() < fixed ? 0 : (inputs_.size() - fixed) / 4;
      if (out.size() != 2 + 4 * layers || layers == 0 || (inputs_.size() - fixed) % 4 != 0) {
        if (!op_.failed()) op_.unsupported("these inputs of the decoder");
        return {};
      }
      if (op_.wants(4) && !no_speech(out[0])) return {};
      for (ValueId& v : out) v = for_beams(v);
      if (!spoken_) constant_ = {for_beams(mask)};
      if (states) constant_.push_back(out[1]);
      fixed_ = constant_.size();
      now_.pasts.assign(out.begin() + 2, out.begin() + 2 + static_cast<std::ptrdiff_t>(2 * layers));
      constant_.insert(constant_.end(), out.begin() + 2 + static_cast<std::ptrdiff_t>(2 * layers), out.end());
    } else {
      std::vector<ValueId> feeds{prompt_ids_, first_positions_, now_.mask};
      for (size_t i = 3; i < inputs_.size(); ++i) {
        Type t = inputs_[i].type;
        if (t.rank() != 5) {
          op_.unsupported("input " + std::to_string(i) + " of the decoder");
          return {};
        }
        t.dims[0] = Dim(2);
        t.dims[1] = rows_;
        t.dims[3] = Dim(0);
        feeds.push_back(b.expand(b.scalar(t.dtype, 0), t.dims));
      }
      const auto first = op_.has_attr("init_decoder") ? op_.body("init_decoder") : std::optional(decoder_);
      if (!first) return {};
      out = call(op_, *first, feeds);
      if (out.size() != inputs_.size() - 2) {
        if (!op_.failed()) op_.unsupported("the results of the decoder");
        return {};
      }
      now_.pasts.assign(out.begin() + 1, out.end());
    }
    const ValueId going = step(op_, &now_, out[0], size_of(op_, prompt_), true);
    return {now_.tokens, going};
  }

  // Scores [N,V] after the rules for tokens. `length`: of the sequences.
  ValueId allowed(Op& op, ValueId scores, ValueId tokens, ValueId length, bool first) {
    Builder& b = op.b;
    const Dim words = op.graph().dims(scores)[1];
    const ValueId lowest = b.scalar(DType::F32, kLowest), at = positions(op, Dim(longest_));
    // Marks tokens of each row, where `used` is true, among the words.
    const auto marked = [&](ValueId token, ValueId used) {
      const ValueId place = select(op, used, b.cast(token, DType::I64), size_of(op, words));
      const ValueId none = b.expand(b.scalar(DType::U8, 0), {rows_, op.dims().add(words, Dim(1))});
      const ValueId ones = b.expand(b.scalar(DType::U8, 1), dims_of(op, place));
      const ValueId all = b.create(OpKind::ScatterElements, {none, place, ones}, ScatterAttrs{1});
      return b.cast(b.narrow(all, 1, Dim(0), words), DType::Bool);
    };
    if (repetition_ != 1) {
      const ValueId p = b.scalar(DType::F32, repetition_), inside = compute(op, OpKind::Lt, at, length);
      const ValueId changed =
          select(op, compute(op, OpKind::Lt, scores, b.scalar(DType::F32, 0)), b.mul(scores, p), b.div(scores, p));
      scores = select(op, marked(tokens, inside), changed, scores);
    }
    if (ngram_ > 0 && ngram_ <= longest_) {
      const Dim starts(longest_ - ngram_ + 1);
      const ValueId begin = positions(op, starts);
      ValueId same = compute(op, OpKind::Le, b.add(begin, integer(op, ngram_)), length);
      for (int64_t k = 0; k + 1 < ngram_; ++k) {
        const ValueId last = compute(op, OpKind::Max, b.add(length, integer(op, k + 1 - ngram_)), integer(op, 0));
        const ValueId tail = b.create(OpKind::Gather, {tokens, b.reshape(last, {Dim(1)})}, AxisAttrs{1});
        same = compute(op, OpKind::And, same, compute(op, OpKind::Eq, b.narrow(tokens, 1, Dim(k), starts), tail));
      }
      const ValueId used = b.expand(same, {rows_, starts});
      scores = select(op, marked(b.narrow(tokens, 1, Dim(ngram_ - 1), starts), used), lowest, scores);
    }
    const auto masked = [&](ValueId kept) {
      scores = select(op, compute(op, OpKind::Ne, kept, b.scalar(DType::I32, 0)), scores, lowest);
    };
    if (op.has(at_.vocabulary)) masked(op.in(at_.vocabulary));
    if (first && op.has(at_.prefix)) masked(for_beams(op.in(at_.prefix)));
    if (shortest_ > 0 && eos_ >= 0) {
      const ValueId is_end = compute(op, OpKind::Eq, positions(op, words), integer(op, eos_));
      const ValueId early = compute(op, OpKind::Lt, length, integer(op, shortest_));
      scores = select(op, compute(op, OpKind::And, is_end, early), lowest, scores);
    }
    if (temperature_ != 1) scores = b.div(scores, b.scalar(DType::F32, temperature_));
    return speech_ ? with_timestamps(op, *speech_, scores, tokens, length) : scores;
  }

  // Output 4: the probability that there is no speech, by the first logits [B,S,V].
  bool no_speech(ValueId logits) {
    Builder& b = op_.b;
    const std::vector<Dim> d = dims_of(op_, logits);
    if (silence_ < 0 || d.size() != 3) return op_.fail(Code::BadAttribute, "output 4 needs no_speech_token_id");
    const ValueId last = b.reshape(b.narrow(logits, 1, op_.dims().sub(d[1], Dim(1)), Dim(1)), {d[0], d[2]});
    const ValueId p = b.narrow(b.create(OpKind::Softmax, {last}, AxisAttrs{1}), 1, Dim(silence_), Dim(1));
    op_.set(4, b.reshape(p, {d[0]}));
    return true;
  }

  // Chooses the next tokens by logits [N,S,V] and appends them at `length`. Returns whether a sequence goes on.
  ValueId step(Op& op, State* s, ValueId logits, ValueId length, bool first) {
    if (!logits.valid() || op.graph().rank(logits) != 3) {
      if (!op_.failed()) op_.fail(Code::BadShape, "the decoder must give logits [batch, length, words]");
      return {};
    }
    Builder& b = op.b;
    const std::vector<Dim> d = dims_of(op, logits);
    const Dim words = vocabulary_ > 0 ? Dim(vocabulary_) : d[2];
    ValueId x = b.narrow(logits, 1, op.dims().sub(d[1], Dim(1)), Dim(1));
    x = b.cast(b.narrow(b.reshape(x, {rows_, d[2]}), 1, Dim(0), words), DType::F32);
    return greedy_ ? greedy_step(op, s, x, length, first) : beam_step(op, s, x, length, first);
  }

  void append(Op& op, State* s, ValueId next, ValueId length) {
    const ValueId here = compute(op, OpKind::Eq, positions(op, Dim(longest_)), length);
    s->tokens = select(op, here, op.b.reshape(next, {rows_, Dim(1)}), s->tokens);
    next_ = op.b.reshape(next, {rows_, Dim(1)});
  }

  ValueId any_open(Op& op, ValueId done) {
    const ValueId open = op.b.cast(op.b.unary(OpKind::Not, done), DType::U8);
    return op.b.cast(op.b.reduce(ReduceOp::Max, open, {0}, false), DType::Bool);
  }

  // A number in [0,1) per row for the token at `length`.
  ValueId numbers(Op& op, ValueId length) {
    const Dim rows = rows_;
    ValueId all;
    if (const auto n = op.dims().constant_value(rows); n && *n <= kMostNumbers / longest_) {
      const std::vector<float> v = uniform_numbers(draws_->seed, longest_ * *n);
      all = op.b.constant(make_data(DType::F32, {longest_, *n}, v));
    } else {
      RandomAttrs a;
      a.dims = {Dim(longest_), rows};
      a.seed = draws_->seed;
      a.b = 1;
      all = op.b.create(OpKind::Random, {}, std::move(a));
    }
    const ValueId step = op.b.sub(length, size_of(op, prompt_));
    return op.b.reshape(op.b.create(OpKind::Gather, {all, step}, AxisAttrs{0}), {rows, Dim(1)});
  }

  // Draws a word per row by scores [N,V].
  ValueId drawn(Op& op, ValueId scores, ValueId length) {
    Builder& b = op.b;
    const Draws& d = *draws_;
    const Dim words = op.graph().dims(scores)[1];
    const auto real = [&](double v) { return b.scalar(DType::F32, v); };
    if (d.temperature != 1) scores = b.div(scores, real(d.temperature));
    if (op.has(at_.presence) && d.presence_penalty != 0)
      scores = b.sub(scores, b.mul(b.cast(op.in(at_.presence), DType::F32), real(d.presence_penalty)));
    const NodeId order = b.create_node(OpKind::TopK, std::array{scores}, TopKAttrs{words, 1, d.descending, true});
    if (!order.valid()) return {};
    const ValueId sorted = op.graph().result(order, 0), word = op.graph().result(order, 1);
    const ValueId sum =
        b.create(OpKind::Cumsum, {b.create(OpKind::Softmax, {sorted}, AxisAttrs{1})}, CumAttrs{1, d.descending, false});
    ValueId lost;
    if (d.descending) {
      lost = compute(op, OpKind::Gt, sum, real(d.top_p));
    } else {
      const ValueId some = compute(op, OpKind::Max, b.sub(size_of(op, words), integer(op, d.keep)), integer(op, 1));
      lost = compute(op, OpKind::And, compute(op, OpKind::Le, sum, real(1 - d.top_p)),
                     compute(op, OpKind::Lt, positions(op, words), some));
    }
    const ValueId left =
        b.create(OpKind::ScatterElements, {scores, word, select(op, lost, real(d.filter), sorted)}, ScatterAttrs{1});
    const ValueId most = b.reduce(ReduceOp::Max, left, {1}, true);
    const ValueId up_to = b.create(OpKind::Cumsum, {b.unary(OpKind::Exp, b.sub(left, most))}, CumAttrs{1});
    const ValueId all = b.narrow(up_to, 1, op.dims().sub(words, Dim(1)), Dim(1));
    const ValueId below = compute(op, OpKind::Le, up_to, b.mul(numbers(op, length), all));
    const ValueId count = b.reduce(ReduceOp::Sum, b.cast(below, DType::I64), {1}, false);
    return compute(op, OpKind::Min, count, size_of(op, op.dims().sub(words, Dim(1))));
  }

  // An end token is stored as padding.
  ValueId greedy_step(Op& op, State* s, ValueId logits, ValueId length, bool first) {
    Builder& b = op.b;
    const ValueId scores = allowed(op, logits, s->tokens, length, first);
    const ValueId best = draws_ ? drawn(op, scores, length) : b.create(OpKind::ArgReduce, {scores}, ArgAttrs{1, true, false});
    s->done = compute(op, OpKind::Or, s->done, compute(op, OpKind::Eq, best, integer(op, eos_)));
    append(op, s, b.cast(select(op, s->done, integer(op, pad_), best), DType::I32), length);
    return any_open(op, s->done);
  }

  ValueId penalised(Op& op, ValueId sums, ValueId length) {
    if (length_penalty_ == 1) return op.b.div(sums, op.b.cast(length, DType::F32));
    return op.b.div(sums, compute(op, OpKind::Pow, op.b.cast(length, DType::F32), op.b.scalar(DType::F32, length_penalty_)));
  }

  // The best W of the finished sequences and of candidates [B,W] with tokens [B,W,longest].
  void keep_best(Op& op, State* s, ValueId scores, ValueId tokens) {
    Builder& b = op.b;
    const Dim w(beams_);
    const NodeId best =
        b.create_node(OpKind::TopK, std::array{b.concat(std::array{s->found_scores, scores}, 1)}, TopKAttrs{w, 1, true, true});
    if (!best.valid()) return;
    s->found_scores = op.graph().result(best, 0);
    const ValueId at = b.expand(b.reshape(op.graph().result(best, 1), {batch_, w, Dim(1)}), {batch_, w, Dim(longest_)});
    s->found = b.create(OpKind::GatherElements, {b.concat(std::array{s->found, tokens}, 1), at}, AxisAttrs{1});
  }

  // Of 2W candidates, end tokens among the first W finish sequences, and the first W others go on.
  ValueId beam_step(Op& op, State* s, ValueId logits, ValueId length, bool first) {
    Builder& b = op.b;
    const Dim w(beams_), candidates(2 * beams_), all(longest_);
    const ValueId words = size_of(op, op.graph().dims(logits)[1]);
    ValueId scores = allowed(op, b.create(OpKind::LogSoftmax, {logits}, AxisAttrs{1}), s->tokens, length, first);
    scores = b.add(scores, b.reshape(s->scores, {rows_, Dim(1)}));
    const Dim row = op.dims().mul(w, op.graph().dims(logits)[1]);
    const NodeId best =
        b.create_node(OpKind::TopK, std::array{b.reshape(scores, {batch_, row})}, TopKAttrs{candidates, 1, true, true});
    if (!best.valid()) return {};
    const ValueId sums = op.graph().result(best, 0), index = op.graph().result(best, 1);
    const ValueId beam = compute(op, OpKind::Div, index, words), token = compute(op, OpKind::Mod, index, words);
    const ValueId ends = compute(op, OpKind::Eq, token, integer(op, eos_)), order = positions(op, candidates);
    const ValueId open = b.reshape(b.unary(OpKind::Not, s->done), {batch_, Dim(1)});
    const ValueId offset = b.reshape(b.mul(positions(op, batch_), integer(op, beams_)), {batch_, Dim(1)});

    const ValueId finished = compute(op, OpKind::And, b.narrow(ends, 1, Dim(0), w), open);
    const ValueId inside = compute(op, OpKind::Lt, positions(op, all), length);
    const ValueId kept = select(op, inside, s->tokens, b.scalar(DType::I32, static_cast<double>(pad_)));
    const ValueId from = b.reshape(b.add(b.narrow(beam, 1, Dim(0), w), offset), {rows_});
    const ValueId ended = b.reshape(b.create(OpKind::Gather, {kept, from}, AxisAttrs{0}), {batch_, w, all});
    const ValueId ended_scores =
        select(op, finished, penalised(op, b.narrow(sums, 1, Dim(0), w), length), b.scalar(DType::F32, kNever));
    keep_best(op, s, ended_scores, ended);
    const ValueId more = b.reduce(ReduceOp::Sum, b.cast(finished, DType::I64), {1}, false);
    s->found_count = b.add(s->found_count, more);

    const ValueId key =
        b.cast(select(op, ends, b.add(order, size_of(op, candidates)), b.expand(order, {batch_, candidates})), DType::F32);
    const NodeId first_open = b.create_node(OpKind::TopK, std::array{key}, TopKAttrs{w, 1, false, true});
    if (!first_open.valid()) return {};
    const ValueId chosen = op.graph().result(first_open, 1);
    const auto of_chosen = [&](ValueId x) { return b.create(OpKind::GatherElements, {x, chosen}, AxisAttrs{1}); };
    const ValueId source = b.reshape(select(op, open, b.add(of_chosen(beam), offset), integer(op, 0)), {rows_});
    const ValueId next = b.reshape(b.cast(select(op, open, of_chosen(token), integer(op, pad_)), DType::I32), {rows_});
    s->scores = b.reshape(select(op, open, of_chosen(sums), b.scalar(DType::F32, 0)), {rows_});

    // A batch is done if no open beam can beat its finished sequences. As onnxruntime, the best sum is taken from 2W candidates
    // that begin W, not 2W, per batch.
    ValueId done = compute(op, OpKind::Ge, s->found_count, integer(op, beams_));
    if (!early_) {
      const ValueId flat = b.reshape(sums, {op.dims().mul(batch_, candidates)});
      const ValueId best_sum =
          b.reduce(ReduceOp::Max, b.create(OpKind::Gather, {flat, b.add(offset, order)}, AxisAttrs{0}), {1}, false);
      const ValueId worst = b.reduce(ReduceOp::Min, s->found_scores, {1}, false);
      done = compute(op, OpKind::And, done, compute(op, OpKind::Ge, worst, penalised(op, best_sum, length)));
    }
    s->done = compute(op, OpKind::Or, s->done, done);

    s->tokens = b.create(OpKind::Gather, {s->tokens, source}, AxisAttrs{0});
    append(op, s, next, length);
    for (ValueId& past : s->pasts)
      if (beams_ > 1) past = b.create(OpKind::Gather, {past, source}, AxisAttrs{paired_ ? 0 : 1});
    if (s->mask.valid() && beams_ > 1) {
      s->mask = b.create(OpKind::Gather, {s->mask, source}, AxisAttrs{0});
    }
    return any_open(op, s->done);
  }

  // The inputs of the decoder for the tokens that were appended last.
  std::vector<ValueId> feeds(Op& op, State* s, ValueId next, ValueId length, std::span<const ValueId> constant) {
    Builder& b = op.b;
    if (!paired_) {
      const ValueId one = b.expand(b.scalar(DType::I32, 1), {rows_, Dim(1)});
      std::vector<ValueId> out{next, s->positions, b.concat(std::array{s->mask, one}, 1)};
      out.insert(out.end(), s->pasts.begin(), s->pasts.end());
      s->mask = out[2];
      s->positions = b.add(s->positions, one);
      return out;
    }
    std::vector<ValueId> out{whole_sequences() ? first_part(op, s->tokens, 1, length) : next};
    out.insert(out.end(), constant.begin(), constant.begin() + static_cast<std::ptrdiff_t>(fixed_));
    out.insert(out.end(), s->pasts.begin(), s->pasts.end());
    out.insert(out.end(), constant.begin() + static_cast<std::ptrdiff_t>(fixed_), constant.end());
    return out;
  }

  // Whether the decoder takes all tokens each time, not the last ones.
  bool whole_sequences() const {
    const Type& t = inputs_[0].type;
    return paired_ && t.rank() == 2 && !(t.dims[1] == Dim(1));
  }

  State other_steps(ValueId tokens, ValueId going) {
    now_.tokens = tokens;
    const Dim length = op_.dims().fresh("past");
    const int64_t axis = paired_ ? 2 : 3;
    std::vector<Type> types{tensor_type(DType::I64, {}), tensor_type(DType::Bool, {})};
    State begin = now_;
    std::vector<ValueId> operands{size_of(op_, op_.dims().sub(op_.dims().sub(Dim(longest_), prompt_), Dim(1))), going};
    for (const ValueId* v : begin.fields()) {
      Type t = op_.graph().type(*v);
      if (v == &begin.mask) t.dims[1] = length;
      for (const ValueId& past : begin.pasts)
        if (v == &past) t.dims[static_cast<size_t>(axis)] = length;
      types.push_back(std::move(t));
      operands.push_back(*v);
    }
    types.push_back(op_.graph().type(next_));
    operands.push_back(next_);
    std::vector<ValId> outside;
    for (ValueId v : constant_) outside.push_back(op_.im.value(v));
    std::vector<Frame::Capture> captures;
    const Graph* g =
        op_.im.build_body(std::string(op_.node().name) + ".step", types, &captures, [&](std::span<const ValueId> in) {
          const NodeWork work = op_.work_inside();
          Op op(op_.im, work, op_.row, op_.opset);
          State s = now_;
          size_t i = 2;
          for (ValueId* v : s.fields()) *v = in[i++];
          std::vector<ValueId> constant;
          for (ValId v : outside) constant.push_back(op.im.materialise(op.im.visible(v)));
          const ValueId count = op.b.add(in[0], op.b.add(size_of(op, prompt_), integer(op, 1)));
          std::vector<ValueId> out = call(op, decoder_, feeds(op, &s, in[i], count, constant));
          if (out.size() != 1 + s.pasts.size()) {
            if (!op_.failed()) op_.unsupported("the results of the decoder");
            return std::vector<ValueId>();
          }
          for (size_t k = 0; k < s.pasts.size(); ++k) {
            s.pasts[k] = out[1 + k];
            // The pasts of decoders that take all tokens grow by more each time.
            if (whole_sequences()) s.pasts[k] = first_part(op, s.pasts[k], axis, integer(op, longest_ * (longest_ + 1) / 2));
          }
          const ValueId more = step(op, &s, out[0], count, false);
          std::vector<ValueId> results{more};
          for (const ValueId* v : s.fields()) results.push_back(*v);
          results.push_back(next_);
          for (ValueId v : results)
            if (!v.valid()) return std::vector<ValueId>();
          return results;
        });
    if (!g) {
      op_.give_up();
      return {};
    }
    for (const Frame::Capture& c : captures) operands.push_back(op_.im.materialise(c.outer));
    const NodeId n =
        op_.b.create_node(OpKind::Loop, operands, LoopAttrs{static_cast<int64_t>(types.size()) - 2}, std::array{g->id()});
    if (!n.valid()) return {};
    State end = now_;
    size_t i = 0;
    for (ValueId* v : end.fields()) *v = op_.graph().result(n, i++);
    return end;
  }

  void finish(State end) {
    Builder& b = op_.b;
    if (greedy_) return op_.set(0, end.tokens);
    // The open beams have the maximum length.
    const Dim w(beams_), all(longest_);
    const ValueId open = b.reshape(b.unary(OpKind::Not, end.done), {batch_, Dim(1)});
    const ValueId sums = penalised(op_, b.reshape(end.scores, {batch_, w}), integer(op_, longest_));
    keep_best(op_, &end, select(op_, open, sums, b.scalar(DType::F32, kNever)), b.reshape(end.tokens, {batch_, w, all}));
    op_.set(0, b.narrow(end.found, 1, Dim(0), Dim(returned_)));
    op_.set(1, b.narrow(end.found_scores, 1, Dim(0), Dim(returned_)));
  }

  Op& op_;
  bool greedy_, paired_ = false, spoken_ = false, early_ = false;
  SearchInputs at_;
  int64_t eos_ = 0, pad_ = 0, start_ = 0, ngram_ = 0, vocabulary_ = 0;
  int64_t longest_ = 0, shortest_ = 0, beams_ = 1, returned_ = 1;
  double length_penalty_ = 1, repetition_ = 1, temperature_ = 1;
  int64_t silence_ = -1;
  std::optional<Draws> draws_;
  std::optional<SpeechTokens> speech_;
  Dim batch_, rows_, prompt_;
  Bytes decoder_;
  std::vector<BodyInput> inputs_;
  State now_;
  ValueId given_, prompt_ids_, first_positions_, next_;  // given_: the prompt [B,S]
  std::vector<ValueId> constant_;                        // the encoder's mask, its states, and its keys and values
  size_t fixed_ = 0;                                     // of them before the pasts
};

}  // namespace

// Operands: ids, maximum and minimum length, numbers of beams and of results, penalties of length and of repetition, masks of
// words, of first words, and of ids.
void beam_search(Op& op) { Search(op, false, {2, 3, 4, 5, 6, 7, 8, 9}).run(); }

// Operands: features, those of a beam search, the tokens to begin with, the logits processor, layers and heads whose attention is
// an output, further tokens to begin with, temperature.
void whisper_beam_search(Op& op) {
  SearchInputs inputs{2, 3, 4, 5, 6, 7, 8, 9};
  inputs.temperature = 14;
  Search(op, false, inputs).run();
}

// Operands: ids, maximum and minimum length, penalty of repetition, masks of words, of first words, and of ids.
void greedy_search(Op& op) { Search(op, true, {2, SIZE_MAX, SIZE_MAX, SIZE_MAX, 3, 4, 5, 6}).run(); }

// Operands: those of a greedy search, the penalty mask of words, and the seed.
void token_sampling(Op& op) {
  Search search(op, true, {2, SIZE_MAX, SIZE_MAX, SIZE_MAX, 3, 4, 5, 6, 7, 8});
  if (search.draw()) search.run();
}

}  // namespace rlxc::onnx_import
