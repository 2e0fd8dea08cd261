#pragma once

#include <memory>
#include <string>
#include <vector>

#include "isa/bound_program.hpp"
#include "platforms/platform.hpp"

namespace kpu::what_if {

/// A run that can be simulated again.
struct Case {
    std::shared_ptr<const Module> module;
    platforms::Platform platform;
    ParamBindings params;
};

enum class ChangeKind : uint8_t { resource, window, slots, parameter };
std::string_view name_of(ChangeKind kind);

/// A property of a run that could be otherwise.
struct Change {
    ChangeKind kind;
    std::string words;  ///< "DRAM 2 times faster", "`ahead` 5 instead of 4"
    Case changed;
};

/// Lists the changes: every part of the platform 2 and 64 times faster; each loop's window, and the slots of
/// its buffers with it, one more and one less; each constant that is a window or a number of slots; each
/// parameter at its half and its double. Whether a change makes sense (the program still fits, no race, the
/// same work) is for the simulation to say.
std::vector<Change> changes_of(const Case& base);

}  // namespace kpu::what_if
