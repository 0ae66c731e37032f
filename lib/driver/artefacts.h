// Writes the artefacts of a compile. The output folder is replaced atomically (support/output_folder.h); manifest.json lists its
// files with their sha256.
#pragma once
#include <string>

#include "driver/compile.h"
#include "import/gguf/file.h"
#include "report/html_report.h"

namespace rlxc {

struct InputIdentity {
  std::string name;  // base name of the input file
  std::string sha256;
  bool sampled = false;                                // hash of the size and both ends of the file
  std::shared_ptr<const gguf_import::File> gguf = {};  // whose metadata go with the package; null: none
};

// Where artefacts go.
struct Destination {
  std::string folder;   // "-": standard output, which requires exactly one artefact
  std::string staging;  // a folder that the caller moves to `folder`; empty: `folder` is replaced as a unit
};

// `forward`: the program that evaluates the model that the compiled one trains (compile_forward); else null. Returns whether the
// artefacts are written. Kernels that are due and cannot be written are errors, also where the other artefacts are written.
bool write_artefacts(const Compiled&, const Compiled* forward, const InputIdentity&, const CompileOptions&, const Destination&,
                     Diagnostics&);

// plan.txt, fusion.txt, ...: reports that are written as text, too.
bool has_text_form(Emit);

// The JSON reports by name, whether they are written or not.
std::vector<std::pair<std::string, std::string>> json_artefacts(const Compiled&, const InputIdentity&, const CompileOptions&);

// The fusion report beside a lir.json that is planned again; nullopt if there is none, or it is about another compile.
struct FusionFiles {
  std::string json, text;
};
std::optional<FusionFiles> kept_fusion(const CompileOptions&);

// The targets as report.html compares them.
report::PageMachines page_machines();
// report.html.
std::string report_page(const Compiled&, const InputIdentity&, const CompileOptions&);

// The text reports.
std::string fusion_text(const Compiled&, const InputIdentity&);
std::string dispatch_text(const Compiled&, const InputIdentity&);

}  // namespace rlxc
