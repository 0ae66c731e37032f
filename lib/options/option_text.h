// Values of options as text and JSON: one parser for flags, environment variables and configuration files, one writer for the
// manifest, saved configurations and documentation.
#pragma once
#include <string>
#include <vector>

#include "options/option_table.h"
#include "support/json_reader.h"
#include "support/json_writer.h"

namespace rlxc {

const Option* find_option(std::string_view key);  // null: no option has this key

// "--bind" for "--bind", "--no-reorder" for "!--no-reorder", "--target" for "--target,-t"; the key if there is no flag.
std::string_view long_name(const Option&);
// Name of the value in help: "BYTES", a few choices in braces, or "N" or "TEXT" by type; empty for flags.
std::string value_name(const Option&);
std::string help_text(const Option&);                       // lists the choices unless value_name does
bool is_flag(const Option&);                                // a boolean without a value
bool is_list(const Option&);                                // accepts several words
std::vector<std::string_view> choice_names(const Option&);  // without alternative spellings

// Sets the option from one word ("true" and "false" for flags), or appends the items of the word to a list. Returns an error
// ("takes ..., got ...") and changes nothing, or an empty string.
std::string set_option(CommandLine&, const Option&, std::string_view word);
// Clears a list before words of a new source. Maps and sets of names stay, and new entries are added.
void begin_words(CommandLine&, const Option&);
// Sets the option from a JSON value in the form of `write_value`; null changes nothing. Errors as in set_option.
std::string read_value(CommandLine&, const Option&, JsonReader&);

std::string value_text(const CommandLine&, const Option&);  // as one command-line word; empty if unset
// Writes booleans, numbers, strings, arrays of strings; objects for sizes ({"batch": 1}), ranges ({"seq": [1, 2048]}) and states;
// null if unset. `manifest`: paths are reduced to their last component.
void write_value(JsonWriter&, const CommandLine&, const Option&, bool manifest);
bool is_default(const CommandLine&, const Option&);

// The JSON Schema of a value as written by write_value, without description.
void write_value_schema(JsonWriter&, const Option&);

}  // namespace rlxc
