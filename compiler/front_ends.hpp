#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/front_end.hpp"

namespace kpu::compiler {

/// Returns the lines of front_ends.txt, in the order in which they are asked.
const std::vector<const FrontEnd*>& front_ends();
/// Returns the options of all of them; each name stands once.
std::vector<OptionRow> front_end_options();

/// Returns the front end of a file. Throws UserError that says what the file was compared with.
const FrontEnd& recognise(const Source& source);

/// Returns a file's program. `request`: all but its options, which are made of the given ones. Throws
/// UserError, also for a given option that the front end does not have.
Loaded load(const FrontEnd& front_end, const Source& source, const GivenOptions& options, LoadRequest request,
            Diagnostics& notes);

/// Choice of a user for the device of a program.
struct DeviceChoice {
    std::string platform;  ///< name or file; empty: what the program asks for, if anything
    platforms::Overrides overrides;
    std::vector<std::string> search_paths;
    Simulate simulate = nullptr;  ///< as LoadRequest::simulate
    bool values = true;           ///< as LoadRequest::values
};

/// A program, from whatever front end its file belongs to, and the platform that it meets.
struct Input {
    const FrontEnd* front_end = nullptr;
    std::shared_ptr<const Module> module;  ///< as Loaded::module
    std::optional<platforms::Platform> platform;
    std::string no_values;  ///< as Loaded::no_values
    bool has_values() const { return front_end->has_values && no_values.empty(); }
};
/// `nodes`: as LoadRequest::nodes. Throws UserError.
Input load_for_device(const Source& source, const GivenOptions& options, const DeviceChoice& device,
                      Diagnostics& notes, std::vector<NodeSupport>* nodes = nullptr);

/// Returns the program alone. Throws UserError, also for a file of devices or kernels.
std::shared_ptr<const Module> load_program(const Source& source, const GivenOptions& options,
                                           const std::vector<std::string>& search_paths, Diagnostics& notes);
std::shared_ptr<const Module> load_program(const std::string& path,
                                           const std::vector<std::string>& search_paths, Diagnostics& notes);
/// Throws the UserError for a file of devices or kernels where a program is needed.
[[noreturn]] void refuse_no_program(const Source& source);

/// Notes which of the changes that a program needs are made, those that `overrides` does not have already,
/// and gives all overrides.
platforms::Overrides with_changes(platforms::Overrides overrides, const std::vector<PlatformChange>& changes,
                                  const std::string& origin, Diagnostics& notes);

}  // namespace kpu::compiler
