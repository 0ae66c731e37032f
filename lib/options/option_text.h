// The values of options as text and as JSON, for whatever reads or writes them: one parser for flags, environment variables and
// configuration files, one writer for the manifest, saved configurations and documentation.
#pragma once
#include <string>
#include <vector>

#include "options/options.h"
#include "support/json_reader.h"
#include "support/json_writer.h"

namespace rlxc {

const Option* find_option(std::string_view key);  // null: no option has this configuration key

// "--bind" of "--bind", "--no-reorder" of "!--no-reorder", "--target" of "--target,-t"; the key where there is no flag.
std::string_view long_name(const Option&);
// What help calls the value: "BYTES", a few choices in braces, or by the type "N" or "TEXT"; empty for flags.
std::string value_name(const Option&);
std::string help_text(const Option&);                       // with the choices, where value_name does not have them
bool is_flag(const Option&);                                // a boolean: it takes no value
bool is_list(const Option&);                                // it takes any number of words
std::vector<std::string_view> choice_names(const Option&);  // without other spellings

// Sets the option from one word ("true" and "false" for flags), or adds the items of the word to a list. Answers what is wrong
// with the word ("takes ..., got ..."), or an empty string. Nothing changes then.
std::string set_option(CommandLine&, const Option&, std::string_view word);
// Empties a list that words of a new source replace. Maps and sets of names are kept: new entries are added to them.
void begin_words(CommandLine&, const Option&);
// Sets the option from a JSON value of the form that `write_value` writes; null leaves it as it is. As set_option.
std::string read_value(CommandLine&, const Option&, JsonReader&);

std::string value_text(const CommandLine&, const Option&);  // as one word of the command line; empty if there is no value
// Booleans, numbers, strings, arrays of strings; objects of sizes ({"batch": 1}), ranges ({"seq": [1, 2048]}) and states; null
// where there is no value. `manifest`: of paths only the last component.
void write_value(JsonWriter&, const CommandLine&, const Option&, bool manifest);
bool is_default(const CommandLine&, const Option&);

// The JSON Schema of a value that write_value writes, without description.
void write_value_schema(JsonWriter&, const Option&);

}  // namespace rlxc
