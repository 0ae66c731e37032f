// Types of values: tensor (element type and dims), map from keys to numbers or strings, sequence or optional of these. Interned:
// equal types have equal ids.
#pragma once
#include <deque>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/dim.h"
#include "support/dtype.h"
#include "support/ids.h"

namespace rlxc {

using TypeId = Id<struct TypeTag>;

enum class TypeKind : uint8_t { Tensor, Sequence, Optional, Map };
enum class MapKey : uint8_t { None, I64, String };

struct Type {
  TypeKind kind = TypeKind::Tensor;
  DType dtype = DType::F32;
  // False if the elements of a sequence differ in rank or are unknown; dims is empty then. Elements read from a sequence are
  // checked against the declared type at run time.
  bool ranked = true;
  std::vector<Dim> dims;     // of the tensor, or of the elements
  bool of_sequence = false;  // an optional of a sequence
  // Key type of a map, or of the maps in a sequence or optional. `dtype` is the type of the map's values, which are scalars.
  MapKey key = MapKey::None;

  int rank() const { return static_cast<int>(dims.size()); }
  bool is_static() const {
    for (Dim d : dims)
      if (!d.is_static()) return false;
    return ranked;
  }
  bool operator==(const Type&) const = default;
};

inline Type tensor_type(DType t, std::vector<Dim> dims) { return {TypeKind::Tensor, t, true, std::move(dims)}; }
inline Type map_type(MapKey key, DType values) { return {TypeKind::Map, values, true, {}, false, key}; }
Type element_type(Type);                   // element of a sequence or an optional
Type holder_type(TypeKind, Type element);  // sequence or optional of `element`; no nested optionals, no nested sequences
inline DType key_dtype(MapKey k) { return k == MapKey::String ? DType::String : DType::I64; }

class TypeTable {
 public:
  TypeId intern(const Type&);
  TypeId tensor(DType t, std::vector<Dim> dims) { return intern(tensor_type(t, std::move(dims))); }
  const Type& operator[](TypeId id) const { return types_[id.raw]; }
  size_t size() const { return types_.size(); }

 private:
  std::deque<Type> types_;
  std::unordered_map<std::string, uint32_t> index_;
};

// Elements of a static tensor; nullopt if a dim is symbolic or the product exceeds 2^56.
std::optional<int64_t> num_elements(const Type&);
// Bytes of a static tensor with a fixed-size element type.
std::optional<uint64_t> byte_size(const Type&);

std::string text(const Type&,
                 const DimTable&);  // "f32[batch,12,64]", "map<i64,f32>", "seq<f32[2]>", "seq<f32[*]>", "optional<seq<...>>"
std::optional<Type> parse_type(std::string_view, DimTable&);

}  // namespace rlxc
