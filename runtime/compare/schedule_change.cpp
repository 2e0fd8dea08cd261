#include "runtime/compare/schedule_change.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "base/text.hpp"
#include "runtime/compare/operations.hpp"

namespace kpu::compare {
namespace {

using Kind = ScheduleChange::Kind;
using Names = std::set<std::string>;

std::string joined(const Names& names) { return fmt::format("{}", fmt::join(names, ", ")); }

/// Returns the names in `x` that `y` lacks.
Names without(const Names& x, const Names& y) {
    Names left;
    std::set_difference(x.begin(), x.end(), y.begin(), y.end(), std::inserter(left, left.end()));
    return left;
}

/// A program's tasks in the order of its text.
class Schedule {
  public:
    struct Task {
        uint32_t statement = 0;
        const BoundTask* bound = nullptr;
        std::string name;                        ///< name of its token; empty: it has none
        std::vector<uint32_t> waits = {};        ///< statements of the tokens that are waited for before it
        std::vector<uint32_t> waits_after = {};  ///< waits after the last task
    };

    explicit Schedule(const ScheduleSide& side)
        : program_(side.program), task_of_(program_.statements.size()) {
        read_lines(side.text);
        std::vector<uint32_t> waits;
        for (uint32_t s = 0; s < program_.statements.size(); ++s) {
            const BoundStatement& statement = program_.statements[s];
            if (statement.kind == BoundStatement::Kind::wait) {
                const auto& tokens = program_.waits[statement.index];
                waits.insert(waits.end(), tokens.begin(), tokens.end());
            }
            const proto::Statement& source = program_.module->program.statement(static_cast<int>(s));
            if (source.kind_case() == proto::Statement::kLetRegion) let_of_[source.let_region()] = s;
            if (statement.kind != BoundStatement::Kind::task) continue;
            task_of_[s] = tasks_.size();
            tasks_.push_back({s, &program_.tasks[statement.index], source.task().name(), std::move(waits)});
            waits.clear();
        }
        if (!tasks_.empty()) tasks_.back().waits_after = std::move(waits);
    }

    const std::vector<Task>& tasks() const { return tasks_; }
    size_t task_at(uint32_t statement) const { return task_of_[statement].value(); }
    const std::string& op_id(size_t task) const { return program_.ops[tasks_[task].bound->op].id; }
    std::vector<Operation> operations() const {
        std::vector<Operation> operations;
        for (const BoundOp& op : program_.ops) operations.push_back({op.id, {}});
        if (!program_.carries_places) return operations;
        for (const Task& task : tasks_) {  // the place of an operation is that of its first task
            std::string& place = operations[task.bound->op].place;
            const SourcePos pos = program_.pos_of(task.statement);
            if (place.empty() && pos.line != 0) place = fmt::format("{}:{}", pos.file, pos.line);
        }
        return operations;
    }
    /// Returns the line of a statement in the text; 0: unknown.
    uint32_t line(uint32_t statement) const {
        return statement < lines_.size() ? lines_[statement].number : 0;
    }
    std::string text_of(size_t task) const { return text_at(tasks_[task].statement); }
    /// Declarations of the named regions that a task touches, results last.
    std::vector<std::string> regions(size_t task) const {
        std::vector<std::string> texts;
        for (const auto* list : {&tasks_[task].bound->inputs, &tasks_[task].bound->outputs}) {
            for (const uint32_t region : *list) {
                const auto let = let_of_.find(region);
                if (let != let_of_.end()) texts.push_back(text_at(let->second));
            }
        }
        return texts;
    }
    /// Loops around a task, the innermost last.
    std::vector<uint32_t> loops(size_t task) const {
        std::vector<uint32_t> around;
        for (int32_t s = program_.statements[tasks_[task].statement].parent; s >= 0;
             s = program_.statements[static_cast<size_t>(s)].parent)
            around.insert(around.begin(), static_cast<uint32_t>(s));
        return around;
    }
    const BoundLoop& loop(uint32_t statement) const {
        return program_.loops[program_.statements[statement].index];
    }
    /// Returns "k in [0..7]", of constant bounds; else the line of the loop has them.
    std::string range(uint32_t statement) const {
        const BoundLoop& bound = loop(statement);
        if (bound.first.is_constant() && bound.last.is_constant())
            return fmt::format("{} in [{}..{}]", bound.variable, bound.first.constant, bound.last.constant);
        const std::string text = text_at(statement);
        return text.substr(0, text.find(']') + 1);
    }

  private:
    struct Line {
        uint32_t number = 0;
        std::string_view text;
    };

    /// The canonical text has a line for each statement, in their order; what is indented further than its block goes on
    /// with the line before. Places of statements do not tell lines: they may be those of another compiler's source.
    void read_lines(std::string_view text) {
        bool in_program = false, in_statement = false;
        size_t indent = 0;
        for (uint32_t number = 1; !text.empty(); ++number) {
            const size_t end = std::min(text.find('\n'), text.size());
            const std::string_view raw = text.substr(0, end), line = trimmed(raw);
            text.remove_prefix(std::min(end + 1, text.size()));
            if (line == "endloop") indent -= std::min(indent, indent_step);
            if (raw.find_first_not_of(' ') > indent && !line.empty() && line[0] != '#') {
                if (in_statement) extend(lines_.back().text, raw);
                continue;
            }
            in_statement = in_program && is_statement(line);
            if (in_statement) lines_.push_back({number, line});
            if (in_statement && starts_with(line, "loop ")) indent += indent_step;
            in_program = in_program || starts_with(line, "program ");
        }
        if (lines_.size() != program_.statements.size()) lines_.clear();  // not canonical: unknown
    }
    static bool is_statement(std::string_view line) {
        return !line.empty() && line[0] != '#' && line != "endloop" && !starts_with(line, "buffer ") &&
               !starts_with(line, "const ");
    }
    /// Extends `text` to the end of a part further on in the same text.
    static void extend(std::string_view& text, std::string_view part) {
        text = {text.data(), static_cast<size_t>(part.data() + part.size() - text.data())};
    }
    std::string text_at(uint32_t statement) const {
        std::string text;
        for (std::string_view rest = statement < lines_.size() ? lines_[statement].text : std::string_view();
             !rest.empty();)
            text += fmt::format("{}{}", text.empty() ? "" : " ", take_line(rest));
        return text;
    }

    static constexpr size_t indent_step = 4;
    const BoundProgram& program_;
    std::vector<std::optional<size_t>> task_of_;     ///< indexed by statement
    std::unordered_map<uint32_t, uint32_t> let_of_;  ///< statement that declares a region
    std::vector<Line> lines_;                        ///< indexed by statement; empty: unknown
    std::vector<Task> tasks_;
};

/// Comparison of two schedules, and which of their tasks are the same.
class Comparison {
  public:
    Comparison(const ScheduleSide& a, const ScheduleSide& b) : a_(a), b_(b) {
        in_b_.resize(a_.tasks().size());
        in_a_.resize(b_.tasks().size());
        match_by_name();
        match_the_rest();
        find_moved();
    }

    std::vector<ScheduleChange> changes() {
        for (size_t i = 0; i < in_b_.size(); ++i) {
            if (in_b_[i])
                compare(i, *in_b_[i]);
            else
                add(Kind::missing, i, std::nullopt, a_.text_of(i), "");
        }
        for (size_t j = 0; j < in_a_.size(); ++j)
            if (!in_a_[j]) add(Kind::missing, std::nullopt, j, "", b_.text_of(j));
        return std::move(changes_);
    }

  private:
    void pair(size_t i, size_t j) {
        in_b_[i] = j;
        in_a_[j] = i;
    }

    /// Names are those of tokens, which a block may give again: the n-th of a name is the n-th.
    static std::map<std::pair<std::string, size_t>, size_t> by_name(const Schedule& schedule) {
        std::map<std::string, size_t> count;
        std::map<std::pair<std::string, size_t>, size_t> tasks;
        for (size_t i = 0; i < schedule.tasks().size(); ++i) {
            const std::string& name = schedule.tasks()[i].name;
            if (!name.empty()) tasks.emplace(std::make_pair(name, count[name]++), i);
        }
        return tasks;
    }

    void match_by_name() {
        const auto other = by_name(b_);
        for (const auto& [name, i] : by_name(a_))
            if (const auto found = other.find(name); found != other.end()) pair(i, found->second);
    }

    /// Matches the rest: within an operation, or outside of those that both have, the n-th task with an
    /// opcode is the n-th.
    void match_the_rest() {
        using Group = std::tuple<size_t, std::string_view, size_t>;
        const size_t none = SIZE_MAX;
        std::map<std::string, size_t> group_a, group_b;  // by id of the operation
        const std::vector<Operation> ops_a = a_.operations(), ops_b = b_.operations();
        for (const OperationPair& pair : match_operations(ops_a, ops_b)) {
            if (!pair.a || !pair.b) continue;
            group_a.emplace(ops_a[*pair.a].id, *pair.a);
            group_b.emplace(ops_b[*pair.b].id, *pair.a);
        }
        const auto left = [none](const Schedule& schedule, const auto& partner, const auto& groups) {
            std::map<std::pair<size_t, std::string_view>, size_t> count;
            std::map<Group, size_t> tasks;
            for (size_t i = 0; i < partner.size(); ++i) {
                if (partner[i]) continue;
                const auto group = groups.find(schedule.op_id(i));
                const std::pair key(group == groups.end() ? none : group->second,
                                    operation_of(*schedule.tasks()[i].bound));
                tasks.emplace(Group(key.first, key.second, count[key]++), i);
            }
            return tasks;
        };
        const auto other = left(b_, in_a_, group_b);
        for (const auto& [group, i] : left(a_, in_b_, group_a))
            if (const auto found = other.find(group); found != other.end()) pair(i, found->second);
    }

    /// Finds tasks outside of a longest run of A's tasks that B has in the same order.
    void find_moved() {
        moved_.assign(in_b_.size(), false);
        std::vector<size_t> tails,
            before(in_b_.size(), SIZE_MAX);  // tails: task that ends a run of that length
        for (size_t i = 0; i < in_b_.size(); ++i) {
            if (!in_b_[i]) continue;
            const auto at = std::lower_bound(tails.begin(), tails.end(), *in_b_[i],
                                             [&](size_t task, size_t place) { return *in_b_[task] < place; });
            if (at != tails.begin()) before[i] = *(at - 1);
            if (at == tails.end())
                tails.push_back(i);
            else
                *at = i;
            moved_[i] = true;
        }
        for (size_t i = tails.empty() ? SIZE_MAX : tails.back(); i != SIZE_MAX; i = before[i])
            moved_[i] = false;
    }

    /// Returns a task by the name that it has in A.
    std::string label(const Schedule& schedule, size_t task) const {
        if (&schedule == &b_ && in_a_[task]) return label(a_, *in_a_[task]);
        const Schedule::Task& row = schedule.tasks()[task];
        return row.name.empty() ? row.bound->name : row.name;
    }
    Names tokens(const Schedule& schedule, const std::vector<uint32_t>& statements) const {
        Names names;
        for (const uint32_t statement : statements)
            names.insert(label(schedule, schedule.task_at(statement)));
        return names;
    }
    Names carried(const Schedule& schedule, size_t task) const {
        Names names;
        for (const CarriedDep& dep : schedule.tasks()[task].bound->carried)
            names.insert(fmt::format("{}[{}-{}]", label(schedule, schedule.task_at(dep.task)),
                                     schedule.loop(dep.loop).variable, dep.distance));
        return names;
    }
    /// Returns the task of both programs that stands before this one.
    std::string place(const Schedule& schedule, size_t task) const {
        const auto& partner = &schedule == &a_ ? in_b_ : in_a_;
        while (task-- > 0) {
            const std::optional<size_t>& other = partner[task];
            if (other && !moved_[&schedule == &a_ ? task : *other])
                return fmt::format("after {}", label(schedule, task));
        }
        return "first";
    }

    void compare(size_t i, size_t j) {
        compare_loops(i, j);
        if (moved_[i]) add(Kind::order, i, j, place(a_, i), place(b_, j));
        const Schedule::Task &x = a_.tasks()[i], &y = b_.tasks()[j];
        compare_tokens(Kind::wait, i, j, tokens(a_, x.waits), tokens(b_, y.waits));
        compare_tokens(Kind::wait, i, j, tokens(a_, x.waits_after), tokens(b_, y.waits_after));
        const size_t before = reported_;
        compare_texts(Kind::operation, i, j, operation_of(*x.bound), operation_of(*y.bound));
        compare_tokens(Kind::deps, i, j, tokens(a_, x.bound->deps), tokens(b_, y.bound->deps));
        compare_tokens(Kind::carried, i, j, carried(a_, i), carried(b_, j));
        const auto sync = [](const BoundTask& task) { return task.sync ? "sync" : "async"; };
        compare_texts(Kind::sync, i, j, sync(*x.bound), sync(*y.bound));
        const auto unit = [](const BoundTask& task) {
            const auto number = [](int32_t n) { return n < 0 ? std::string("any") : std::to_string(n); };
            return fmt::format("engine {}, instance {}", number(task.engine), number(task.instance));
        };
        compare_texts(Kind::unit, i, j, unit(*x.bound), unit(*y.bound));
        compare_regions(i, j);
        if (reported_ == before) compare_texts(Kind::statement, i, j, a_.text_of(i), b_.text_of(j));
    }

    void compare_loops(size_t i, size_t j) {
        const std::vector<uint32_t> around_a = a_.loops(i), around_b = b_.loops(j);
        const auto ranges = [](const Schedule& schedule, const std::vector<uint32_t>& around) {
            std::vector<std::string> texts;
            for (const uint32_t loop : around) texts.push_back(schedule.range(loop));
            return around.empty() ? std::string("no loop") : fmt::format("{}", fmt::join(texts, ", "));
        };
        compare_texts(Kind::loop, i, j, ranges(a_, around_a), ranges(b_, around_b));
        if (around_a.size() != around_b.size()) return;
        for (size_t n = 0; n < around_a.size(); ++n) {
            const BoundLoop &x = a_.loop(around_a[n]), &y = b_.loop(around_b[n]);
            if (x.max_in_flight == y.max_in_flight) continue;
            add(Kind::window, i, j, fmt::format("max_in_flight({}) of {}", x.max_in_flight, x.variable),
                fmt::format("max_in_flight({}) of {}", y.max_in_flight, y.variable));
            at_lines(i, a_.line(around_a[n]), b_.line(around_b[n]));
        }
    }

    /// Compares the regions themselves where the statements name other ones.
    void compare_regions(size_t i, size_t j) {
        const std::vector<std::string> x = a_.regions(i), y = b_.regions(j);
        if (x.size() != y.size()) return;
        for (size_t n = 0; n < x.size(); ++n)
            if (x[n] != y[n]) return add(Kind::region, i, j, x[n], y[n]);
    }

    void compare_tokens(Kind kind, size_t i, size_t j, const Names& a, const Names& b) {
        if (a != b) add(kind, i, j, joined(without(a, b)), joined(without(b, a)));
    }
    void compare_texts(Kind kind, size_t i, size_t j, std::string_view a, std::string_view b) {
        if (a != b) add(kind, i, j, std::string(a), std::string(b));
    }

    /// Keeps the first of an operation, and counts the others.
    void add(Kind kind, std::optional<size_t> i, std::optional<size_t> j, std::string a, std::string b) {
        ++reported_;
        const std::string& op = i ? a_.op_id(*i) : b_.op_id(*j);
        // the operation of B that A has under another id: that of its tasks
        const auto [known, added] = change_of_.emplace(op, changes_.size());
        if (!added) {
            ++changes_[known->second].further;
            return;
        }
        ScheduleChange change;
        change.kind = kind;
        change.op = op;
        change.task = i ? label(a_, *i) : label(b_, *j);
        change.a = std::move(a);
        change.b = std::move(b);
        if (i) change.line_a = a_.line(a_.tasks()[*i].statement);
        if (j) change.line_b = b_.line(b_.tasks()[*j].statement);
        changes_.push_back(std::move(change));
    }
    /// Notes that the change just kept, of a task of A, is about these lines.
    void at_lines(size_t i, uint32_t line_a, uint32_t line_b) {
        ScheduleChange& change = changes_[change_of_.at(a_.op_id(i))];
        if (change.kind != Kind::window || change.further > 0) return;
        change.line_a = line_a;
        change.line_b = line_b;
    }

    const Schedule a_, b_;
    std::vector<std::optional<size_t>> in_b_, in_a_;  ///< partner of each task
    std::vector<bool> moved_;                         ///< indexed by task of A
    std::vector<ScheduleChange> changes_;
    std::map<std::string, size_t> change_of_;  ///< indexed by operation
    size_t reported_ = 0;
};

}  // namespace

std::string_view name_of(Kind kind) {
    constexpr std::array<std::string_view, 12> names{"missing", "loop",      "window", "order",
                                                     "wait",    "operation", "deps",   "carried",
                                                     "sync",    "unit",      "region", "statement"};
    return names[static_cast<size_t>(kind)];
}

std::vector<ScheduleChange> schedule_changes(const ScheduleSide& a, const ScheduleSide& b) {
    return Comparison(a, b).changes();
}

}  // namespace kpu::compare
