#include "compiler/emit/throttle.hpp"

#include <algorithm>

namespace kpu::compiler {

void Throttle::reserve(size_t tasks) {
    if (entries_ == 0) return;
    reserved_ += tasks;
    size_t waited = 0;
    for (size_t i = 0; i < open_.size(); ++i) {
        open_[i].ahead += tasks;
        if (open_[i].need + open_[i].ahead > entries_) waited = i + 1;
    }
    if (waited == 0) return;
    std::vector<builder::Task> tokens;
    for (size_t i = 0; i < waited; ++i)
        tokens.insert(tokens.end(), open_[i].tasks.begin(), open_[i].tasks.end());
    open_.erase(open_.begin(), open_.begin() + static_cast<std::ptrdiff_t>(waited));
    tokens = order_.last_of(std::move(tokens));
    if (tokens.empty()) return;
    program_.wait(tokens);
    order_.add_wait(tokens);
}

void Throttle::after_loop(std::vector<builder::Task> tasks, size_t entries) {
    open_.push_back({std::move(tasks), entries});
}

void Throttle::begin_form() {
    before_form_ = open_;
    reserved_ = 0;
}

void Throttle::end_form(uint32_t form, std::vector<builder::Task> tasks) {
    open_ = std::move(before_form_);
    for (Loop& loop : open_) {
        if (loop.form.value_or(form) == form) loop.ahead += reserved_;  // of others none runs beside this one
    }
    after_loop(std::move(tasks), std::min(reserved_, entries_));
    open_.back().form = form;
}

}  // namespace kpu::compiler
