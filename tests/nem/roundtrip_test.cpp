// Printing and reading back: the same bytes.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <set>
#include <sstream>

#include "isa/builder.hpp"
#include "isa/opcodes.hpp"
#include "tests/nem/support.hpp"

namespace kpu::nem {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Prints and reads back; returns the text.
std::string expect_same(const Module& module) {
    std::string text = print(module);
    EXPECT_EQ(parse_good(text).SerializeAsString(), module.program.SerializeAsString())
        << text.substr(0, 4000);
    return text;
}

Module module_of(std::string_view text) {
    Parsed parsed = parse_text(text);
    EXPECT_FALSE(parsed.diagnostics.has_errors()) << parsed.errors();
    return std::move(parsed.document.module);
}

TEST(round_trip, every_example_reads_back_and_prints_as_statements) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(KPUSIM_SOURCE_DIR "/examples")) {
        if (entry.path().extension() != ".nem") continue;
        std::ostringstream text;
        text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
        EXPECT_THAT(expect_same(module_of(text.str())), Not(HasSubstr("#! module")));
    }
}

TEST(round_trip, a_program_with_every_construct_prints_as_it_is_written) {
    // The text is what the printer writes, so printing what was read gives it back, to the byte.
    const std::string text = R"(device "npm lite.cfg"
program everything:

#! program {"version":"2","source_hash":"a\"b","source_file":["net.py","lib/a b.py"],"input_id":["x"],"estimated_total_energy_uj":0.1}
#! param T = -8 in [-8..64]
#! tensor {"id":"x","elem":"I8","shape":["4"],"quant":{"kind":"PER_TENSOR","scale":[0.1],"zero_point":["-3"]},"buffer":"D"}
#! op {"id":"conv","op_type":"Conv","attribute":[{"name":"alpha","f":0.3}]}
#! data {"name":"w","size":"4","sha256":"00","buffer":"D"}
#! place {"line":12,"column":3}
#! place {"file":1,"line":2147483647}
#! place {"line":1}

const N = 16
const M = -(N + 1) * -2 - (3 - (4 - 5)) * N / (2 * 3) mod 7

buffer D : DDR (size = N * T, align = 64) @debug(here)
buffer S : L1[N - 16] (size = 4096)
buffer Q : L2 (size = 64)

let a = region(D, T * 2, 16) elem=i4, shape=[N, 2], layout=NHWC,
    quant=per_group(axis=-1, group_size=32, scales=[0.5, 1.0e-07], zero_points=[0, -8]) @readonly
let b = region(S, 0, 16) elem=bf16, shape=[2, 4], strides=[N, 1]
#! {"place": 1}
let c = region(S, 0, 16)
t0 = transfer.async(dst=b, src=a @materialized) @memmove @seq_engine(1)
transfer.sync(dst=region(S, 0, 8), src=region(D, 0, 8), deps=[t0])
loop i in [0..N - 1] @max_in_flight(2):
    #! {"place": 0}
    loop j in [i..i + M] @max_in_flight(N / 8):
        let r = region(S, i * N + j, 8) elem=f32, shape=[2], layout=C @writeonly
        #! {"op": 0, "place": 0}
        t1 = conv2d.acc.async in a, region(S, i, 4) elem=i8, shape=[4], layout=C out r @materialized
            pads=[1, 1, N, -1] mode=reflect value=-1.5 text="a\"\\\n\t" accum_type=i32 words=[x, f16] deps=[t0]
        _9 = relu.async in r @materialized out r @resource(CSTL[j mod 2]) @debug(tag)
        store.async(dst=c, src=r, deps=[_9, t1])
    endloop
endloop
#! {"place": 1}
wait(t0, t1)
)";
    const Module module = module_of(text);
    EXPECT_EQ(expect_same(module), text);
    EXPECT_EQ(module.program.statement(9).task().name(), "");
}

TEST(round_trip, device_forms) {
    const std::string name = "device npm_lite\nprogram p:\n\nconst N = 1\n\n";
    EXPECT_EQ(expect_same(module_of(name)), name);
    const std::string body =
        "device d {\n  spec_version = \"1\"  # one\n  opcode.mandatory { }\n}\nprogram p:\n\nconst N = 1\n\n";
    EXPECT_EQ(expect_same(module_of(body)), body);
    const Parsed included =
        parse_text("include \"x.nem\"\ndevice e\nprogram p:\n\nconst N = 1\n\n", {{"x.nem", ""}});
    EXPECT_EQ(print(included.document.module), "include \"x.nem\"\ndevice e\nprogram p:\n\nconst N = 1\n\n");
}

TEST(round_trip, floats_keep_their_bits) {
    Module module = module_of(
        "buffer D : DDR (size = 4) let a = region(D, 0, 4) elem=i8, shape=[4], layout=C\n"
        "x = relu.async in a out a v=1.0");
    proto::Attribute& attribute = *module.program.mutable_statement(1)->mutable_task()->mutable_attribute(0);
    std::mt19937_64 random(5);
    std::vector<double> values = {
        0.0, -0.0,    1.0,     1e22, 1e23, 123456789012345680.0, 5e-324, 1.7976931348623157e308,
        0.1, 1.0 / 3, -2.5e-10};
    for (int i = 0; i < 2000; ++i) {
        const uint64_t bits = random();
        double value = 0;
        std::memcpy(&value, &bits, sizeof value);
        if (std::isfinite(value)) values.push_back(value);
    }
    proto::ValueList& list = *attribute.mutable_value()->mutable_list();
    for (const double value : values) list.add_item()->set_real(value);
    EXPECT_THAT(expect_same(module), Not(HasSubstr("#! module")));
}

TEST(round_trip, what_text_cannot_say_is_written_as_a_whole) {
    const Module base =
        module_of("buffer D : DDR (size = 4) x = relu.async in region(D, 0, 4) out region(D, 0, 4)");
    // an inline region used twice
    Module shared = base;
    shared.program.mutable_statement(0)->mutable_task()->mutable_output(0)->set_region(0);
    EXPECT_THAT(expect_same(shared), HasSubstr("#! module"));
    // two tasks of one name in one block
    Module twins = base;
    *twins.program.add_statement() = twins.program.statement(0);
    twins.program.mutable_statement(1)->mutable_task()->mutable_input(0)->set_region(2);
    twins.program.mutable_statement(1)->mutable_task()->mutable_output(0)->set_region(3);
    *twins.program.add_region() = twins.program.region(0);
    *twins.program.add_region() = twins.program.region(0);
    EXPECT_THAT(expect_same(twins), HasSubstr("#! module"));
    // no float literal
    Module infinite = base;
    proto::Attribute& attribute = *infinite.program.mutable_statement(0)->mutable_task()->add_attribute();
    attribute.set_name("v");
    attribute.mutable_value()->set_real(std::numeric_limits<double>::infinity());
    EXPECT_THAT(expect_same(infinite), HasSubstr("#! module"));
    // a string with a NUL
    Module zero = base;
    proto::Attribute& text = *zero.program.mutable_statement(0)->mutable_task()->add_attribute();
    text.set_name("v");
    text.mutable_value()->set_text(std::string("a\0b", 3));
    EXPECT_THAT(expect_same(zero), HasSubstr("#! module"));
}

/// Metadata stands as JSON, whose writer and reader disagree about -0.
TEST(round_trip, metadata_keeps_negative_zeros) {
    Module module =
        module_of("buffer D : DDR (size = 4) x = relu.async in region(D, 0, 4) out region(D, 0, 4)");
    proto::OpAttribute& attribute = *module.program.add_op()->add_attribute();
    attribute.set_name("[-0] \\\"[-0]");
    attribute.set_f(-0.0);
    for (const double value : {-0.0, 1.0, -0.5, 1e-5, 0.0, -1e-100, -0.0}) attribute.add_floats(value);
    EXPECT_THAT(expect_same(module), Not(HasSubstr("#! module")));
}

TEST(round_trip, a_malformed_module_line_is_refused) {
    const Parsed parsed =
        parse_text("#! module {\"statement\":[{\"task\":{\"input\":[{\"region\":7}],\"output\":[{}]}}]}");
    EXPECT_TRUE(parsed.diagnostics.has_errors());
    EXPECT_THAT(parsed.errors(), HasSubstr("region"));
}

TEST(round_trip, a_malformed_program_is_not_printed) {
    Module module;
    module.program.add_statement()->set_let_region(3);
    EXPECT_THROW(print(module), UserError);
}

/// Programs of the builder: unnamed tasks with tokens that are used, regions in loops, all kinds of values.
class RandomProgram {
  public:
    /// In text `compute` launches a kernel: a task of another kind.
    static bool is_launch(const OpcodeSpec& spec) { return spec.name == "compute"; }

    explicit RandomProgram(uint32_t seed) : random_(seed), p_("random") {}

    Module make() {
        params_ = p_.param("T", 3, 1, 9);
        for (int i = 0; i < 3; ++i) constants_.push_back(p_.constant(fmt::format("k{}", i), expr(0)));
        for (int i = 0; i < 3; ++i)
            buffers_.push_back(
                p_.buffer(fmt::format("buf{}", i), static_cast<Level>(i), expr(2) + params_, 64));
        p_.op("op_a", "Relu");
        block(0);
        return p_.build();
    }

    /// Opcodes of the programs' tasks.
    const std::set<std::string>& used() const { return used_; }

  private:
    builder::Expr expr(int depth) {
        const uint64_t choice = pick(9);
        if (depth <= 0 || choice < 2) return static_cast<int64_t>(pick(1000)) - 500;
        if (choice == 2 && !constants_.empty()) return constants_[pick(constants_.size())];
        if (choice == 3 && !loops_.empty()) return loops_[pick(loops_.size())];
        const builder::Expr a = expr(depth - 1), b = expr(depth - 1);
        switch (choice % 5) {
            case 0:
                return a + b;
            case 1:
                return a - b;
            case 2:
                return a * b;
            case 3:
                return a / (b * b + 1);
            default:
                return a * a % 7;  // literals fold, and mod takes no negative ones
        }
    }

    builder::Region region() {
        const builder::Buffer buffer = buffers_[pick(buffers_.size())];
        const std::string name = fmt::format("r{}", serial_++);
        if (pick(4) == 0) return p_.bytes(name, buffer, index_expr(), 16);
        auto type = builder::tensor(static_cast<ElemType>(1 + pick(12)), {4, 2});
        if (pick(2) == 0) type = type.strides({8, 1});
        switch (pick(5)) {
            case 0:
                type = type.quant(builder::per_channel(0, {0.1, 1e-9, 3.0, 1e30}));
                break;
            case 1:
                type = type.quant(builder::per_group(1, 1, {0.25, 1.0 / 3}, {-7, 7}));
                break;
            case 2:
                type = type.quant(builder::per_tensor(5e-324, 127));
                break;
            default:
                break;
        }
        builder::Region r = p_.region(name, buffer, index_expr(), builder::Expr(64), type);
        if (pick(3) == 0) r.decorate("readonly");
        return r;
    }

    builder::Expr index_expr() {
        return loops_.empty() ? builder::Expr(8) : loops_[pick(loops_.size())] * 3 + 1;
    }

    void task() {
        const builder::Region a = region(), b = region();
        const std::string name = pick(2) == 0 ? "" : fmt::format("tok{}", serial_++);
        const auto made = [&]() {
            if (pick(4) == 0) return p_.transfer(name, a, b);
            builder::Task t = compute(name, a, b);
            if (pick(3) == 0) t.op(1);
            return t;
        };
        builder::Task t = made();
        if (!tokens_.empty() && pick(2) == 0) t.after({tokens_[pick(tokens_.size())], tokens_.back()});
        if (pick(5) == 0) t.sync();
        if (!loops_.empty() && pick(4) == 0)
            t.after_previous(t, loops_[pick(loops_.size())], static_cast<uint32_t>(1 + pick(3)));
        tokens_.push_back(t);
    }

    /// Adds any opcode of the table with as many operands as it may have and a value for each attribute.
    builder::Task compute(const std::string& name, const builder::Region& a, const builder::Region& b) {
        const OpcodeSpec& spec = opcode_table()[pick(opcode_table().size())];
        if (spec.movement || is_launch(spec)) return p_.transfer(name, b, a);
        size_t fewest = 0;
        for (const OperandSpec& operand : spec.inputs) fewest += operand.optional ? 0 : 1;
        const size_t most = spec.variadic_inputs ? 5 : spec.inputs.size();
        std::vector<builder::Region> in = {a}, out = {pick(4) == 0 ? a : region()};
        for (size_t count = fewest + pick(most - fewest + 1); in.size() < count;)
            in.push_back(pick(2) == 0 ? b.materialized() : region());
        while (spec.variadic_outputs && pick(2) == 0) out.push_back(region());
        builder::Task t = p_.compute(std::string(spec.name), in, out, name);
        for (const AttrSpec& attribute : spec.attributes) {
            if (attribute.required || pick(2) == 0) give(t, attribute);
        }
        if (pick(4) == 0) t.resource(spec.unit, 0);
        if (pick(6) == 0) t.decorate("deterministic");
        used_.insert(std::string(spec.name));
        return t;
    }

    void give(builder::Task& t, const AttrSpec& attribute) {
        const std::string name(attribute.name);
        std::vector<int64_t> list;
        std::vector<double> reals;
        switch (attribute.kind) {
            case AttrKind::integer:
                t.attr(name, pick(2) == 0 ? builder::Expr(static_cast<int64_t>(pick(9)) - 4) : index_expr());
                break;
            case AttrKind::real:
                t.attr(name, std::ldexp(static_cast<double>(random_()) - 2e9, -static_cast<int>(pick(60))));
                break;
            case AttrKind::boolean:
                t.attr(name, pick(2) == 0 ? "true" : "false");
                break;
            case AttrKind::elem_type:
                t.attr(name, static_cast<ElemType>(1 + pick(12)));
                break;
            case AttrKind::ints:
                for (uint64_t i = pick(7); i > 0; --i) list.push_back(static_cast<int64_t>(pick(90)) - 20);
                t.attr(name, list);
                break;
            case AttrKind::reals:
                for (uint64_t i = pick(7); i > 0; --i)
                    reals.push_back(
                        std::ldexp(static_cast<double>(random_()) - 2e9, -static_cast<int>(pick(60))));
                t.attr(name, reals);
                break;
            case AttrKind::text:
            case AttrKind::word:
                t.attr(name, pick(2) == 0 ? "constant" : "reflect");
        }
    }

    void block(int depth) {
        for (uint64_t i = 1 + pick(5); i > 0; --i) {
            const uint64_t choice = pick(6);
            if (choice == 0 && depth < 4) {
                p_.loop(fmt::format("v{}", serial_++), 0, expr(1), 1 + static_cast<int64_t>(pick(3)),
                        [&](const builder::Expr& variable) {
                            loops_.push_back(variable);
                            block(depth + 1);
                            loops_.pop_back();
                        });
            } else if (choice == 1 && !tokens_.empty()) {
                p_.wait({tokens_[pick(tokens_.size())]});
            } else {
                task();
            }
        }
    }

    uint64_t pick(uint64_t count) { return random_() % count; }

    std::mt19937 random_;
    builder::Program p_;
    builder::Expr params_ = 0;
    std::vector<builder::Expr> constants_, loops_;
    std::vector<builder::Buffer> buffers_;
    std::vector<builder::Task> tokens_;
    std::set<std::string> used_;
    int serial_ = 0;
};

TEST(round_trip, random_programs_of_the_builder) {
    std::set<std::string> used;
    for (uint32_t seed = 0; seed < 300; ++seed) {
        RandomProgram program(seed);
        const Module module = program.make();
        EXPECT_THAT(expect_same(module), Not(HasSubstr("#! module"))) << seed;
        if (HasFailure()) break;
        used.insert(program.used().begin(), program.used().end());
    }
    for (const OpcodeSpec& spec : opcode_table()) {
        EXPECT_EQ(used.count(std::string(spec.name)),
                  spec.movement || RandomProgram::is_launch(spec) ? 0u : 1u)
            << spec.name;
    }
}

}  // namespace
}  // namespace kpu::nem
