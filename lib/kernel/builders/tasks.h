// A kernel for CPU threads in two forms, one of which each run selects: the body of a kernel is one parallel loop.
#pragma once
#include <algorithm>
#include <functional>
#include <memory>

#include "kernel/builders/common.h"

namespace rlxc::kernel {

// The arguments of for_each().
struct Tasks {
  Expr count;
  int64_t bytes;
  std::function<void(Expr work)> body;
};

// A builder of tasks that lives as long as they do.
template <class T>
Tasks tasks_of(std::shared_ptr<T> builder) {
  Tasks tasks = builder->tasks();
  tasks.body = [builder, body = std::move(tasks.body)](Expr work) { body(work); };
  return tasks;
}

inline void run_tasks(Builder& b, const Mapping& m, const Tasks& t) { for_each(b, m, "work", t.count, t.bytes, t.body); }

// Runs all tasks of `a` where the condition is true, else those of `b`.
inline void run_tasks(Builder& builder, const Mapping& m, Expr condition, const Tasks& a, const Tasks& b) {
  const auto body = [&](Expr work) {
    builder.when(
        condition, [&] { a.body(work); }, [&] { b.body(work); });
  };
  run_tasks(builder, m, {select(condition, a.count, b.count), std::max(a.bytes, b.bytes), body});
}

}  // namespace rlxc::kernel
