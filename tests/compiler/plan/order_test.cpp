// Which tasks a task waits for: those that it shares bytes with, less what others of them have waited for.
#include "compiler/emit/order.hpp"

#include <gmock/gmock.h>

namespace kpu::compiler {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class OrderTest : public ::testing::Test {
  protected:
    static Span bytes(int64_t lo, int64_t hi) { return {0, lo, hi, true, 0, {}, {}}; }

    /// Returns a task on these bytes, and what it waits for.
    std::vector<uint32_t> add(const std::vector<Span>& reads, const std::vector<Span>& writes) {
        const builder::Region row = program_.bytes("", buffer_, 0, 64);
        const builder::Task task = program_.transfer("", program_.bytes("", buffer_, 64, 64), row);
        const std::vector<builder::Task> before = order_.add(task, reads, writes);
        tasks_.push_back(task);
        return numbers(before);
    }
    /// Returns the places among the tasks added.
    std::vector<uint32_t> numbers(const std::vector<builder::Task>& tasks) const {
        std::vector<uint32_t> result;
        for (const builder::Task& task : tasks) {
            for (uint32_t i = 0; i < tasks_.size(); ++i)
                if (tasks_[i].statement() == task.statement()) result.push_back(i);
        }
        return result;
    }

    builder::Program program_{"order"};
    builder::Buffer buffer_ = program_.buffer("b", Level::l2, 1024);
    Order order_;
    std::vector<builder::Task> tasks_;
};

TEST_F(OrderTest, WaitsOnlyForTheLastOfAChain) {
    EXPECT_THAT(add({}, {bytes(0, 64)}), IsEmpty());
    EXPECT_THAT(add({bytes(0, 64)}, {bytes(64, 128)}), ElementsAre(0));
    EXPECT_THAT(add({bytes(0, 64)}, {bytes(128, 192)}), ElementsAre(0));
    EXPECT_THAT(add({bytes(0, 192)}, {bytes(192, 256)}), ElementsAre(1, 2));
    EXPECT_THAT(add({}, {bytes(0, 256)}), ElementsAre(3));
    EXPECT_THAT(add({bytes(0, 8)}, {bytes(256, 264)}), ElementsAre(4));
}

TEST_F(OrderTest, IndependentTasksAreAllWaitedFor) {
    for (int64_t i = 0; i < 100; ++i) EXPECT_THAT(add({}, {bytes(i * 8, i * 8 + 8)}), IsEmpty());
    EXPECT_EQ(add({bytes(0, 800)}, {bytes(800, 808)}).size(), 100U);
    EXPECT_THAT(add({bytes(0, 808)}, {bytes(0, 800)}), ElementsAre(100));
}

TEST_F(OrderTest, WhatTheThreadHasWaitedForIsKnown) {
    add({}, {bytes(0, 64)});
    add({bytes(0, 64)}, {bytes(64, 128)});
    add({}, {bytes(128, 192)});
    EXPECT_THAT(numbers(order_.last_of({tasks_[0], tasks_[1], tasks_[1]})), ElementsAre(1));
    order_.add_wait({tasks_[1]});
    EXPECT_THAT(add({bytes(0, 192)}, {}), ElementsAre(2));
    EXPECT_THAT(order_.last_of({tasks_[0]}), IsEmpty());
}

}  // namespace
}  // namespace kpu::compiler
