#pragma once

#include <exception>
#include <systemc>

namespace kpu::model {

/// Carries an exception out of a process: the kernel would turn it into a report and lose its type.
struct ErrorSlot {
    std::exception_ptr error;

    template <class Function>
    void guard(Function function) {
        if (error) return;
        try {
            function();
        } catch (...) {
            error = std::current_exception();
            sc_core::sc_pause();
        }
    }
};

}  // namespace kpu::model
