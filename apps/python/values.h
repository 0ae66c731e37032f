// Values of Python as values of the runtime, and back. An array whose type and layout fit is not copied: inputs refer to its
// memory, and arrays of outputs own what kernels wrote. Call with the interpreter's lock.
#pragma once
#include <pybind11/pybind11.h>

#include <vector>

#include "eval/eval.h"
#include "ir/type.h"

namespace rlxc::python {

// Text that may be no UTF-8: such bytes become lone surrogates, and these such bytes.
pybind11::str text_of(std::string_view);
std::string bytes_of(pybind11::handle text);

// Inputs, and what keeps their memory.
struct Arguments {
  std::vector<eval::HostValue> values;
  std::vector<pybind11::object> owners;

  // Takes NumPy arrays, whatever has __dlpack__ or a buffer, scalars and nested lists; lists for sequences, None or a value for
  // optionals, dicts for maps. Throws Failure (BadType) that names the input if the element type is not that of `want`.
  void add(pybind11::handle, const Type& want, const std::string& name);

 private:
  eval::HostValue value(pybind11::handle, const Type& want, const std::string& name);
  eval::HostValue tensor(pybind11::handle, const Type& want, const std::string& name);
  eval::HostValue from_numpy(pybind11::object array, const Type& want, const std::string& name);
  eval::HostValue from_dlpack(pybind11::handle, const Type& want, const std::string& name);
};

// The class of Python that holds memory of outputs.
void define_values(pybind11::module_&);

// `is_own`: the memory is of this value alone, and becomes the array's. Else it is copied. Types that NumPy lacks are those of
// ml_dtypes if it is installed, and wider ones otherwise.
pybind11::object to_python(eval::HostValue, bool is_own);

}  // namespace rlxc::python
