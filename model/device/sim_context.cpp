#include "model/device/sim_context.hpp"

#include <string>
#include <string_view>
#include <systemc>

#include "base/diagnostics.hpp"

// The kernel is entered by sc_start alone; the library asks for this symbol all the same.
int sc_main(int, char*[]) { return 0; }

namespace kpu::model {

namespace {

std::recursive_mutex& kernel_mutex() {
    static std::recursive_mutex mutex;
    return mutex;
}

/// Warnings of the kernel mean that the model is wrong.
void report_to_exception(const sc_core::sc_report& report, const sc_core::sc_actions&) {
    if (report.get_severity() == sc_core::SC_INFO) return;
    // a step that ends before the next event
    if (std::string_view(report.get_msg_type()) == sc_core::SC_ID_NO_SC_START_ACTIVITY_) return;
    throw InternalError(std::string("SystemC: ") + report.get_msg_type() + ": " + report.get_msg());
}

}  // namespace

SimContext::SimContext() {
    const std::lock_guard<std::recursive_mutex> lock(kernel_mutex());
    sc_core::sc_report_handler::set_handler(report_to_exception);
    sc_core::sc_simcontext* const previous = sc_core::sc_curr_simcontext;
    context_ = std::make_unique<sc_core::sc_simcontext>();
    sc_core::sc_curr_simcontext = previous;
}

SimContext::~SimContext() {
    const Entry entry(*this);
    context_.reset();
}

SimContext::Entry::Entry(SimContext& context)
    : lock_(kernel_mutex()), previous_(sc_core::sc_curr_simcontext) {
    sc_core::sc_curr_simcontext = context.context_.get();
}

SimContext::Entry::~Entry() { sc_core::sc_curr_simcontext = previous_; }

}  // namespace kpu::model
