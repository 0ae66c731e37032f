#include "ir/layout.h"

#include <doctest/doctest.h>

#include "ir/builder.h"

using namespace rlxc;

namespace {

// A value x of sizes [2, 32, 3, 5] and a view y of its first 3 planes.
struct Views {
  Module m;
  Builder b{m.main()};
  ValueId x = b.input("x", tensor_type(DType::F32, {2, 32, 3, 5})), y = b.narrow(x, 1, Dim(0), Dim(3));
  GraphLayouts layouts{m.main()};

  Views() {
    layouts.root[x.raw] = layouts.root[y.raw] = x;
    Layout l = row_major(m.dims, m.main().dims(x));
    l.axes[1][0].size = Dim(3);
    layouts.set(y, l);
  }
  std::string findings() {
    Diagnostics d;
    verify_layouts(m.main(), layouts, d);
    return d.text();
  }
};

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("the channels of a blocked image are two factors, and the layout is one that the verifier accepts") {
  Views v;
  const Layout l = channel_blocks(v.m.dims, v.m.main().dims(v.x), 16);
  CHECK(text(l, v.m.dims) == "[2@480][2@240, 16@1][3@80][5@16]");
  v.layouts.set(v.x, l);
  CHECK(v.findings().empty());
  CHECK(l.split());
  CHECK_FALSE(l.rows());
}

TEST_CASE("layouts of views are within the bytes of their roots") {
  Views v;
  CHECK(v.findings().empty());
  v.layouts.offset[v.y.raw] = Dim(4 * 15 * 29);
  CHECK(v.findings().empty());
  v.layouts.offset[v.y.raw] = Dim(4 * 15 * 29 + 4);
  CHECK(has(v.findings(), "not within the bytes"));
}

TEST_CASE("layouts that are not those of their values are found") {
  const auto with = [](const std::function<void(Views&, Layout&)>& change) {
    Views v;
    Layout l = *v.layouts.of(v.y);
    change(v, l);
    v.layouts.set(v.y, std::move(l));
    return v.findings();
  };
  CHECK(has(with([](Views&, Layout& l) { l.axes[1][0].size = Dim(4); }), "does not have its sizes"));
  CHECK(has(with([](Views&, Layout& l) { l.axes.pop_back(); }), "does not have its sizes"));
  CHECK(has(with([](Views& v, Layout&) { v.layouts.root[v.y.raw] = ValueId(); }), "no root"));
  CHECK(has(with([](Views& v, Layout&) { v.layouts.root[v.x.raw] = v.y; }), "no root"));
  CHECK(has(with([](Views& v, Layout& l) {
              v.layouts.root[v.y.raw] = v.y;
              l.axes[3][0].stride = Dim(0);
            }),
            "two elements in one place"));
}

TEST_CASE("a start shifts the positions of an axis in blocks") {
  Views v;
  Layout l = *v.layouts.of(v.y);
  l.axes[1] = {{Dim(2), Dim(240)}, {Dim(4), Dim(15)}};
  l.starts = {Dim(0), Dim(4), Dim(0), Dim(0)};
  CHECK(text(l, v.m.dims) == "[2@480][2@240, 4@15]+4[3@5][5@1]");
  v.layouts.set(v.y, l);
  CHECK(v.findings().empty());
  l.starts[1] = Dim(6);
  v.layouts.set(v.y, l);
  CHECK(has(v.findings(), "does not have its sizes"));
}
