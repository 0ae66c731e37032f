// `rlxc train`: epochs of steps on the cpu package, and the model with its new weights.
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <numeric>
#include <sstream>

#include "backend/backend.h"
#include "backend/registry.h"
#include "commands/commands.h"
#include "commands/part.h"
#include "commands/train_data.h"
#include "driver/compile.h"
#include "driver/load.h"
#include "driver/training_report.h"
#include "driver/transform_stage.h"
#include "ir/bind_dims.h"
#include "runtime/run_training.h"
#include "support/output_file.h"
#include "support/progress.h"
#include "support/text.h"

namespace rlxc {
namespace {

constexpr size_t kRoom = 64;  // bytes behind and alignment of buffers

struct Epoch {
  double loss = 0;
  std::optional<double> validation_loss, accuracy;
};

// Metrics of an evaluation: sums over samples.
struct Measured {
  double loss = 0, right = 0, judged = 0;
  int64_t samples = 0;
};

// A buffer at a multiple of kRoom.
class Buffer {
 public:
  std::byte* of(uint64_t bytes) {
    if (storage_.size() < bytes + 2 * kRoom) storage_.resize(bytes + 2 * kRoom);
    const auto at = reinterpret_cast<uintptr_t>(storage_.data());
    return storage_.data() + (kRoom - at % kRoom);
  }

 private:
  std::vector<std::byte> storage_;
};

class Training {
 public:
  Training(const CompileOptions& o, const TrainRequest& r, Terminal t, Diagnostics& d)
      : options_(o), request_(r), show_(t.err_is_tty && !o.quiet), d_(d) {}

  bool run() { return prepare() && read() && set_up() && train() && write(); }

 private:
  bool prepare() {
    auto model = load_model(options_, d_);
    if (!model) return false;
    step_ = compile(std::move(*model), "cpu", options_, {}, d_);
    if (!step_) return false;
    forward_ = compile_forward(*step_, "cpu", options_, d_);
    if (!forward_) return false;
    step_package_ = cpu_backend().program(step_->lir, d_, step_->lowerings.get());
    forward_package_ = cpu_backend().program(forward_->lir, d_, forward_->lowerings.get());
    return step_package_ && forward_package_;
  }

  const transform::Training& training() const { return *step_->training; }

  bool read() {
    note_stage("samples");
    const Module& m = *step_->lir.module;
    auto samples = read_samples(m, training(), request_.data, request_.labels, d_);
    if (!samples) return false;
    samples_ = std::move(*samples);
    std::vector<int64_t> order = shuffled(samples_.count, request_.seed);
    if (!request_.validation_data.empty()) {
      auto held = read_samples(m, training(), request_.validation_data, request_.validation_labels, d_);
      if (!held) return false;
      held_ = std::move(*held);
      held_order_.resize(static_cast<size_t>(held_.count));
      std::iota(held_order_.begin(), held_order_.end(), 0);
    } else if (request_.validation > 0) {
      const auto keep = static_cast<size_t>(static_cast<double>(order.size()) * (1 - request_.validation));
      held_ = samples_;
      held_order_.assign(order.begin() + static_cast<std::ptrdiff_t>(keep), order.end());
      order.resize(keep);
      std::ranges::sort(order);
      std::ranges::sort(held_order_);
    } else {
      std::ranges::sort(order);
    }
    order_ = std::move(order);
    return set_batch();
  }

  // A model of a fixed batch takes batches of that size only.
  bool set_batch() {
    const Module& m = *step_->lir.module;
    for (size_t i = 0; i < samples_.inputs.size(); ++i) {
      const Type& type = m.main().type(m.main().result(m.main().inputs()[i]));
      const auto fixed = m.dims.constant_value(type.dims[0]);
      is_fixed_ |= fixed.has_value();
      if (!fixed || *fixed == request_.batch) continue;
      d_.error(Code::BadFlag,
               "--batch " + std::to_string(request_.batch) + ": the model is for batches of " + std::to_string(*fixed), {},
               "--batch " + std::to_string(*fixed));
      return false;
    }
    if (order_.empty() || (is_fixed_ && static_cast<int64_t>(order_.size()) < request_.batch)) {
      d_.error(Code::BadFlag, "there are only " + std::to_string(order_.size()) + " samples to train on");
      return false;
    }
    return true;
  }

  bool set_up() {
    note_stage("C compiler");
    const TrainingProgram program = training_program(*step_, forward_package_->name);
    trainer_ = LoadedTrainer::build(*step_package_, *forward_package_, program, d_);
    if (!trainer_ || !trainer_->set_threads(request_.threads, d_)) return false;
    return request_.resume.empty() || trainer_->load(request_.resume, d_);
  }

  // The symbols of a program that a batch of the current size determines.
  DimBindings sizes_bound(const Module& m) const {
    std::vector<KnownSize> known;
    for (size_t i = 0; i < samples_.inputs.size(); ++i) {
      std::vector<int64_t> dims = samples_.inputs[i].dims;
      dims[0] = sized_;
      add_sizes(m.main().type(m.main().result(m.main().inputs()[i])), dims, &known);
    }
    DimBindings bound;
    solve_dims(m.dims, known, &bound);
    return bound;
  }

  // Sizes for a batch of so many samples.
  bool resize(int64_t count) {
    if (count == sized_) return true;
    sized_ = count;
    const auto sizes_of = [&](const codegen::Package& p) {
      const DimBindings bound = sizes_bound(*p.lir->module);
      std::vector<int64_t> sizes;
      for (const ForeignText& s : p.symbols) {
        const auto at = bound.find(s.bytes());
        if (at == bound.end()) d_.error(Code::UnboundDim, "the samples do not determine the size " + s.quoted());
        else sizes.push_back(at->second);
      }
      return sizes;
    };
    const std::vector<int64_t> step = sizes_of(*step_package_), forward = sizes_of(*forward_package_);
    return d_.ok() && trainer_->set_sizes(step, forward, d_);
  }

  std::vector<const void*> batch(const Samples& s, std::span<const int64_t> rows) {
    buffers_.resize(s.inputs.size());
    std::vector<const void*> inputs;
    for (size_t i = 0; i < s.inputs.size(); ++i) {
      std::byte* to = buffers_[i].of(s.row_bytes(i) * rows.size());
      gather(s, i, rows, to);
      inputs.push_back(to);
    }
    return inputs;
  }

  // Calls f with each batch of the rows; of a model of a fixed batch the rest is left out.
  template <class F>
  bool for_batches(std::span<const int64_t> rows, F f) {
    const auto size = static_cast<size_t>(request_.batch);
    for (size_t at = 0; at < rows.size(); at += size) {
      const std::span part = rows.subspan(at, std::min(size, rows.size() - at));
      if (is_fixed_ && part.size() < size) break;
      if (!resize(static_cast<int64_t>(part.size())) || !f(part)) return false;
    }
    return true;
  }

  bool train() {
    note_stage("training");
    const target::WorkFolder folder;
    const std::string best = folder.path() + "/best";
    double least = INFINITY;
    int64_t since = 0;
    for (int64_t e = 0; e < request_.epochs; ++e) {
      auto epoch = one_epoch(e);
      if (!epoch) return false;
      history_.push_back(*epoch);
      say(e);
      if (!request_.checkpoint.empty() && !trainer_->save(request_.checkpoint, d_)) return false;
      if (request_.patience == 0) {
        written_ = e;
        continue;
      }
      const double judged = epoch->validation_loss.value_or(epoch->loss);
      if (judged < least) {
        least = judged;
        since = 0;
        written_ = e;
        if (!trainer_->save(best, d_)) return false;
      } else if (++since >= request_.patience) {
        break;
      }
    }
    return request_.patience == 0 || trainer_->load(best, d_);
  }

  std::optional<Epoch> one_epoch(int64_t e) {
    std::vector<int64_t> rows;
    for (int64_t at : shuffled(static_cast<int64_t>(order_.size()), request_.seed + static_cast<uint64_t>(e) + 1))
      rows.push_back(order_[static_cast<size_t>(at)]);
    double sum = 0;
    int64_t samples = 0;
    const bool ran = for_batches(rows, [&](std::span<const int64_t> part) {
      double loss = 0;
      std::vector<const void*> inputs = batch(samples_, part);
      if (!trainer_->step(inputs, &loss, d_)) return false;
      if (!std::isfinite(loss) && !training().scales) {
        d_.error(Code::NumericHazard, "the loss is " + std::to_string(loss) + " in epoch " + std::to_string(e + 1), {},
                 updated_ ? "a smaller --lr, or --clip-norm"
                          : "no weight was updated yet: samples, labels or weights are too large or not finite");
        return false;
      }
      updated_ = true;
      sum += loss * static_cast<double>(part.size());
      samples += static_cast<int64_t>(part.size());
      progress(e, samples, sum);
      return true;
    });
    if (!ran) return std::nullopt;
    Epoch epoch{sum / static_cast<double>(samples), {}, {}};
    return evaluate(&epoch) ? std::optional(epoch) : std::nullopt;
  }

  bool evaluate(Epoch* epoch) {
    Measured m;
    const bool ran = for_batches(held_order_, [&](std::span<const int64_t> part) { return measure(part, &m); });
    if (!ran || m.samples == 0) return ran;
    epoch->validation_loss = m.loss / static_cast<double>(m.samples);
    if (m.judged > 0) epoch->accuracy = m.right / m.judged;
    return true;
  }

  bool measure(std::span<const int64_t> part, Measured* m) {
    const std::vector<const void*> inputs = batch(held_, part);
    const Graph& g = forward_->lir.module->main();
    std::vector<void*> outputs(g.outputs().size() - 1);
    TensorData scores;
    const auto judged = judged_output();
    if (judged) {
      scores.dtype = g.dtype(g.outputs()[*judged]);
      scores.dims = sizes(g.outputs()[*judged]);
      std::byte* to = scores_.of(scores.size_bytes());
      scores.bytes = {to, scores.size_bytes()};
      outputs[*judged - 1] = to;
    }
    double loss = 0;
    if (!trainer_->loss(inputs, outputs, &loss, d_)) return false;
    m->loss += loss * static_cast<double>(part.size());
    m->samples += static_cast<int64_t>(part.size());
    if (judged) count_right(scores, static_cast<const int64_t*>(inputs[training().model_inputs]), m);
    return true;
  }

  std::vector<int64_t> sizes(ValueId v) const {
    const Module& m = *forward_->lir.module;
    const DimBindings bound = sizes_bound(m);
    std::vector<int64_t> out;
    for (Dim d : m.main().dims(v)) out.push_back(m.dims.evaluate(d, bound).value_or(0));
    return out;
  }

  // The output of the forward program with the scores of classes.
  std::optional<size_t> judged_output() const {
    if (training().loss != "cross-entropy") return std::nullopt;
    const Module& m = *forward_->lir.module;
    for (size_t i = 1; i < m.main().outputs().size(); ++i)
      if (m.text(m.main().output_name(i)) == training().judged) return i;
    return std::nullopt;
  }

  // Samples whose largest score is that of their class.
  void count_right(const TensorData& scores, const int64_t* labels, Measured* m) const {
    const auto axis = static_cast<size_t>(training().axis);
    int64_t outer = 1, inner = 1;
    for (size_t k = 0; k < scores.dims.size(); ++k) (k < axis ? outer : inner) *= k == axis ? 1 : scores.dims[k];
    const int64_t classes = scores.dims[axis];
    for (int64_t i = 0; i < outer; ++i)
      for (int64_t k = 0; k < inner; ++k) {
        const int64_t label = labels[i * inner + k];
        if (label < 0) continue;
        int64_t best = 0;
        double most = -INFINITY;
        for (int64_t c = 0; c < classes; ++c)
          if (const double score = element_as_double(scores, (i * classes + c) * inner + k); score > most) {
            most = score;
            best = c;
          }
        m->right += best == label;
        m->judged += 1;
      }
  }

  std::string line(int64_t e, const Epoch& epoch) const {
    std::ostringstream s;
    s << "epoch " << e + 1 << " of " << request_.epochs << ": loss " << std::setprecision(4) << epoch.loss;
    if (epoch.validation_loss) s << ", validation loss " << *epoch.validation_loss;
    if (epoch.accuracy) s << ", accuracy " << std::fixed << std::setprecision(1) << 100 * *epoch.accuracy << " %";
    return s.str();
  }
  void progress(int64_t e, int64_t samples, double sum) const {
    if (!show_) return;
    std::cerr << "\r\033[Kepoch " << e + 1 << " of " << request_.epochs << ": "
              << 100 * samples / static_cast<int64_t>(order_.size()) << " %, loss " << std::setprecision(4)
              << sum / static_cast<double>(samples) << std::flush;
  }
  void say(int64_t e) const {
    if (show_) std::cerr << "\r\033[K" << line(e, history_.back()) << "\n";
  }

  bool write() {
    CompileOptions plain = options_;
    plain.train = false;
    plain.parameters_only = true;
    plain.transforms.clear();
    plain.embed_weights = true;
    auto model = load_model(plain, d_);
    if (!model) return false;
    set_parameters(*model->module);
    if (!write_module(*model->module, plain, *model, d_)) return false;
    if (!request_.history.empty() && !write_file(request_.history, history_json(), d_)) return false;
    if (!options_.quiet)
      std::cerr << line(written_, history_[static_cast<size_t>(written_)]) << " -> " << options_.output << "\n";
    return true;
  }

  void set_parameters(Module& m) const {
    Graph& g = m.main();
    for (NodeId n : g.nodes()) {
      if (g.op(n) != OpKind::Param) continue;
      const std::string_view name = m.bytes(g.value_name(g.result(n)));
      const auto& states = training().states;
      const auto at = std::ranges::find_if(
          states, [&](const transform::TrainingState& s) { return s.kind == "parameter" && s.name == name; });
      if (at == states.end()) continue;
      TensorData d = make_data(at->initial.dtype, at->initial.dims, trainer_->state(static_cast<size_t>(at - states.begin())));
      g.set_attrs(n, m.attrs.intern(DataAttrs{m.data.add(converted(d, g.dtype(g.result(n))))}));
    }
  }

  std::string history_json() const {
    std::string s;
    JsonWriter w(s);
    w.begin_object().key("format").string("rlxc-history").key("format_version").string("1.0").key("epochs").begin_array();
    for (const Epoch& e : history_) {
      w.begin_object(JsonLayout::Line).key("loss").number(e.loss);
      if (e.validation_loss) w.key("validation_loss").number(*e.validation_loss);
      if (e.accuracy) w.key("accuracy").number(*e.accuracy);
      w.end_object();
    }
    w.end_array().end_object().finish();
    return s;
  }

  const CompileOptions& options_;
  const TrainRequest& request_;
  const bool show_;
  Diagnostics& d_;
  std::optional<Compiled> step_, forward_;
  std::optional<codegen::Package> step_package_, forward_package_;
  std::unique_ptr<LoadedTrainer> trainer_;
  Samples samples_, held_;
  std::vector<int64_t> order_, held_order_;  // samples to train on, and to measure
  bool is_fixed_ = false, updated_ = false;
  int64_t sized_ = -1;
  std::vector<Buffer> buffers_;
  Buffer scores_;
  std::vector<Epoch> history_;
  int64_t written_ = 0;  // the epoch whose weights are written
};

}  // namespace

ExitCode train_command(const CompileOptions& o, const TrainRequest& request, Terminal t) {
  Diagnostics d(o.input);
  CompileOptions training = o;
  training.train = true;
  Training(training, request, t, d).run();
  return print_diagnostics(d, t);
}

}  // namespace rlxc
