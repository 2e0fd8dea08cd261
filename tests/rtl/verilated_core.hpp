#pragma once
// The driver, over the class that Verilator made of one build of the core.
#include <verilated.h>

#include <deque>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "tests/rtl/rtl_core.hpp"

namespace kpu::rtl {

/// Bits [bit, bit + width) of a port; fields do not cross 32-bit words.
template <class Port>
void put_bits(Port& port, int bit, int width, uint32_t value) {
    const uint32_t mask = width == 32 ? ~uint32_t{0} : (uint32_t{1} << width) - 1;
    if constexpr (std::is_integral_v<Port>) {
        port = static_cast<Port>((port & ~(uint64_t{mask} << bit)) | (uint64_t{value & mask} << bit));
    } else {
        uint32_t& word = port[static_cast<size_t>(bit / 32)];
        word = (word & ~(mask << bit % 32)) | ((value & mask) << bit % 32);
    }
}

/// Returns the 32-bit word `index` of a port.
template <class Port>
uint32_t get_word(const Port& port, uint64_t index) {
    if constexpr (std::is_integral_v<Port>) {
        return static_cast<uint32_t>(port >> (32 * index));
    } else {
        return port[static_cast<size_t>(index)];
    }
}

/// The order in which the core's DMA asks for the words of a job, and what is in them.
class Packing {
  public:
    Packing(const CoreInfo& core, const Job& job) : core_(core), job_(job) {
        const auto tiles = [](uint64_t size, uint64_t by) { return (size + by - 1) / by; };
        k_tiles_ = tiles(job.shape.k, core.rows);
        m_tiles_ = tiles(job.shape.m, core.rows);
        n_tiles_ = tiles(job.shape.n, core.cols);
    }
    uint64_t a_words() const {
        return core_.weight_stationary ? k_tiles_ * job_.shape.m : m_tiles_ * job_.shape.k;
    }
    uint64_t b_words() const {
        return n_tiles_ * (core_.weight_stationary ? k_tiles_ * core_.rows : job_.shape.k);
    }
    uint64_t results() const {
        return core_.weight_stationary ? n_tiles_ * k_tiles_ * job_.shape.m * core_.cols
                                       : m_tiles_ * n_tiles_ * core_.rows * core_.cols;
    }
    uint64_t result_words() const {
        return core_.weight_stationary ? n_tiles_ * job_.shape.m : m_tiles_ * n_tiles_ * core_.rows;
    }
    /// Returns an element of a word of the first operand: rows of the array.
    int32_t a(uint64_t word, uint64_t row) const {
        if (core_.weight_stationary) return a_at(word % job_.shape.m, word / job_.shape.m * core_.rows + row);
        return a_at(word / job_.shape.k * core_.rows + row, word % job_.shape.k);
    }
    /// Returns an element of a word of the second operand: columns of the array.
    int32_t b(uint64_t word, uint64_t col) const {
        if (!core_.weight_stationary)
            return b_at(word % job_.shape.k, word / job_.shape.k * core_.cols + col);
        const uint64_t fold = word / core_.rows, row = core_.rows - 1 - word % core_.rows;
        return b_at(fold % k_tiles_ * core_.rows + row, fold / k_tiles_ * core_.cols + col);
    }
    /// Word of the result buffer that holds C[m][n], in column n % cols.
    uint64_t result_word(uint64_t m, uint64_t n) const {
        const uint64_t n_tile = n / core_.cols;
        if (core_.weight_stationary) return n_tile * job_.shape.m + m;
        return (m / core_.rows * n_tiles_ + n_tile) * core_.rows + m % core_.rows;
    }

  private:
    int32_t a_at(uint64_t m, uint64_t k) const {
        const bool inside = m < job_.shape.m && k < job_.shape.k;
        return inside ? job_.a[m * job_.shape.k + k] : 0;
    }
    int32_t b_at(uint64_t k, uint64_t n) const {
        const bool inside = k < job_.shape.k && n < job_.shape.n;
        return inside ? job_.b[k * job_.shape.n + n] : 0;
    }
    const CoreInfo& core_;
    const Job& job_;
    uint64_t k_tiles_, m_tiles_, n_tiles_;
};

template <class Model>
class VerilatedCore : public Core {
  public:
    explicit VerilatedCore(CoreInfo info) : info_(std::move(info)), model_(&context_) {}
    const CoreInfo& info() const override { return info_; }

    Outcome run(const std::vector<Job>& jobs, const Speed& speed) override {
        begin(jobs, speed);
        while (left_ > 0) {
            if (++cycle_ > last_sign_ + patience) throw std::runtime_error("the array hangs");
            offer_job();
            model_.hold = speed.preloaded && (sent_ < packings_.size() || !all_loaded_);
            if (model_.hold) released_at_ = cycle_ + 1;
            clock(0);
            watch();
            clock(1);
            answer_memory();
        }
        Outcome outcome;
        outcome.cycles = last_result_ - first_operand_ + 1;
        outcome.since_release = last_result_ - released_at_ + 1;
        outcome.since_request = last_result_ - first_request_ + 1;
        outcome.starved = starved_;
        for (size_t j = 0; j < jobs.size(); ++j) outcome.values.push_back(read_back(j));
        return outcome;
    }

  private:
    static constexpr uint64_t patience = 100000, operand_words = 2048, result_words = 4096;
    static constexpr size_t memory_latency = 2;  ///< cycles from a request to its word

    void begin(const std::vector<Job>& jobs, const Speed& speed) {
        packings_.clear();
        bases_.clear();
        requests_.clear();
        model_.answer = 0;
        jobs_ = &jobs;
        left_ = 0;
        uint64_t base = 0;
        for (const Job& job : jobs) {
            const Packing& packing = packings_.emplace_back(info_, job);
            if (packing.a_words() > operand_words || packing.b_words() > operand_words)
                throw std::runtime_error("a job's operands do not fit half of the buffers");
            bases_.push_back(base);
            base += packing.result_words();
            left_ += packing.results();
        }
        if (base > result_words) throw std::runtime_error("the results do not fit their buffer");
        if (speed.preloaded && jobs.size() > 2) throw std::runtime_error("two jobs at most can be preloaded");
        sent_ = served_job_ = 0;
        asked_ = 0;
        cycle_ = last_sign_ = first_operand_ = first_request_ = last_result_ = starved_ = 0;
        released_at_ = 0;
        started_ = requested_ = all_loaded_ = false;
        model_.dma_cycles_per_x = static_cast<uint8_t>(speed.dma_a);
        model_.dma_cycles_per_y = static_cast<uint8_t>(speed.dma_b);
        model_.sram_elements_per_cycle = static_cast<uint8_t>(speed.sram);
        model_.job_valid = 0;
        model_.hold = 1;
        model_.rst = 1;
        for (int i = 0; i < 3; ++i) {
            clock(0);
            clock(1);
        }
        model_.rst = 0;
    }

    void clock(int level) {
        model_.clk = static_cast<uint8_t>(level);
        model_.eval();
        context_.timeInc(1);
    }

    void offer_job() {
        model_.job_valid = sent_ < packings_.size();
        if (!model_.job_valid) return;
        const timing::GemmShape& shape = (*jobs_)[sent_].shape;
        model_.m = static_cast<uint16_t>(shape.m);
        model_.n = static_cast<uint16_t>(shape.n);
        model_.k = static_cast<uint16_t>(shape.k);
        model_.result_base = static_cast<uint16_t>(bases_[sent_]);
    }

    /// Looks at the cycle before its closing edge.
    void watch() {
        all_loaded_ = sent_ == packings_.size() && model_.loaded;
        if (model_.job_valid && model_.job_ready) ++sent_;
        if (model_.request) {
            // a narrow bus brings the last part of a word later
            const bool second = model_.request_y != 0;
            const uint64_t more = (second ? model_.dma_cycles_per_y : model_.dma_cycles_per_x) - 1;
            requests_.push_back({cycle_ + memory_latency + more, second, model_.request_addr});
        }
        if (model_.request && !requested_) {
            requested_ = true;
            first_request_ = cycle_;
        }
        if (model_.enters && !started_) {
            started_ = true;
            first_operand_ = cycle_;
        }
        if (started_ && model_.starving) ++starved_;
        for (uint64_t c = 0; c < info_.cols; ++c) {
            if ((model_.leaves >> c & 1) == 0) continue;
            --left_;
            last_result_ = cycle_;
        }
        if (model_.request || model_.enters || model_.leaves) last_sign_ = cycle_;
    }

    /// Answers of the memory outside to the requests that `watch` has seen.
    void answer_memory() {
        model_.answer = 0;
        if (requests_.empty() || requests_.front().due != cycle_ + 1) return;
        const Request request = requests_.front();
        requests_.pop_front();
        model_.answer = 1;
        const Packing& packing = packings_.at(served_job_);
        if (request.second) {
            for (uint64_t c = 0; c < info_.cols; ++c)
                put_bits(model_.memory_y, static_cast<int>(c) * info_.b_bits, info_.b_bits,
                         static_cast<uint32_t>(packing.b(request.word, c)));
        } else {
            for (uint64_t r = 0; r < info_.rows; ++r)
                put_bits(model_.memory_x, static_cast<int>(r) * info_.a_bits, info_.a_bits,
                         static_cast<uint32_t>(packing.a(request.word, r)));
        }
        if (++asked_ == packing.a_words() + packing.b_words()) {
            asked_ = 0;
            ++served_job_;
        }
    }

    std::vector<int32_t> read_back(size_t j) {
        clock(0);
        clock(1);  // the last result is in its buffer after its cycle's edge
        const timing::GemmShape& shape = (*jobs_)[j].shape;
        std::vector<int32_t> values;
        for (uint64_t m = 0; m < shape.m; ++m) {
            for (uint64_t n = 0; n < shape.n; ++n) {
                model_.look_addr = static_cast<uint16_t>(bases_[j] + packings_[j].result_word(m, n));
                model_.eval();
                values.push_back(static_cast<int32_t>(get_word(model_.look_data, n % info_.cols)));
            }
        }
        return values;
    }

    struct Request {
        uint64_t due;
        bool second;
        uint64_t word;
    };
    const CoreInfo info_;
    VerilatedContext context_;
    Model model_;
    const std::vector<Job>* jobs_ = nullptr;
    std::vector<Packing> packings_;
    std::vector<uint64_t> bases_;
    std::deque<Request> requests_;
    size_t sent_ = 0, served_job_ = 0;
    uint64_t asked_ = 0, left_ = 0, cycle_ = 0, last_sign_ = 0;
    uint64_t first_operand_ = 0, first_request_ = 0, last_result_ = 0, starved_ = 0;
    uint64_t released_at_ = 0;
    bool started_ = false, requested_ = false, all_loaded_ = false;
};

}  // namespace kpu::rtl
