#include "compiler/tile_schedule/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

namespace kpu::tile_schedule {
namespace {

constexpr size_t most_faults = 20;
constexpr uint32_t nobody = UINT32_MAX;

/// A tile in the arena, or what later ones left of it.
struct ArenaTile {
    uint64_t end = 0;
    uint32_t bytes = 0;
    uint32_t writer = nobody;
    bool sum = false;               ///< sum of EXECUTEs, not loaded
    bool used = true;               ///< a sum: stored, or read as an operand
    bool intact = true;             ///< nothing has overwritten a part
    double scale = 1;               ///< i8: real value of one step
    std::vector<uint32_t> readers;  ///< since the writer
};

struct DramTile {
    uint32_t writer = nobody;
    std::vector<uint32_t> readers;
};

class Follower {
  public:
    Follower(const Schedule& schedule, const AnalysisOptions& options)
        : schedule_(schedule), header_(schedule.header), format_(header_.format), options_(options) {}

    Analysis run() {
        result_.ops.resize(schedule_.ops.size());
        if (options_.dependences) dram_.resize(header_.tensors.size());
        for (; op_ < schedule_.ops.size() && errors_ < most_faults; ++op_) {
            facts().first_dep = static_cast<uint32_t>(result_.deps.size());
            std::visit([this](const auto& op) { follow(op); }, schedule_.ops[op_]);
            finish_deps();
        }
        if (errors_ < most_faults) find_lost_sums();
        return std::move(result_);
    }

  private:
    OpFacts& facts() { return result_.ops[op_]; }

    void fault(FaultKind kind, std::string message) { fault_at(kind, op_, std::move(message)); }
    void fault_at(FaultKind kind, uint32_t op, std::string message) {
        size_t& count = is_warning(kind) ? warnings_ : errors_;
        if (++count <= most_faults) result_.faults.push_back({kind, op, std::move(message)});
    }

    std::string named(uint32_t op) const {
        return fmt::format("op {}, {}", op, describe(schedule_.ops[op], header_));
    }

    // ---- dependences

    using On = Dependence::On;

    void depend(uint32_t op, On on) {
        if (options_.dependences && op != nobody && op != op_) result_.deps.push_back({op, on});
    }
    void depend(const std::vector<uint32_t>& ops, On on) {
        for (const uint32_t op : ops) depend(op, on);
    }
    void add_reader(std::vector<uint32_t>& readers) const {
        if (options_.dependences) readers.push_back(op_);
    }
    void finish_deps() {
        const auto begin = result_.deps.begin() + facts().first_dep;
        std::sort(begin, result_.deps.end(), [](const Dependence& a, const Dependence& b) {
            return std::tie(a.op, a.on) < std::tie(b.op, b.on);
        });
        const auto same = [](const Dependence& a, const Dependence& b) {
            return a.op == b.op && a.on == b.on;
        };
        result_.deps.erase(std::unique(begin, result_.deps.end(), same), result_.deps.end());
        facts().dep_count = static_cast<uint32_t>(result_.deps.size()) - facts().first_dep;
    }

    // ---- checks of one field

    bool check_range(std::string_view what, uint32_t address, uint32_t bytes) {
        if (address % address_align != 0) {
            fault(FaultKind::unaligned, fmt::format("{} {} is not aligned. Fix: give a multiple of {}.", what,
                                                    address, address_align));
            return false;
        }
        if (uint64_t{address} + bytes > options_.arena_bytes) {
            fault(FaultKind::outside_arena,
                  fmt::format(
                      "{} {} and {} bytes leave the arena, which has {} bytes. Fix: stay inside, or take a "
                      "larger arena.",
                      what, address, bytes, options_.arena_bytes));
            return false;
        }
        result_.peak_bytes = std::max(result_.peak_bytes, uint64_t{address} + bytes);
        return true;
    }

    void check_bytes(uint32_t bytes, uint32_t tile_bytes, ElemType elem) {
        if (bytes == tile_bytes) return;
        fault(FaultKind::wrong_bytes,
              fmt::format("{} bytes are not one tile: {}x{} {} take {}. Fix: give {}.", bytes, format_.tile,
                          format_.tile, name_of(elem), tile_bytes, tile_bytes));
    }

    const Tensor* check_tile(uint32_t id, uint32_t row, uint32_t col) {
        const Tensor* tensor = header_.find(id);
        if (tensor == nullptr) {
            fault(FaultKind::unknown_tensor,
                  fmt::format("there is no tensor {}. Fix: declare it, or give the id of one that is.", id));
            return nullptr;
        }
        if (row < tensor->tile_rows(format_.tile) && col < tensor->tile_cols(format_.tile)) return tensor;
        fault(FaultKind::tile_outside,
              fmt::format("tile [{},{}] is outside tensor `{}`, which has {} x {} tiles ({} x {} elements).",
                          row, col, tensor->name, tensor->tile_rows(format_.tile),
                          tensor->tile_cols(format_.tile), tensor->rows, tensor->cols));
        return nullptr;
    }

    // ---- the arena

    using Arena = std::map<uint64_t, ArenaTile>;

    Arena::iterator first_overlap(uint64_t begin) {
        auto it = arena_.upper_bound(begin);
        if (it != arena_.begin() && std::prev(it)->second.end > begin) --it;
        return it;
    }

    bool is_free(uint64_t begin, uint64_t end) {
        const auto it = first_overlap(begin);
        return it == arena_.end() || it->first >= end;
    }

    ArenaTile* tile_at(uint32_t address, uint32_t bytes) {
        const auto it = arena_.find(address);
        const bool found = it != arena_.end() && it->second.intact && it->second.bytes == bytes;
        return found ? &it->second : nullptr;
    }

    /// Takes [begin, end) from the tiles there, after `look` had a look at each; what is left of a tile is
    /// only there for the order of later writes.
    template <class Look>
    void clear(uint64_t begin, uint64_t end, const Look& look) {
        for (auto it = first_overlap(begin); it != arena_.end() && it->first < end;) {
            ArenaTile& tile = it->second;
            look(tile);
            depend(tile.writer, On::value);
            depend(tile.readers, On::release);
            if (it->first >= begin && tile.end <= end) {
                it = arena_.erase(it);
                continue;
            }
            tile.intact = false;
            if (tile.end > end) {
                ArenaTile rest = tile;
                arena_[end] = std::move(rest);
            }
            if (it->first >= begin) {
                it = arena_.erase(it);
            } else {
                tile.end = begin;
                ++it;
            }
        }
    }

    void put(uint32_t address, uint32_t bytes, bool sum, double scale) {
        ArenaTile tile;
        tile.end = uint64_t{address} + bytes;
        tile.bytes = bytes;
        tile.writer = op_;
        tile.sum = sum;
        tile.used = !sum;
        tile.scale = scale;
        arena_[address] = std::move(tile);
    }

    // ---- DRAM

    DramTile* dram_tile(const Tensor& tensor, uint32_t row, uint32_t col) {
        if (!options_.dependences) return nullptr;
        return &dram_[static_cast<size_t>(&tensor - header_.tensors.data())][uint64_t{row} << 32 | col];
    }

    // ---- the ops

    void follow(const Load& op) {
        ++result_.loads;
        const Tensor* tensor = check_tile(op.tensor_id, op.tile_row, op.tile_col);
        check_bytes(op.bytes, format_.operand_bytes(), format_.elem);
        if (tensor != nullptr) read_dram(*tensor, op);
        if (!check_range("address", op.dst_addr, format_.operand_bytes())) return;
        clear(op.dst_addr, uint64_t{op.dst_addr} + format_.operand_bytes(), [&](const ArenaTile& tile) {
            if (tile.sum && !tile.used && tile.intact)
                fault(FaultKind::lost_sum,
                      fmt::format(
                          "it overwrites the sum of {}, which no STORE has stored. Fix: store it first.",
                          named(tile.writer)));
        });
        put(op.dst_addr, format_.operand_bytes(), false,
            tensor != nullptr && tensor->scale != 0 ? tensor->scale : 1);
    }

    void read_dram(const Tensor& tensor, const Load& op) {
        if (tensor.elem != format_.elem)
            fault(FaultKind::wrong_type,
                  fmt::format("tensor `{}` is {}, a LOAD takes {} tiles. Fix: declare it as {}.", tensor.name,
                              name_of(tensor.elem), name_of(format_.elem), name_of(format_.elem)));
        DramTile* tile = dram_tile(tensor, op.tile_row, op.tile_col);
        if (tile == nullptr) return;
        if (tile->writer == nobody && (tensor.role == Role::intermediate || tensor.role == Role::output))
            fault(FaultKind::wrong_role,
                  fmt::format(
                      "no STORE before it writes this tile of `{}`, which is an {}. Fix: store it first, or "
                      "declare the tensor as input.",
                      tensor.name, name_of(tensor.role)));
        depend(tile->writer, On::dram);
        add_reader(tile->readers);
    }

    /// Returns the operand at an address; null after a fault.
    ArenaTile* operand(std::string_view what, uint32_t address) {
        if (!check_range(what, address, format_.operand_bytes())) return nullptr;
        ArenaTile* tile = tile_at(address, format_.operand_bytes());
        if (tile != nullptr && (!tile->sum || format_.elem == format_.acc_elem())) {
            depend(tile->writer, On::value);
            return tile;
        }
        std::string why = "nothing was loaded there";
        if (!is_free(address, uint64_t{address} + format_.operand_bytes())) {
            const ArenaTile& other = first_overlap(address)->second;
            why = tile != nullptr
                      ? fmt::format("{} left a sum there", named(other.writer))
                      : fmt::format("what is there now is of {}, and no whole tile", named(other.writer));
        }
        fault(FaultKind::never_loaded,
              fmt::format("{} {}: {}. Fix: LOAD a tile to it first.", what, address, why));
        return nullptr;
    }

    void follow(const Execute& op) {
        ++result_.executes;
        ArenaTile* a = operand("operand a at", op.a_addr);
        ArenaTile* b = operand("operand b at", op.b_addr);
        if (!check_range("accumulator", op.acc_addr, format_.acc_bytes())) return;
        const uint64_t begin = op.acc_addr, end = begin + format_.acc_bytes();
        for (const uint64_t address : {op.a_addr, op.b_addr}) {
            if (address < end && begin < address + format_.operand_bytes())
                return fault(FaultKind::overlap,
                             fmt::format("its accumulator at {} overlaps its operand at {}. Fix: "
                                         "give it an address of its own.",
                                         begin, address));
        }
        double scale = 1;
        for (ArenaTile* tile : {a, b}) {
            if (tile != nullptr) scale *= tile->scale;
        }
        for (ArenaTile* tile : {a, b}) {
            if (tile == nullptr) continue;
            if (tile->sum) tile->used = true;
            add_reader(tile->readers);
            if (a == b) break;
        }
        accumulate(op, scale);
    }

    void accumulate(const Execute& op, double scale) {
        const uint64_t begin = op.acc_addr, end = begin + format_.acc_bytes();
        if (op.k == 0) {
            clear(begin, end, [&](const ArenaTile& tile) {
                if (tile.sum && !tile.used && tile.intact)
                    fault(FaultKind::unstored_sum,
                          fmt::format(
                              "k = 0 clears the partial sum of {}, which no STORE has stored. Fix: store it "
                              "first, or accumulate elsewhere.",
                              named(tile.writer)));
            });
            return put(op.acc_addr, format_.acc_bytes(), true, scale);
        }
        if (is_free(begin, end)) return put(op.acc_addr, format_.acc_bytes(), true, scale);
        ArenaTile* tile = tile_at(op.acc_addr, format_.acc_bytes());
        if (tile == nullptr)
            return fault(
                FaultKind::overlap,
                fmt::format("its accumulator at {} is not the tile of {} that lies there, and k is not 0. "
                            "Fix: begin the sum with k = 0.",
                            begin, named(first_overlap(begin)->second.writer)));
        if (tile->sum && tile->scale != scale)
            return fault(
                FaultKind::wrong_type,
                fmt::format("its operands have scale {} together, those of {}, whose sum it continues, {}.",
                            scale, named(tile->writer), tile->scale));
        facts().from_zero = false;
        depend(tile->writer, On::value);
        depend(tile->readers, On::release);
        tile->readers.clear();
        tile->writer = op_;
        tile->sum = true;
        tile->used = false;
        tile->scale = scale;
    }

    void follow(const Store& op) {
        ++result_.stores;
        const Tensor* tensor = check_tile(op.tensor_id, op.tile_row, op.tile_col);
        check_bytes(op.bytes, format_.acc_bytes(), format_.acc_elem());
        if (tensor != nullptr) write_dram(*tensor, op);
        if (!check_range("address", op.src_addr, format_.acc_bytes())) return;
        ArenaTile* tile = tile_at(op.src_addr, format_.acc_bytes());
        if (tile == nullptr || (!tile->sum && format_.elem != format_.acc_elem()))
            return fault(FaultKind::never_loaded,
                         fmt::format("address {}: no sum is there. Fix: EXECUTE to it first.", op.src_addr));
        facts().scale = tile->scale;
        depend(tile->writer, On::value);
        tile->used = true;
        if (op.activation == Activation::relu) {  // in the arena
            depend(tile->readers, On::release);
            tile->readers.clear();
            tile->writer = op_;
        }
        add_reader(tile->readers);
    }

    void write_dram(const Tensor& tensor, const Store& op) {
        if (tensor.elem == ElemType::i8 && tensor.scale == 0)
            fault(FaultKind::wrong_type,
                  fmt::format(
                      "tensor `{}` is i8 and has no scale to convert i32 sums with. Fix: end its line with "
                      "`i8 scale=S`.",
                      tensor.name));
        if (tensor.role == Role::input || tensor.role == Role::weight)
            fault(FaultKind::wrong_role,
                  fmt::format("tensor `{}` is {}. Fix: store to an intermediate or an output.", tensor.name,
                              tensor.role == Role::input ? "an input" : "a weight"));
        DramTile* tile = dram_tile(tensor, op.tile_row, op.tile_col);
        if (tile == nullptr) return;
        depend(tile->writer, On::dram);
        depend(tile->readers, On::dram);
        tile->readers.clear();
        tile->writer = op_;
    }

    void find_lost_sums() {
        for (const auto& [address, tile] : arena_) {
            if (!tile.sum || tile.used || !tile.intact) continue;
            fault_at(FaultKind::lost_sum, tile.writer,
                     fmt::format("its sum at {} is never stored. Fix: add a STORE.", address));
        }
    }

    const Schedule& schedule_;
    const Header& header_;
    const Format& format_;
    const AnalysisOptions& options_;
    uint32_t op_ = 0;
    size_t errors_ = 0, warnings_ = 0;
    Arena arena_;
    std::vector<std::unordered_map<uint64_t, DramTile>> dram_;
    Analysis result_;
};

SourcePos place_of(const Schedule& schedule, uint32_t op) {
    return {schedule.origin, op < schedule.lines.size() ? schedule.lines[op] : 0,
            op < schedule.lines.size() ? 1U : 0U};
}

}  // namespace

std::string_view name_of(FaultKind kind) {
    static constexpr std::string_view names[] = {
        "unknown_tensor", "tile_outside", "wrong_bytes", "unaligned",  "outside_arena", "never_loaded",
        "overlap",        "unstored_sum", "wrong_type",  "wrong_role", "lost_sum"};
    return names[static_cast<size_t>(kind)];
}

bool is_warning(FaultKind kind) { return kind == FaultKind::lost_sum; }

Analysis analyse(const Schedule& schedule, const AnalysisOptions& options) {
    return Follower(schedule, options).run();
}

void report(const Analysis& analysis, const Schedule& schedule, Diagnostics& diagnostics) {
    for (const Fault& fault : analysis.faults) {
        std::string text = fmt::format("op {}, {}: {}", fault.op,
                                       describe(schedule.ops[fault.op], schedule.header), fault.message);
        const SourcePos pos = place_of(schedule, fault.op);
        if (is_warning(fault.kind)) {
            diagnostics.warning(pos, std::move(text));
        } else {
            diagnostics.error(pos, std::move(text));
        }
    }
}

void require_legal(const Analysis& analysis, const Schedule& schedule) {
    const auto first = std::find_if(analysis.faults.begin(), analysis.faults.end(),
                                    [](const Fault& fault) { return !is_warning(fault.kind); });
    if (first == analysis.faults.end()) return;
    Diagnostics diagnostics;
    report(analysis, schedule, diagnostics);
    throw ScheduleError(first->kind, first->op, std::move(diagnostics));
}

}  // namespace kpu::tile_schedule
