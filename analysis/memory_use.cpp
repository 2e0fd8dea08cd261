#include "analysis/memory_use.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "analysis/describe.hpp"
#include "isa/footprint_runs.hpp"

namespace kpu::analysis {
namespace {

constexpr uint32_t from_host = UINT32_MAX;

/// Contents of a range of bytes: which instance wrote them, when they were last read.
struct Piece {
    uint64_t end = 0;
    uint32_t writer = from_host;  ///< instance, or from_host
    uint32_t last_read = 0;       ///< instance + 1; 0: not read yet
};

class MemoryWalk {
  public:
    MemoryWalk(const BoundProgram& program, const std::vector<Finding>& races, const FollowBounds& bounds)
        : program_(program),
          bounds_(bounds),
          pieces_(program.buffers.size()),
          kept_(program.buffers.size(), false) {
        for (const Finding& race : races) {
            uncertain_.insert(race.statement);
            uncertain_.insert(race.other_statement);
        }
        for (const TensorSpec& input : program.inputs) {
            pieces_[input.buffer][0] = {program.buffers[input.buffer].size, from_host, 0};
        }
        for (const DataImage& image : program.data) {
            pieces_[image.buffer][0] = {program.buffers[image.buffer].size, from_host, 0};
        }
        for (const TensorSpec& output : program.outputs) kept_[output.buffer] = true;
    }

    MemoryReport run() {
        LoopValues loops;
        block(0, static_cast<uint32_t>(program_.statements.size()), loops);
        report_.complete = !stopped_;
        if (!stopped_) finish();
        return std::move(report_);
    }

  private:
    struct Instance {
        uint32_t statement;
        bool used = false;  ///< someone read a byte of what it wrote
    };

    void block(uint32_t first, uint32_t end, const LoopValues& loops) {
        for (uint32_t s = first; s < end && !stopped_; ++s) {
            const BoundStatement& statement = program_.statements[s];
            if (statement.kind == BoundStatement::Kind::task) task(s, loops);
            if (statement.kind != BoundStatement::Kind::loop) continue;
            const BoundLoop& loop = program_.loops[statement.index];
            const int64_t last = loop.last.eval(loops);
            for (int64_t i = loop.first.eval(loops); i <= last && !stopped_; ++i) {
                stopped_ = ++iterations_ > 8 * bounds_.tasks;  // loops may be without tasks
                LoopValues inner = loops;
                inner.push(i);
                block(s + 1, loop.body_end, inner);
                if (i == INT64_MAX) break;
            }
            s = loop.body_end - 1;
        }
    }

    void task(uint32_t s, const LoopValues& loops) {
        if (instances_.size() >= bounds_.tasks) {
            stopped_ = true;
            return;
        }
        const auto number = static_cast<uint32_t>(instances_.size());
        const BoundTask& task = program_.tasks[program_.statements[s].index];
        instances_.push_back({s, task.outputs.empty()});
        for (const uint32_t region : task.inputs) {
            for_each_run(region, loops, [&](auto& pieces, uint64_t first, uint64_t end) {
                read(pieces, first, end, number, region, loops);
            });
        }
        for (const uint32_t region : task.outputs) {
            const uint32_t buffer = program_.regions[region].buffer;
            for_each_run(region, loops, [&](auto& pieces, uint64_t first, uint64_t end) {
                write(pieces, buffer, first, end, number);
            });
        }
    }

    /// Calls visit(pieces, first, end): offsets in the buffer, end exclusive.
    template <class Visit>
    void for_each_run(uint32_t index, const LoopValues& loops, Visit visit) {
        const BoundRegion& region = program_.regions[index];
        const BoundBuffer& buffer = program_.buffers[region.buffer];
        const int64_t address = region.address.eval(loops);
        const auto base = static_cast<int64_t>(buffer.base);
        if (address < base || region.extent > buffer.size ||
            static_cast<uint64_t>(address - base) > buffer.size - region.extent) {
            stopped_ = true;  // leaves its buffer: an error of its own
            return;
        }
        const Footprint f = footprint_of(region, static_cast<uint64_t>(address - base));
        kpu::for_each_run(f, [&](uint64_t offset, uint64_t bytes) {
            if (++runs_ > bounds_.runs) stopped_ = true;
            if (stopped_) return false;
            visit(pieces_[region.buffer], offset, offset + bytes);
            return true;
        });
    }

    using Pieces = std::map<uint64_t, Piece>;

    /// Makes `at` the start of a piece if it lies inside one.
    static void split(Pieces& pieces, uint64_t at) {
        auto it = pieces.upper_bound(at);
        if (it == pieces.begin()) return;
        --it;
        if (it->first == at || it->second.end <= at) return;
        const Piece rest = it->second;
        it->second.end = at;
        pieces.emplace(at, rest);
    }

    void read(Pieces& pieces, uint64_t first, uint64_t end, uint32_t number, uint32_t region,
              const LoopValues& loops) {
        split(pieces, first);
        split(pieces, end);
        uint64_t next = first;
        for (auto it = pieces.lower_bound(first); it != pieces.end() && it->first < end; ++it) {
            if (it->first > next) unwritten(number, region, next, it->first, loops);
            next = it->second.end;
            it->second.last_read = number + 1;
            if (it->second.writer != from_host) instances_[it->second.writer].used = true;
        }
        if (next < end) unwritten(number, region, next, end, loops);
    }

    void write(Pieces& pieces, uint32_t buffer, uint64_t first, uint64_t end, uint32_t number) {
        split(pieces, first);
        split(pieces, end);
        for (auto it = pieces.lower_bound(first); it != pieces.end() && it->first < end;) {
            close(buffer, it->first, it->second, number);
            it = pieces.erase(it);
        }
        pieces[first] = {end, number, 0};
    }

    /// Closes a piece, whose bytes are needed from their writer to their last reader, or to instance `until`,
    /// which puts others in their place.
    void close(uint32_t buffer, uint64_t first, const Piece& piece, uint64_t until) {
        if (piece.last_read == 0) return;
        const uint64_t from = piece.writer == from_host ? 0 : piece.writer;
        live(buffer, from, std::max(from, std::min<uint64_t>(piece.last_read, until)), piece.end - first);
    }

    void live(uint32_t buffer, uint64_t from, uint64_t to, uint64_t bytes) {
        const BoundBuffer& home = program_.buffers[buffer];
        auto& changes = changes_[{home.level, home.engine}];
        changes[from] += static_cast<int64_t>(bytes);
        changes[to] -= static_cast<int64_t>(bytes);
    }

    void unwritten(uint32_t number, uint32_t region, uint64_t first, uint64_t end, const LoopValues& loops) {
        const uint32_t statement = instances_[number].statement;
        if (uncertain_.count(statement) != 0 || !reported_.insert({statement, region}).second) return;
        Finding finding;
        finding.kind = FindingKind::uninitialised;
        finding.statement = finding.other_statement = statement;
        finding.loops = loops;
        finding.buffer = program_.regions[region].buffer;
        finding.first = first;
        finding.last = end - 1;
        finding.message = fmt::format(
            "uninitialised read: {} reads {}, which no task has written by then. Fix: write them first, or "
            "read what is written.",
            task_text(program_, statement, loops, false),
            bytes_text(program_, finding.buffer, first, end - 1));
        report_.findings.push_back(std::move(finding));
    }

    void finish() {
        for (uint32_t b = 0; b < pieces_.size(); ++b) {
            for (auto& [first, piece] : pieces_[b]) {
                if (!kept_[b]) {
                    close(b, first, piece, instances_.size());
                    continue;
                }
                const bool written = piece.writer != from_host;
                if (written) instances_[piece.writer].used = true;
                live(b, written ? piece.writer : 0, instances_.size(), piece.end - first);
            }
        }
        dead_writes();
        peaks();
    }

    void dead_writes() {
        std::map<uint32_t, bool> used;  // by statement: any instance
        for (const Instance& instance : instances_) used[instance.statement] |= instance.used;
        for (const auto& [statement, any] : used) {
            if (any) continue;
            const BoundTask& task = program_.tasks[program_.statements[statement].index];
            Finding finding;
            finding.kind = FindingKind::dead_write;
            finding.severity = Severity::info;
            finding.statement = finding.other_statement = statement;
            finding.buffer = program_.regions[task.outputs[0]].buffer;
            finding.message =
                fmt::format("dead {}: nothing reads what task `{}` writes to buffer `{}`. Fix: remove it.",
                            task.stores()     ? "store"
                            : task.computes() ? "result"
                                              : "transfer",
                            task.name, program_.buffers[finding.buffer].name);
            report_.findings.push_back(std::move(finding));
        }
    }

    void peaks() {
        std::map<std::pair<Level, uint16_t>, uint64_t> declared;
        for (const BoundBuffer& buffer : program_.buffers) {
            uint64_t& end = declared[{buffer.level, buffer.engine}];
            end = std::max(end, buffer.base + buffer.size);
        }
        for (const auto& [place, bytes] : declared) {
            MemoryUse use{place.first, place.second, bytes, 0, 0};
            int64_t now = 0;
            for (const auto& [time, change] : changes_[place]) {
                now += change;
                if (now <= static_cast<int64_t>(use.peak_live)) continue;
                use.peak_live = static_cast<uint64_t>(now);
                use.statement = instances_[std::min<size_t>(time, instances_.size() - 1)].statement;
            }
            report_.use.push_back(use);
        }
    }

    const BoundProgram& program_;
    const FollowBounds bounds_;
    std::vector<Pieces> pieces_;  ///< indexed by buffer, then first byte
    std::vector<bool> kept_;      ///< indexed by buffer: read by the host at the end
    std::set<uint32_t> uncertain_;
    std::vector<Instance> instances_;
    std::set<std::pair<uint32_t, uint32_t>> reported_;  ///< statement, region
    std::map<std::pair<Level, uint16_t>, std::map<uint64_t, int64_t>>
        changes_;  ///< changes of live bytes, by instance
    uint64_t iterations_ = 0, runs_ = 0;
    bool stopped_ = false;
    MemoryReport report_;
};

}  // namespace

MemoryReport follow_memory(const BoundProgram& program, const std::vector<Finding>& races,
                           const FollowBounds& bounds) {
    return MemoryWalk(program, races, bounds).run();
}

}  // namespace kpu::analysis
