#include "analysis/cost.h"

#include <doctest/doctest.h>

#include "ir/builder.h"

using namespace rlxc;

TEST_CASE("the time of a launch is that of its arithmetic or that of its traffic, whichever is longer") {
  const Machine m{100, 10, 50, 8};  // 10 bytes and 50 flops per nanosecond
  CHECK(launch_time_ns({0, 0, 0}, m) == 100);
  CHECK(launch_time_ns({5000, 100, 100}, m) == 200);
  CHECK(launch_time_ns({5000, 1500, 500}, m) == 300);
  CHECK(work_time_ns({5000, 1500, 500}, m) == 200);
}

TEST_CASE("rows that are fewer than the units leave the rest idle") {
  const Machine m{100, 10, 50, 8};
  const Cost c{0, 1000, 0};
  CHECK(work_time_ns(c, m, 8) == 100);
  CHECK(work_time_ns(c, m, 1000) == 100);
  CHECK(work_time_ns(c, m, 4) == 200);
  CHECK(work_time_ns(c, m, 0) == 800);
}

TEST_CASE("units take part as far as the traffic of each pays for its start") {
  Machine m{100, 10, 50, 8};
  m.unit_bytes = 500;
  CHECK(work_time_ns({5000, 500, 500}, m) == 400);  // on two of eight
  CHECK(work_time_ns({5000, 500, 500}, m, 1) == 800);
  CHECK(work_time_ns({5000, 100, 100}, m) == 800);
  CHECK(work_time_ns({50000, 5000, 5000}, m) == 1000);
}

TEST_CASE("an element costs more the more there is to compute, and a symbolic size counts 0") {
  CHECK(element_flops(OpKind::Add) < element_flops(OpKind::Div));
  CHECK(element_flops(OpKind::Div) < element_flops(OpKind::Exp));
  Module m;
  Builder b(m.main());
  const ValueId x = b.input("x", tensor_type(DType::F32, {4, 6})),
                s = b.input("s", tensor_type(DType::F32, {m.dims.symbol("n")}));
  const Cost known = node_cost(m.main(), m.main().def(b.add(x, x))), unknown = node_cost(m.main(), m.main().def(b.add(s, s)));
  CHECK(known.flops == 24);
  CHECK(known.bytes_read == 192);
  CHECK(known.bytes_written == 96);
  CHECK(unknown.flops == 0);
  CHECK(unknown.bytes_read + unknown.bytes_written == 0);
}
