// tests/images has files written by Pillow 9.4, and the pixels that Pillow reads from them (*.ppm).
#include "eval/image/image.h"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <random>

#include "support/onnx_model.h"
#include "support/source_dir.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

using Bytes = std::vector<uint8_t>;

Bytes file(const std::string& name) {
  std::ifstream in(test::source_dir() + "/tests/images/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Bytes bytes(std::string_view text) { return {text.begin(), text.end()}; }

Bytes pixels(const Bytes& encoded) {
  std::string message;
  const auto image = eval::decode_image(encoded, 1 << 20, &message);
  REQUIRE_MESSAGE(image, message);
  CHECK(image->rgb.size() == static_cast<size_t>(3 * image->height * image->width));
  return image->rgb;
}

std::string refused(const Bytes& encoded, int64_t max_pixels = 1 << 20) {
  std::string message;
  CHECK_FALSE(eval::decode_image(encoded, max_pixels, &message));
  return message;
}

struct Row {
  const char *encoded, *decoded;
};
constexpr Row kFiles[] = {
    {"rgb.bmp", "rgb.ppm"},       {"bits.bmp", "bits.ppm"},         {"rgb.jpg", "rgb.jpg.ppm"},
    {"grey.jpg", "grey.jpg.ppm"}, {"rgb.png", "rgb.ppm"},           {"progressive.jpg", "progressive.jpg.ppm"},
    {"alpha.png", "rgb.ppm"},     {"bits.png", "bits.ppm"},         {"rgb.jp2", "rgb.ppm"},
    {"rgb.j2k", "rgb.ppm"},       {"lossy.jp2", "lossy.jp2.ppm"},   {"alpha.jp2", "rgb.ppm"},
    {"lzw.tif", "rgb.ppm"},       {"alpha.tif", "rgb.ppm"},         {"jpeg.tif", "jpeg.tif.ppm"},
    {"bits.tif", "bits.ppm"},     {"rgb.webp", "rgb.webp.ppm"},     {"lossless.webp", "rgb.ppm"},
    {"grey.pgm", "grey.ppm"},     {"alpha.webp", "alpha.webp.ppm"}, {"bits.pbm", "bits.ppm"},
};

// ImageDecoder of the file, as a constant or as an input.
OnnxModel decoder(const Bytes& encoded, const char* format) {
  OnnxModel m(20);
  m.input("file", DType::U8, {static_cast<int64_t>(encoded.size())}, {encoded.begin(), encoded.end()});
  m.add(node("ImageDecoder", {"file"}, {"y"}, {attribute("pixel_format", format)}));
  m.output("y");
  return m;
}

}  // namespace

TEST_CASE("image files: each format and kind gives the pixels that Pillow gives") {
  for (const Row& row : kFiles) {
    INFO(std::string(row.encoded));
    CHECK(pixels(file(row.encoded)) == pixels(file(row.decoded)));
  }
}

TEST_CASE("image files: Netpbm's formats are read as they are defined") {
  CHECK(pixels(bytes("P3 2 1 255\n1 2 3 4 5 6")) == Bytes{1, 2, 3, 4, 5, 6});
  CHECK(pixels(bytes("P6\n# a comment\n1 2\n255\nabcdef")) == Bytes{'a', 'b', 'c', 'd', 'e', 'f'});
  CHECK(pixels(bytes("P2 2 1 15 0 15")) == Bytes{0, 0, 0, 255, 255, 255});
  CHECK(pixels(bytes(std::string_view("P5 1 1 65535 \x80\x00", 15))) == Bytes{128, 128, 128});
  CHECK(pixels(bytes("P1 3 1 01\n1")) == Bytes{255, 255, 255, 0, 0, 0, 0, 0, 0});
  CHECK(pixels(bytes("P4 2 2 \x40\x80")) == Bytes{255, 255, 255, 0, 0, 0, 0, 0, 0, 255, 255, 255});
  CHECK(refused(bytes("P2 2 1 15 0 16")) == "PNM file: a sample is missing or too large");
  CHECK(refused(bytes("P2 2 1 15 x y")) == "PNM file: a sample is missing or too large");
  CHECK(refused(bytes("P5 2 2 0 abcd")) == "PNM file: its header is damaged");
}

TEST_CASE("image files: what is cut off is refused, and no damage ends the program") {
  CHECK(refused({}).starts_with("no image file that is known"));
  CHECK(refused(bytes("GIF89a, and more")).starts_with("no image file that is known"));
  std::mt19937 random(1);
  for (const Row& row : kFiles) {
    const Bytes whole = file(row.encoded);
    INFO(std::string(row.encoded));
    REQUIRE(whole.size() > 20);
    for (const size_t n : {whole.size() / 4, whole.size() / 2, whole.size() - 8})
      CHECK_FALSE(refused({whole.begin(), whole.begin() + static_cast<int64_t>(n)}).empty());
    for (int i = 0; i < 200; ++i) {
      Bytes damaged = whole;
      for (int k = 0; k < 3; ++k)
        damaged[random() % (i % 2 ? damaged.size() : std::min<size_t>(damaged.size(), 64))] = static_cast<uint8_t>(random());
      std::string message;
      const auto image = eval::decode_image(damaged, 1 << 16, &message);
      CHECK((image ? image->height * image->width <= 1 << 16 : !message.empty()));
    }
  }
}

TEST_CASE("image files: sizes are refused before there is memory for them") {
  for (const Row& row : kFiles) {
    INFO(std::string(row.encoded));
    CHECK(refused(file(row.encoded), 100).find("its 13 x 11 pixels are more than the 100 allowed") != std::string::npos);
  }
  CHECK(refused(bytes("P6 999999999 999999999 255 "), eval::kMaxImagePixels).find("are more than") != std::string::npos);
  const auto with = [](const char* name, size_t at, std::string_view b) {
    Bytes f = file(name);
    std::copy(b.begin(), b.end(), f.begin() + static_cast<int64_t>(at));
    return refused(f, eval::kMaxImagePixels);
  };
  using namespace std::string_view_literals;
  CHECK(with("rgb.bmp", 18, "\xff\xff\xff\0\xff\xff\xff\0"sv).find("are more than") != std::string::npos);
  CHECK(with("rgb.j2k", 8, "\0\1\0\0\0\1\0\0"sv).find("are more than") != std::string::npos);
  CHECK(with("rgb.j2k", 24, "\0\0\0\0\0\0\0\1"sv).find("its tiles have no size") != std::string::npos);
  CHECK(with("rgb.j2k", 40, "\x40\0"sv).find("channels") != std::string::npos);
}

TEST_CASE("ImageDecoder orders colours as it is told, and weighs them for grey") {
  const Bytes encoded = file("rgb.png"), rgb = pixels(encoded);
  const auto want = [&](auto f) {
    std::vector<double> out;
    for (size_t i = 0; i < rgb.size(); i += 3) f(&rgb[i], out);
    return out;
  };
  CHECK(decoder(encoded, "RGB").run()[0] == std::vector<double>(rgb.begin(), rgb.end()));
  CHECK(decoder(encoded, "BGR").run()[0] == want([](const uint8_t* p, auto& out) {
          out.insert(out.end(), {p[2] * 1.0, p[1] * 1.0, p[0] * 1.0});
        }));
  CHECK(decoder(encoded, "Grayscale").run()[0] ==
        want([](const uint8_t* p, auto& out) { out.push_back((p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16); }));
}

TEST_CASE("ImageDecoder: the type has open sizes, and what cannot be is said") {
  Diagnostics d;
  const auto m = decoder(file("rgb.png"), "Grayscale").load(d);
  REQUIRE_MESSAGE(m, d.text());
  const Graph& g = m->main();
  CHECK(text(g.type(g.outputs()[0]), m->dims) == "u8[height0,width1,1]");
  CHECK_FALSE(decoder(file("rgb.png"), "CMYK").load(d));
  CHECK(d.text().find("pixel_format") != std::string::npos);
  OnnxModel floats(20);
  floats.input("file", DType::F32, {4}, {1, 2, 3, 4});
  floats.add(node("ImageDecoder", {"file"}, {"y"}));
  floats.output("y");
  CHECK_FALSE(floats.load(d));
  CHECK(d.text().find("needs the bytes of a file, u8[n]") != std::string::npos);
}
