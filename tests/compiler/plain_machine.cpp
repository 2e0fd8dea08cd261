#include "tests/compiler/plain_machine.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace kpu::tile_schedule::plain {
namespace {

/// Returns the nearest value with `digits` significand bits and exponents from `lowest` on, ties to even.
double rounded(double value, int digits, int lowest) {
    if (value == 0 || !std::isfinite(value)) return value;
    const double quantum = std::ldexp(1, std::max(std::ilogb(value), lowest) - digits + 1);
    return std::nearbyint(value / quantum) * quantum;
}

uint32_t float_bits(double value) {
    if (std::isnan(value)) return 0x7fc00000;
    const auto single = static_cast<float>(value);
    uint32_t bits = 0;
    std::memcpy(&bits, &single, 4);
    return bits;
}

uint16_t half_bits(double value) {
    if (std::isnan(value)) return 0x7e00;
    const double r = rounded(value, 11, -14);
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const double size = std::fabs(r);
    if (size >= 65520) return sign | 0x7c00;
    if (size < std::ldexp(1, -14)) return sign | static_cast<uint16_t>(std::ldexp(size, 24));
    const int exponent = std::ilogb(size);
    const auto fraction = static_cast<uint16_t>(std::ldexp(size, 10 - exponent) - 1024);
    return sign | static_cast<uint16_t>((exponent + 15) << 10) | fraction;
}

double half_value(uint16_t bits) {
    const int exponent = (bits >> 10) & 31;
    const double sign = (bits & 0x8000) != 0 ? -1 : 1;
    if (exponent == 31)
        return (bits & 1023) != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
    const double size =
        exponent == 0 ? std::ldexp(bits & 1023, -24) : std::ldexp(1024 + (bits & 1023), exponent - 25);
    return sign * size;
}

double read(ElemType elem, const uint8_t* at) {
    if (elem == ElemType::i8) return static_cast<int8_t>(*at);
    if (elem == ElemType::f16) {
        uint16_t bits = 0;
        std::memcpy(&bits, at, 2);
        return half_value(bits);
    }
    uint32_t bits = 0;
    std::memcpy(
        elem == ElemType::bf16 ? reinterpret_cast<uint8_t*>(&bits) + 2 : reinterpret_cast<uint8_t*>(&bits),
        at, elem == ElemType::bf16 ? 2 : 4);
    if (elem == ElemType::i32) return static_cast<int32_t>(bits);
    float value = 0;
    std::memcpy(&value, &bits, 4);
    return static_cast<double>(value);
}

void write(ElemType elem, double value, uint8_t* at) {
    if (elem == ElemType::i8) {
        *at = static_cast<uint8_t>(static_cast<int8_t>(std::clamp(std::nearbyint(value), -128.0, 127.0)));
    } else if (elem == ElemType::i32) {
        const auto integer = static_cast<int32_t>(value);
        std::memcpy(at, &integer, 4);
    } else if (elem == ElemType::f16) {
        const uint16_t bits = half_bits(value);
        std::memcpy(at, &bits, 2);
    } else if (elem == ElemType::bf16) {
        const uint32_t bits = float_bits(rounded(value, 8, -126));
        std::memcpy(at, reinterpret_cast<const uint8_t*>(&bits) + 2, 2);
    } else {
        const uint32_t bits = float_bits(value);
        std::memcpy(at, &bits, 4);
    }
}

uint64_t bytes_of(ElemType elem) { return static_cast<uint64_t>(bit_width(elem)) / 8; }

}  // namespace

Machine::Machine(const Header& header, uint64_t arena_bytes) : header_(header), arena_(arena_bytes) {
    for (const Tensor& tensor : header_.tensors) {
        const uint64_t tile = header_.format.tile;
        Storage& storage = tensors_[tensor.id];
        storage.tensor = &tensor;
        storage.cols = (tensor.cols + tile - 1) / tile * tile;
        storage.bytes.resize((tensor.rows + tile - 1) / tile * tile * storage.cols * bytes_of(tensor.elem));
    }
}

void Machine::set(const std::string& name, const std::string& dense) {
    for (auto& [id, storage] : tensors_) {
        if (storage.tensor->name != name) continue;
        const uint64_t size = bytes_of(storage.tensor->elem), line = storage.tensor->cols * size;
        for (uint64_t r = 0; r < storage.tensor->rows; ++r)
            std::memcpy(storage.bytes.data() + r * storage.cols * size, dense.data() + r * line, line);
    }
}

std::string Machine::get(const std::string& name) const {
    std::string dense;
    for (const auto& [id, storage] : tensors_) {
        if (storage.tensor->name != name) continue;
        const uint64_t size = bytes_of(storage.tensor->elem);
        for (uint64_t r = 0; r < storage.tensor->rows; ++r)
            dense.append(reinterpret_cast<const char*>(storage.bytes.data()) + r * storage.cols * size,
                         storage.tensor->cols * size);
    }
    return dense;
}

void Machine::run(const std::vector<Op>& ops) {
    std::fill(arena_.begin(), arena_.end(), 0);
    scales_.clear();
    for (const Op& op : ops) std::visit([this](const auto& kind) { run_op(kind); }, op);
}

uint8_t* Machine::tile_row(uint32_t id, uint32_t row, uint32_t col, uint32_t line) {
    Storage& storage = tensors_.at(id);
    const uint64_t tile = header_.format.tile;
    return storage.bytes.data() +
           ((row * tile + line) * storage.cols + col * tile) * bytes_of(storage.tensor->elem);
}

void Machine::run_op(const Load& op) {
    const uint64_t line = header_.format.tile * bytes_of(header_.format.elem);
    for (uint32_t i = 0; i < header_.format.tile; ++i)
        std::memcpy(arena_.data() + op.dst_addr + i * line,
                    tile_row(op.tensor_id, op.tile_row, op.tile_col, i), line);
    const double scale = tensors_.at(op.tensor_id).tensor->scale;
    scales_[op.dst_addr] = scale == 0 ? 1 : scale;
}

void Machine::run_op(const Execute& op) {
    const Format& format = header_.format;
    const uint32_t n = format.tile;
    const uint64_t size = bytes_of(format.elem);
    uint8_t* acc = arena_.data() + op.acc_addr;
    if (op.k == 0) std::memset(acc, 0, format.acc_bytes());
    for (uint32_t i = 0; i < n; ++i) {
        for (uint32_t j = 0; j < n; ++j) {
            uint8_t* at = acc + (uint64_t{i} * n + j) * 4;
            double sum = read(format.acc_elem(), at);
            for (uint32_t k = 0; k < n; ++k) {
                const double a = read(format.elem, arena_.data() + op.a_addr + (uint64_t{i} * n + k) * size);
                const double b = read(format.elem, arena_.data() + op.b_addr + (uint64_t{k} * n + j) * size);
                // f32: one fused multiply-add, rounded once; i32: exact here, far from 2^31
                sum = format.elem == ElemType::i8
                          ? sum + a * b
                          : static_cast<double>(std::fma(static_cast<float>(a), static_cast<float>(b),
                                                         static_cast<float>(sum)));
            }
            write(format.acc_elem(), sum, at);
        }
    }
    scales_[op.acc_addr] = scales_[op.a_addr] * scales_[op.b_addr];
}

void Machine::run_op(const Store& op) {
    const Tensor& tensor = *tensors_.at(op.tensor_id).tensor;
    const Format& format = header_.format;
    for (uint32_t i = 0; i < format.tile; ++i) {
        uint8_t* to = tile_row(op.tensor_id, op.tile_row, op.tile_col, i);
        for (uint32_t j = 0; j < format.tile; ++j) {
            uint8_t* at = arena_.data() + op.src_addr + (uint64_t{i} * format.tile + j) * 4;
            double value = read(format.acc_elem(), at);
            if (op.activation == Activation::relu) value = value > 0 || std::isnan(value) ? value : 0;
            write(format.acc_elem(), value, at);
            if (tensor.elem == ElemType::i8) value = value * (scales_[op.src_addr] / tensor.scale);
            write(tensor.elem, value, to + j * bytes_of(tensor.elem));
        }
    }
}

std::string random_data(ElemType elem, uint64_t count, SplitMix64& random) {
    std::string data(count * bytes_of(elem), '\0');
    auto* at = reinterpret_cast<uint8_t*>(data.data());
    for (uint64_t i = 0; i < count; ++i, at += bytes_of(elem)) {
        const bool integer = elem == ElemType::i8 || elem == ElemType::i32;
        const double value = integer ? static_cast<double>(random.next() % 256) - 128
                                     : std::ldexp(static_cast<double>(random.next() >> 11), -52) - 1;
        write(elem, value, at);
    }
    return data;
}

namespace {

/// A slot of the arena by the rules of the format.
struct Slot {
    uint64_t begin = 0, end = 0;
    bool sum = false, unstored = false;
    double scale = 1;
    bool overlaps(uint64_t b, uint64_t e) const { return begin < e && b < end; }
};

class Generator {
  public:
    explicit Generator(uint64_t seed) : random_(seed) {}

    RandomSchedule make() {
        make_header();
        const uint64_t count = 4 + pick(100);
        for (uint64_t i = 0; i < count; ++i) {
            const uint64_t choice = pick(10);
            if (choice < 4 || slots_.empty()) {
                load();
            } else if (choice < 8) {
                execute();
            } else {
                store();
            }
        }
        if (pick(2) == 0) {
            for (Slot& slot : slots_) {
                if (slot.unstored) store_from(slot);
            }
        }
        return std::move(result_);
    }

  private:
    uint64_t pick(uint64_t count) { return random_.next() % count; }
    Format& format() { return result_.schedule.header.format; }
    std::vector<Op>& ops() { return result_.schedule.ops; }

    void make_header() {
        constexpr uint32_t tiles[] = {1, 2, 4, 5, 8, 16};
        constexpr ElemType elems[] = {ElemType::f32, ElemType::f16, ElemType::bf16, ElemType::i8};
        format().tile = tiles[pick(6)];
        format().elem = elems[pick(4)];
        if (pick(5) == 0) format().arena = Level::l2;
        result_.schedule.has_header = true;
        result_.schedule.origin = "random";
        result_.arena_bytes = (3 + pick(12)) * ((format().acc_bytes() + 63) / 64 * 64);
        const uint64_t count = 2 + pick(4);
        for (uint32_t id = 0; id < count; ++id)
            add_tensor(id, id == 0 ? Role::input : id == 1 ? Role::output : random_role());
    }

    Role random_role() {
        constexpr Role roles[] = {Role::input, Role::weight, Role::intermediate, Role::output};
        return roles[pick(4)];
    }

    void add_tensor(uint32_t id, Role role) {
        Tensor tensor;
        tensor.id = id;
        tensor.name = "t." + std::to_string(id);
        tensor.rows = static_cast<uint32_t>(1 + pick(3 * format().tile));
        tensor.cols = static_cast<uint32_t>(1 + pick(3 * format().tile));
        tensor.role = role;
        tensor.elem = format().elem;
        const bool source = role == Role::input || role == Role::weight;
        if (!source && format().elem == ElemType::i8 && pick(2) == 0) tensor.elem = ElemType::i32;
        if (!source && format().elem != ElemType::i8 && pick(2) == 0) {
            constexpr ElemType floats[] = {ElemType::f32, ElemType::f16, ElemType::bf16};
            tensor.elem = floats[pick(3)];
        }
        if (tensor.elem == ElemType::i8 && (!source || pick(2) == 0))
            tensor.scale = std::ldexp(3, -static_cast<int>(pick(6)));
        if (source) {
            result_.inputs[tensor.name] =
                random_data(tensor.elem, uint64_t{tensor.rows} * tensor.cols, random_);
            for (uint32_t r = 0; r < tensor.tile_rows(format().tile); ++r) {
                for (uint32_t c = 0; c < tensor.tile_cols(format().tile); ++c)
                    loadable_.push_back({id, r, c});
            }
        }
        result_.schedule.header.tensors.push_back(tensor);
    }

    uint64_t address(uint64_t bytes) { return pick((result_.arena_bytes - bytes) / 64 + 1) * 64; }

    bool hits_unstored(uint64_t begin, uint64_t end) const {
        return std::any_of(slots_.begin(), slots_.end(),
                           [&](const Slot& slot) { return slot.unstored && slot.overlaps(begin, end); });
    }
    bool hits_any(uint64_t begin, uint64_t end) const {
        return std::any_of(touched_.begin(), touched_.end(),
                           [&](const auto& range) { return range.first < end && begin < range.second; });
    }

    void put(Slot slot) {
        slots_.erase(std::remove_if(slots_.begin(), slots_.end(),
                                    [&](const Slot& old) { return old.overlaps(slot.begin, slot.end); }),
                     slots_.end());
        touched_.emplace_back(slot.begin, slot.end);
        slots_.push_back(slot);
    }

    struct TileName {
        uint32_t id, row, col;
    };

    void load() {
        const TileName tile = loadable_[pick(loadable_.size())];
        const uint64_t bytes = format().operand_bytes(), begin = address(bytes);
        if (hits_unstored(begin, begin + bytes)) return;
        ops().push_back(Load{tile.id, tile.row, tile.col, static_cast<uint32_t>(begin),
                             static_cast<uint32_t>(bytes), static_cast<int32_t>(pick(3)) - 1});
        const double scale = result_.schedule.header.find(tile.id)->scale;
        put({begin, begin + bytes, false, false, scale == 0 ? 1 : scale});
    }

    Slot* any_operand() {
        std::vector<Slot*> found;
        for (Slot& slot : slots_) {
            if (!slot.sum || format().elem == ElemType::f32) found.push_back(&slot);
        }
        return found.empty() ? nullptr : found[pick(found.size())];
    }

    void execute() {
        Slot *a = any_operand(), *b = any_operand();
        if (a == nullptr || b == nullptr) return;
        const uint64_t bytes = format().acc_bytes();
        uint64_t begin = address(bytes);
        auto k = static_cast<uint32_t>(pick(4));
        Slot* onto = nullptr;
        if (pick(2) == 0) {
            Slot& candidate = slots_[pick(slots_.size())];
            if (candidate.sum || format().elem == ElemType::f32) {
                onto = &candidate;
                begin = candidate.begin;
                k = static_cast<uint32_t>(1 + pick(5));
            }
        }
        const double scale = a->scale * b->scale;
        if (a->overlaps(begin, begin + bytes) || b->overlaps(begin, begin + bytes)) return;
        if (onto != nullptr && onto->sum && onto->scale != scale) return;
        if (onto == nullptr && k == 0 && hits_unstored(begin, begin + bytes)) return;
        if (onto == nullptr && k != 0 && hits_any(begin, begin + bytes)) return;
        a->unstored = b->unstored = false;  // what is read was not lost
        ops().push_back(Execute{static_cast<uint32_t>(pick(9)), static_cast<uint32_t>(pick(9)), k,
                                static_cast<uint32_t>(a->begin), static_cast<uint32_t>(b->begin),
                                static_cast<uint32_t>(begin), -1});
        put({begin, begin + bytes, true, true, scale});
    }

    void store() {
        std::vector<Slot*> found;
        for (Slot& slot : slots_) {
            if (slot.sum || format().elem == ElemType::f32) found.push_back(&slot);
        }
        if (!found.empty()) store_from(*found[pick(found.size())]);
    }

    void store_from(Slot& slot) {
        std::vector<const Tensor*> targets;
        for (const Tensor& tensor : result_.schedule.header.tensors) {
            if (tensor.role == Role::output || tensor.role == Role::intermediate) targets.push_back(&tensor);
        }
        const Tensor& tensor = *targets[pick(targets.size())];
        const auto row = static_cast<uint32_t>(pick(tensor.tile_rows(format().tile)));
        const auto col = static_cast<uint32_t>(pick(tensor.tile_cols(format().tile)));
        ops().push_back(Store{tensor.id, row, col, static_cast<uint32_t>(slot.begin), format().acc_bytes(),
                              pick(2) == 0 ? Activation::relu : Activation::none, -1});
        slot.unstored = false;
        if (tensor.elem == format().elem) loadable_.push_back({tensor.id, row, col});
    }

    SplitMix64 random_;
    RandomSchedule result_;
    std::vector<Slot> slots_;
    std::vector<std::pair<uint64_t, uint64_t>> touched_;
    std::vector<TileName> loadable_;
};

}  // namespace

RandomSchedule random_schedule(uint64_t seed) { return Generator(seed).make(); }

Schedule make_illegal(const RandomSchedule& legal, SplitMix64& random, FaultKind& expected, uint32_t& op) {
    Schedule schedule = legal.schedule;
    const Format& format = schedule.header.format;
    op = static_cast<uint32_t>(random.next() % schedule.ops.size());
    Op& changed = schedule.ops[op];
    const auto outside = static_cast<uint32_t>(legal.arena_bytes / 64 * 64);
    if (auto* execute = std::get_if<Execute>(&changed)) {
        uint32_t* const addresses[] = {&execute->a_addr, &execute->b_addr, &execute->acc_addr};
        uint32_t& address = *addresses[random.next() % 3];
        switch (random.next() % 4) {
            case 0:
                address += 4;
                expected = FaultKind::unaligned;
                break;
            case 1:
                address = outside;
                expected = FaultKind::outside_arena;
                break;
            case 2:
                execute->acc_addr = execute->a_addr;
                expected = uint64_t{execute->acc_addr} + format.acc_bytes() > legal.arena_bytes
                               ? FaultKind::outside_arena
                               : FaultKind::overlap;
                break;
            default: {
                Execute again = *execute;  // the sum that it left is there, and nobody stored it
                again.k = 0;
                schedule.ops.insert(schedule.ops.begin() + op + 1, again);
                ++op;
                expected = FaultKind::unstored_sum;
            }
        }
        return schedule;
    }
    auto* load = std::get_if<Load>(&changed);
    auto* store = std::get_if<Store>(&changed);
    uint32_t& id = load != nullptr ? load->tensor_id : store->tensor_id;
    uint32_t& row = load != nullptr ? load->tile_row : store->tile_row;
    uint32_t& address = load != nullptr ? load->dst_addr : store->src_addr;
    uint32_t& bytes = load != nullptr ? load->bytes : store->bytes;
    switch (random.next() % 6) {
        case 0:
            id = 1000;
            expected = FaultKind::unknown_tensor;
            break;
        case 1:
            row = 1u << 30;
            expected = FaultKind::tile_outside;
            break;
        case 2:
            bytes += 4;
            expected = FaultKind::wrong_bytes;
            break;
        case 3:
            address += 4;
            expected = FaultKind::unaligned;
            break;
        case 4:
            address = outside;
            expected = FaultKind::outside_arena;
            break;
        default:
            schedule.ops.insert(schedule.ops.begin(),
                                Execute{0, 0, 0, 0, 0, format.acc_bytes() > 2048 ? 4096u : 2048u, -1});
            op = 0;
            expected = FaultKind::never_loaded;
    }
    return schedule;
}

}  // namespace kpu::tile_schedule::plain
