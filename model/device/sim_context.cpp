#include "model/device/sim_context.hpp"

#include <pthread.h>

#include <cstdio>
#include <new>
#include <string>
#include <string_view>
#include <systemc>
#include <utility>

#include "base/diagnostics.hpp"

// SystemC's library asks for this symbol, which a program that has a main of its own lacks. Weak: a program's own
// sc_main is taken instead.
extern "C" __attribute__((weak)) int sc_main(int, char*[]) {
    std::fputs(
        "error: SystemC's main ran without an sc_main of the program. Fix: link the object that defines it "
        "into the program itself.\n",
        stderr);
    return 1;
}

namespace kpu::model {

namespace {

SimContext* entered = nullptr;  ///< context of whoever has the mutex
/// Handler that the program had when the first context was entered.
sc_core::sc_report_handler_proc handler_before = nullptr;

std::recursive_mutex& kernel_mutex();

/// Makes a child process usable: the thread that simulated is not there, so nobody else unlocks, and what it
/// was building or running stands still for good.
void after_fork() {
    new (&kernel_mutex()) std::recursive_mutex;
    if (entered != nullptr) {
        entered->abandon();
        sc_core::sc_report_handler::set_handler(handler_before);
    }
    entered = nullptr;
    sc_core::sc_curr_simcontext = nullptr;
}

std::recursive_mutex& kernel_mutex() {
    static std::recursive_mutex mutex;
    [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, after_fork);
    return mutex;
}

/// Warnings of the kernel mean that the model is wrong. Reports are for it only while a context of ours is entered.
void report_to_exception(const sc_core::sc_report& report, const sc_core::sc_actions&) {
    if (report.get_severity() == sc_core::SC_INFO) return;
    // a step that ends before the next event
    if (std::string_view(report.get_msg_type()) == sc_core::SC_ID_NO_SC_START_ACTIVITY_) return;
    throw InternalError(std::string("SystemC: ") + report.get_msg_type() + ": " + report.get_msg());
}

}  // namespace

SimContext::SimContext() {
    const std::lock_guard<std::recursive_mutex> lock(kernel_mutex());
    sc_core::sc_simcontext* const previous = sc_core::sc_curr_simcontext;
    context_ = std::make_unique<sc_core::sc_simcontext>();
    sc_core::sc_curr_simcontext = previous;
}

SimContext::~SimContext() {
    const Entry entry(*this);
    if (abandoned_) (void)context_.release();  // in the middle of a step: it cannot be taken down
    context_.reset();
}

SimContext::Entry::Entry(SimContext& context)
    : lock_(kernel_mutex()),
      previous_(sc_core::sc_curr_simcontext),
      previous_handler_(sc_core::sc_report_handler::get_handler()),
      outer_(std::exchange(entered, &context)) {
    if (outer_ == nullptr) handler_before = previous_handler_;
    sc_core::sc_curr_simcontext = context.context_.get();
    sc_core::sc_report_handler::set_handler(report_to_exception);
}

SimContext::Entry::~Entry() {
    sc_core::sc_report_handler::set_handler(previous_handler_);
    sc_core::sc_curr_simcontext = previous_;
    entered = outer_;
}

}  // namespace kpu::model
