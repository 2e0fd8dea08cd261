#pragma once

#include <any>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.hpp"
#include "base/option.hpp"
#include "compiler/source.hpp"
#include "isa/module.hpp"
#include "platforms/platform.hpp"

namespace kpu::compiler {

/// A parameter of the platform that a program needs changed. What the user has set himself stays.
struct PlatformChange {
    std::string path, value;
    std::string why;  ///< a sentence for the user
};

/// Result of loading a file by a front end.
struct Loaded {
    /// The program; null for a file that declares devices, which is no program (and was checked).
    std::shared_ptr<const Module> module;
    std::vector<PlatformChange> changes;
    /// Says why it has no data to compute with, though files of its form have; empty: it has.
    std::string no_values = {};
};

/// A node of a network, for a look at it before it is compiled.
struct NodeSupport {
    std::string name;    ///< unique; where the file gives none, its type and number
    std::string type;    ///< "Conv"
    std::string reason;  ///< why it cannot be imported; empty: it can
};

/// Result of simulating a program.
struct Simulated {
    double cycles = 0;
    std::vector<double> charged;  ///< charged cycles of each operation of the program, as in ops.csv
};
/// Runs a program without values. The compiler knows no model: who has one gives this.
using Simulate = std::function<Simulated(const std::shared_ptr<const Module>& program,
                                         const platforms::Platform& platform)>;

/// Input of a front end beside the file.
struct LoadRequest {
    OptionValues options;                           ///< options of its rows
    std::vector<std::string> search_paths;          ///< folders for files that it includes
    const platforms::Platform* platform = nullptr;  ///< null: a program for any device
    /// Receives where every node of a network is told, also if it cannot be loaded; null: nobody asks.
    std::vector<NodeSupport>* nodes = nullptr;
    Simulate simulate;  ///< null: nothing can be simulated
    /// False: the program is asked for its time only and kept nowhere, so the bytes of its data need not be there.
    bool values = true;
    /// Store in which a front end leaves what the same file with the same options need not be read for again,
    /// for another device; null: nowhere. One thread at a time.
    std::any* kept = nullptr;
};

/// A front end: a form of program files, and how to make a program of it.
///
/// A new one is a folder here with a CMakeLists.txt that declares the library kpu::<folder>, a source that
/// defines `const FrontEnd <folder>_front_end`, and one line in front_ends.txt. The command makes its options
/// out of the rows, Python its keyword arguments, and both list it; docs/adding_a_front_end.md shows one.
struct FrontEnd {
    std::string_view name;         ///< as in "this is not a tile schedule"
    std::string_view description;  ///< one line
    std::vector<OptionRow> options;
    /// True if its programs depend on the device: `load` gets the platform, which is this one if nobody chose
    /// any.
    bool for_device = false;
    std::string_view default_platform;
    bool has_values = true;  ///< false: there is time, but no data to compute with
    /// Whether a file is for this front end, by its content: `head` is the first 64 KiB. The name may decide
    /// only what the content leaves open.
    bool (*recognise)(std::string_view head, std::string_view file_name);
    /// Loads a file. What is no error goes to `notes`. Throws UserError.
    Loaded (*load)(const Source& source, const LoadRequest& request, Diagnostics& notes);
};

}  // namespace kpu::compiler
