// The metadata of a GGUF file as JSON, for the program that uses a package: the tokenizer, the chat template, the name.
#pragma once
#include "import/gguf/file.h"
#include "support/json_writer.h"

namespace rlxc::gguf_import {

// Writes an object with a member per key, in the order of the keys. Lists are on one line.
void write_metadata(const File&, JsonWriter&);

}  // namespace rlxc::gguf_import
