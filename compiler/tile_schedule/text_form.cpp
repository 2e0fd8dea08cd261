// Form (a): one op a line, after the lines of a header or beside a header of its own.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_set>

#include "base/append_format.hpp"
#include "base/text.hpp"
#include "compiler/tile_schedule/form_parts.hpp"

namespace kpu::tile_schedule {
namespace {

using Words = std::vector<std::string_view>;

constexpr size_t most_errors = 20;  ///< limit of one file: the rest mostly follow from the first

Words words_of(std::string_view line) {
    line = line.substr(0, line.find('#'));
    Words words;
    for (;;) {
        const size_t first = line.find_first_not_of(" \t\r");
        if (first == std::string_view::npos) return words;
        line.remove_prefix(first);
        const size_t end = std::min(line.find_first_of(" \t\r"), line.size());
        words.push_back(line.substr(0, end));
        line.remove_prefix(end);
    }
}

template <class T>
bool parse_whole(std::string_view text, T& value) {
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    return failed == std::errc() && end == text.data() + text.size();
}

bool is_op_word(std::string_view word) { return word == "L" || word == "E" || word == "S"; }

class Reader {
  public:
    explicit Reader(Schedule& schedule) : schedule_(schedule), builder_(schedule.header) {}

    void read(std::string_view text) {
        if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
        while (!text.empty() && diagnostics_.error_count() < most_errors) {
            ++line_;
            const Words words = words_of(take_line(text));
            if (words.empty()) continue;
            if (is_op_word(words[0])) {
                read_op(words);
            } else {
                read_header_line(words);
            }
        }
        finish();
    }

  private:
    void error(std::string message) { diagnostics_.error({schedule_.origin, line_, 1}, std::move(message)); }

    void finish() {
        schedule_.has_header = has_tile_ || has_tensor_ || has_arena_;
        if (schedule_.has_header && !has_tile_ && !diagnostics_.has_errors()) {
            line_ = 0;
            error("the header has no line for tile size and type. Fix: begin it with `tile 32 f32`.");
        }
        if (diagnostics_.has_errors()) throw UserError(diagnostics_);
        builder_.sort();
    }

    bool number(const Words& words, size_t index, std::string_view name, uint32_t& value) {
        if (parse_whole(words[index], value)) return true;
        error(fmt::format("{} is `{}`. Fix: give a whole number from 0 to 4294967295.", name, words[index]));
        return false;
    }

    /// The trailing words of an op: buffer=N, bytes=N.
    bool options(const Words& words, size_t first, int32_t& buffer, uint32_t* bytes) {
        for (size_t i = first; i < words.size(); ++i) {
            const std::string_view word = words[i];
            const bool good =
                starts_with(word, "buffer=") ? parse_whole(word.substr(7), buffer) && buffer >= -1
                : bytes != nullptr && starts_with(word, "bytes=") ? parse_whole(word.substr(6), *bytes)
                                                                  : false;
            if (good) continue;
            error(
                fmt::format("`{}` is not a word of this op. Fix: after its numbers stand{} buffer=N at most.",
                            word, bytes != nullptr ? " bytes=N and" : ""));
            return false;
        }
        return true;
    }

    bool numbers(const Words& words, std::string_view form, std::initializer_list<std::string_view> names,
                 std::initializer_list<uint32_t*> values) {
        if (words.size() < names.size() + 1) {
            error(fmt::format("an op of {} words. Fix: write it as `{}`.", words.size(), form));
            return false;
        }
        const auto* name = names.begin();
        size_t index = 1;
        for (uint32_t* value : values) {
            if (!number(words, index++, *name++, *value)) return false;
        }
        return true;
    }

    void read_op(const Words& words) {
        Op op;
        bool good = false;
        const Format& format = schedule_.header.format;
        if (words[0] == "L") {
            Load load;
            good = numbers(words, "L tensor row col dst", {"tensor", "row", "col", "dst"},
                           {&load.tensor_id, &load.tile_row, &load.tile_col, &load.dst_addr});
            load.bytes = has_tile_ ? format.operand_bytes() : 0;
            good = good && options(words, 5, load.buffer, &load.bytes);
            op = load;
        } else if (words[0] == "E") {
            Execute execute;
            good = numbers(
                words, "E m n k a b acc", {"m", "n", "k", "a", "b", "acc"},
                {&execute.m, &execute.n, &execute.k, &execute.a_addr, &execute.b_addr, &execute.acc_addr});
            good = good && options(words, 7, execute.buffer, nullptr);
            op = execute;
        } else {
            Store store;
            uint32_t relu = 0;
            good = numbers(words, "S tensor row col src relu", {"tensor", "row", "col", "src", "relu"},
                           {&store.tensor_id, &store.tile_row, &store.tile_col, &store.src_addr, &relu});
            if (good && relu > 1) {
                error(fmt::format("relu is {}. Fix: give 0 or 1.", relu));
                good = false;
            }
            store.activation = relu == 1 ? Activation::relu : Activation::none;
            store.bytes = has_tile_ ? format.acc_bytes() : 0;
            good = good && options(words, 6, store.buffer, &store.bytes);
            op = store;
        }
        if (!good) return;
        schedule_.ops.push_back(op);
        schedule_.lines.push_back(line_);
    }

    void read_header_line(const Words& words) {
        if (words[0] != "tile" && words[0] != "arena" && words[0] != "tensor") {
            return error(
                fmt::format("`{}` begins no line of a schedule. Fix: ops begin with L, E or S, lines of the "
                            "header with tile, arena or tensor, comments with #.",
                            words[0].substr(0, 40)));
        }
        if (!schedule_.ops.empty())
            return error("a line of the header after an op. Fix: put the header first.");
        if (words[0] == "tile") return read_tile(words);
        if (words[0] == "arena") return read_arena(words);
        read_tensor(words);
    }

    void read_tile(const Words& words) {
        if (has_tile_) return error("a second `tile` line. Fix: leave one.");
        uint32_t tile = 0;
        if (words.size() != 3) return error("Fix: write the line as `tile 32 f32`: size and type of a tile.");
        if (has_tensor_) return error("the `tile` line stands after a tensor. Fix: put it first.");
        if (!number(words, 1, "the tile size", tile)) return;
        const auto elem = parse_elem_type(words[2]);
        if (!elem)
            return error(fmt::format("`{}` is not an element type. Fix: f32, f16, bf16 or i8.", words[2]));
        if (const std::string why = builder_.set_tile(tile, *elem); !why.empty()) return error(why);
        has_tile_ = true;
    }

    /// Reads `arena l1`, `arena l2 65536`, `arena = l2`.
    void read_arena(Words words) {
        if (has_arena_) return error("a second `arena` line. Fix: leave one.");
        if (words.size() > 1 && words[1] == "=") words.erase(words.begin() + 1);
        uint64_t bytes = 0;
        if (words.size() < 2 || words.size() > 3 || (words[1] != "l1" && words[1] != "l2") ||
            (words.size() == 3 && (!parse_whole(words[2], bytes) || bytes == 0)))
            return error(
                "Fix: write the line as `arena l1` or `arena l2`, and its bytes if it has not all of it.");
        schedule_.header.format.arena = words[1] == "l1" ? Level::l1 : Level::l2;
        schedule_.header.format.arena_bytes = bytes;
        has_arena_ = true;
    }

    void read_tensor(const Words& words) {
        if (!has_tile_)
            return error("a tensor before the `tile` line. Fix: begin the header with `tile 32 f32`.");
        if (words.size() < 6 || words.size() > 8)
            return error(
                fmt::format("a tensor of {} words. Fix: write it as `tensor ID NAME ROWS COLS "
                            "input|weight|intermediate|output`, then its type and scale=S if it has them.",
                            words.size()));
        Tensor tensor;
        tensor.name = words[2];
        tensor.elem = schedule_.header.format.elem;
        if (!number(words, 1, "the tensor's id", tensor.id) || !number(words, 3, "rows", tensor.rows) ||
            !number(words, 4, "columns", tensor.cols))
            return;
        const auto role = parse_role(words[5]);
        if (!role)
            return error(
                fmt::format("`{}` is not a role. Fix: input, weight, intermediate or output.", words[5]));
        tensor.role = *role;
        if (words.size() > 6) {
            const auto elem = parse_elem_type(words[6]);
            if (!elem) return error(fmt::format("`{}` is not an element type.", words[6]));
            tensor.elem = *elem;
        }
        if (words.size() > 7) {
            if (!starts_with(words[7], "scale=") || !parse_scale(words[7].substr(6), tensor.scale))
                return error(fmt::format("`{}` is not a scale. Fix: write scale=0.05.", words[7]));
        }
        if (const std::string why = builder_.add(std::move(tensor)); !why.empty()) return error(why);
        has_tensor_ = true;
    }

    static bool parse_scale(std::string_view text, double& value) {
        return parse_whole(text, value) && std::isfinite(value) && value > 0;
    }

    Schedule& schedule_;
    HeaderBuilder builder_;
    Diagnostics diagnostics_;
    uint32_t line_ = 0;
    bool has_tile_ = false, has_tensor_ = false, has_arena_ = false;
};

std::string suffix(int32_t buffer) { return buffer == -1 ? "" : fmt::format(" buffer={}", buffer); }
std::string size_suffix(uint32_t bytes, uint32_t tile_bytes) {
    return bytes == tile_bytes ? "" : fmt::format(" bytes={}", bytes);
}

void append_line(std::string& text, const Op& op, uint32_t operand_bytes, uint32_t acc_bytes) {
    if (const auto* load = std::get_if<Load>(&op)) {
        append_format(text, "L {} {} {} {}{}{}\n", load->tensor_id, load->tile_row, load->tile_col,
                      load->dst_addr, size_suffix(load->bytes, operand_bytes), suffix(load->buffer));
    } else if (const auto* execute = std::get_if<Execute>(&op)) {
        append_format(text, "E {} {} {} {} {} {}{}\n", execute->m, execute->n, execute->k, execute->a_addr,
                      execute->b_addr, execute->acc_addr, suffix(execute->buffer));
    } else {
        const auto& store = std::get<Store>(op);
        append_format(text, "S {} {} {} {} {}{}{}\n", store.tensor_id, store.tile_row, store.tile_col,
                      store.src_addr, store.activation == Activation::relu ? 1 : 0,
                      size_suffix(store.bytes, acc_bytes), suffix(store.buffer));
    }
}

}  // namespace

bool is_text(std::string_view bytes) {
    if (bytes.substr(0, 3) == "\xEF\xBB\xBF") bytes.remove_prefix(3);
    while (!bytes.empty()) {
        const Words words = words_of(take_line(bytes));
        if (words.empty()) continue;
        if (words.size() < 2) return false;
        const bool counts = words[1].find_first_not_of("0123456789") == std::string_view::npos;
        return ((is_op_word(words[0]) || words[0] == "tile" || words[0] == "tensor") && counts) ||
               (words[0] == "arena" && (words[1] == "l1" || words[1] == "l2" || words[1] == "="));
    }
    return false;
}

void read_text(std::string_view text, Schedule& schedule) { Reader(schedule).read(text); }

std::string write_text(const Schedule& schedule) {
    std::string text = schedule.has_header ? header_text(schedule.header) : "";
    // without a header the size of a tile is not known: 0 stands for it
    const uint32_t operand_bytes = schedule.has_header ? schedule.header.format.operand_bytes() : 0;
    const uint32_t acc_bytes = schedule.has_header ? schedule.header.format.acc_bytes() : 0;
    for (const Op& op : schedule.ops) append_line(text, op, operand_bytes, acc_bytes);
    return text;
}

std::string header_text(const Header& header) {
    const Format& format = header.format;
    std::string text = fmt::format("tile {} {}\n", format.tile, name_of(format.elem));
    if (format.arena != Level::l1 || format.arena_bytes != 0) {
        text += fmt::format("arena {}", format.arena == Level::l1 ? "l1" : "l2");
        text += format.arena_bytes != 0 ? fmt::format(" {}\n", format.arena_bytes) : "\n";
    }
    for (const Tensor& tensor : header.tensors) {
        text += fmt::format("tensor {} {} {} {} {}", tensor.id, tensor.name, tensor.rows, tensor.cols,
                            name_of(tensor.role));
        if (tensor.elem != format.elem || tensor.scale != 0) text += fmt::format(" {}", name_of(tensor.elem));
        if (tensor.scale != 0) text += fmt::format(" scale={}", tensor.scale);
        text += '\n';
    }
    return text;
}

}  // namespace kpu::tile_schedule
