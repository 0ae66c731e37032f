// Types of values: a tensor (element type + sizes), a map from keys to numbers or strings, a sequence or an optional of those.
// Interned: equal types have equal ids.
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
  // A sequence's elements may differ in shape, or none may be known (yet): then dims is empty and ranked is false. What is read
  // from a sequence is checked against the declared type at run time.
  bool ranked = true;
  std::vector<Dim> dims;     // of the tensor, or of the elements
  bool of_sequence = false;  // an optional that holds a sequence
  // Of a map, or of the maps in a sequence or optional. `dtype` is that of the map's values, which are single elements: no dims.
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
Type element_type(Type);                   // what a sequence or an optional holds
Type holder_type(TypeKind, Type element);  // a sequence or an optional of it; requires no optional, no sequence in a sequence
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

// Elements of a static tensor; nullopt when a size is symbolic or the product overflows 2^56.
std::optional<int64_t> num_elements(const Type&);
// Bytes of a static tensor of a fixed-size element type.
std::optional<uint64_t> byte_size(const Type&);

std::string text(const Type&,
                 const DimTable&);  // "f32[batch,12,64]", "map<i64,f32>", "seq<f32[2]>", "seq<f32[*]>", "optional<seq<...>>"
std::optional<Type> parse_type(std::string_view, DimTable&);

}  // namespace rlxc
