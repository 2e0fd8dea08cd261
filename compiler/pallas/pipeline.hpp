#pragma once
// A call as one kernel: its grid as a loop, its blocks as copies between DDR and slots of L1.
#include "compiler/pallas/export.hpp"

namespace kpu::compiler::pallas {

struct KernelOperand {
    size_t array = 0;
    bool reads = false, writes = false;
};
struct LoweredCall {
    std::string text;                     ///< text of the kernel
    std::vector<KernelOperand> operands;  ///< its buffers that are not workgroup memory, in order
};

/// Throws UserError with the line of what cannot be lowered.
LoweredCall lower_call(const Export& program, const Call& call, const std::string& kernel_name);

/// Returns a move that no transfer can make: against the order of the elements, or of one to many.
LoweredCall move_kernel(const Export& program, const Move& move, const std::string& kernel_name);

}  // namespace kpu::compiler::pallas
