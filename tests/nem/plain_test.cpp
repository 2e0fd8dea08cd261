// Programs whose text nobody reads back: changed at random, whatever still counts as plain must be what its text says.
#include "isa/nem/plain.hpp"

#include <google/protobuf/message.h>

#include <random>

#include "isa/container.hpp"
#include "tests/nem/support.hpp"

namespace kpu::nem {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

/// A program as front ends write it.
constexpr const char* compiled = R"(device "swkpu-v1"
program net:

#! program {"version":"2","input_id":["x"],"batch":"1","source_file":["net.py","b\"c.py"]}
#! param T = 2 in [1..8]
#! tensor {"id":"x","elem":"I8","shape":["4"],"quant":{"kind":"PER_TENSOR","scale":[0.1],"zero_point":["-3"]},"buffer":"host"}
#! op {"id":"conv","op_type":"Conv","attribute":[{"name":"alpha","f":0.3}]}
#! place {"file":1,"line":12,"column":3}
#! place {"line":4}

const N = 16
buffer host : DDR (size = 4096 * T, align = 512)
buffer other : L2 (size = 4096) @materialized(2)
buffer l1_0 : L1[0] (size = 65536, align = 512)

let r0 = region(host, 0, 64) elem=i8, shape=[4, 16], layout=row_major
let r1 = region(l1_0, N, 64) elem=i8, shape=[4, 16], strides=[16, 1], quant=per_tensor(scale=0.5, zero_point=-3) @readonly
let bytes = region(other, 64, 64)
_3 = transfer.async(dst=r1, src=r0) @resource(DMA[0])
#! {"op": 0, "place": 1}
load = store.sync(dst=bytes, src=r0, deps=[_3])
#! {"place": 0}
loop t in [0..N - 1] @max_in_flight(2):
    #! {"place": 1}
    let r2 = region(host, (t * 2 + 1) * 64, 64) elem=i8, shape=[4, 16], layout=row_major
    let r3 = region(l1_0, t mod 2 * 64, 64) elem=f32, shape=[4, 16], strides=[16, 1]
    _8 = gemm.acc.async in r1, r2 out r3 accum_type=f32 deps=[_3, load]
    #! {"op": 0}
    relu.async in r3 out r3 axes=[0, 1] alpha=0.5 slope=-1.5 first=-4 mode=constant deps=[_8] @resource(VE[t])
    loop i in [0..3]:
        copy.sync in r2 out r3
    endloop
endloop
#! {"place": 0}
wait(load)
let r4 = region(l1_0, 0, 64) elem=i8, shape=[4, 16], strides=[16, 1], quant=per_channel(axis=1, scales=[0.5, 1.0e-07], zero_points=[0, 4])
neg.async in r4 out r4
)";

class Mutation {
  public:
    explicit Mutation(unsigned seed) : random_(seed) {}

    /// Changes one field of the message or of one in it.
    void change(Message& message) {
        const Reflection& reflection = *message.GetReflection();
        const auto& type = *message.GetDescriptor();
        const FieldDescriptor& field = *type.field(below(type.field_count()));
        if (field.is_repeated()) {
            change_list(message, reflection, field);
        } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
            if (below(8) == 0)
                reflection.ClearField(&message, &field);
            else if (reflection.HasField(message, &field) || below(8) == 0)
                change(*reflection.MutableMessage(&message, &field));
        } else {
            set(message, reflection, field);
        }
    }

  private:
    int below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }

    void change_list(Message& message, const Reflection& reflection, const FieldDescriptor& field) {
        const int size = reflection.FieldSize(message, &field);
        const bool messages = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
        const int how = below(messages ? 24 : 4);
        if (how == 0 && size > 1) {
            reflection.SwapElements(&message, &field, below(size), below(size));
        } else if (how == 1 && size > 0) {
            reflection.RemoveLast(&message, &field);
        } else if (how == 2 && messages) {
            Message& added = *reflection.AddMessage(&message, &field);
            if (size > 0) added.CopyFrom(reflection.GetRepeatedMessage(message, &field, below(size)));
        } else if (messages && size > 0) {
            change(*reflection.MutableRepeatedMessage(&message, &field, below(size)));
        } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_UINT32) {
            reflection.AddUInt32(&message, &field, static_cast<uint32_t>(number()));
        } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
            reflection.AddInt64(&message, &field, number());
        } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
            reflection.AddDouble(&message, &field, real());
        } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
            reflection.AddString(&message, &field, std::string(word()));
        }
    }

    void set(Message& message, const Reflection& reflection, const FieldDescriptor& field) {
        switch (field.cpp_type()) {
            case FieldDescriptor::CPPTYPE_INT32:
                return reflection.SetInt32(&message, &field, static_cast<int32_t>(number()));
            case FieldDescriptor::CPPTYPE_UINT32:
                return reflection.SetUInt32(&message, &field, static_cast<uint32_t>(number()));
            case FieldDescriptor::CPPTYPE_INT64:
                return reflection.SetInt64(&message, &field, number());
            case FieldDescriptor::CPPTYPE_UINT64:
                return reflection.SetUInt64(&message, &field, static_cast<uint64_t>(number()));
            case FieldDescriptor::CPPTYPE_DOUBLE:
                return reflection.SetDouble(&message, &field, real());
            case FieldDescriptor::CPPTYPE_BOOL:
                return reflection.SetBool(&message, &field, below(2) == 0);
            case FieldDescriptor::CPPTYPE_ENUM:
                return reflection.SetEnumValue(&message, &field, below(12));
            case FieldDescriptor::CPPTYPE_STRING:
                return reflection.SetString(&message, &field, std::string(word()));
            default:
                break;
        }
    }

    int64_t number() {
        constexpr int64_t edges[] = {INT64_MIN, INT64_MAX, -1, 1 << 20};
        return below(8) == 0 ? edges[below(4)] : below(12) - 1;
    }
    double real() {
        constexpr double values[] = {0.0, -0.0, 1e300, 0.1, -2.5, 5e-324, HUGE_VAL, 3.0};
        return values[below(8)];
    }
    std::string_view word() {
        constexpr std::string_view words[] = {
            "",      "r0",      "r9",    "t",     "i",          "N",       "T",      "host",     "_3",
            "deps",  "async",   "store", "f16",   "posit8",     "loop",    "mod",    "L1",       "elem",
            "shape", "a b",     "\"",    "a\\n",  "x",          "y",       "dst",    "constant", "sync",
            "debug", "out",     "gemm",  "gemm.", "compute",    "relu.x",  "in.acc", "\xc3\xa9", "\n",
            "load",  "profile", "accum", "conv",  "load.async", "strides", "quant",  "row_major"};
        return words[below(static_cast<int>(std::size(words)))];
    }

    std::mt19937 random_;
};

TEST(plain, what_counts_as_plain_is_what_its_text_says) {
    const Module original = std::move(parse_text(compiled).document.module);
    ASSERT_TRUE(is_plain(original.program));
    int plain = 0, sound = 0;
    for (unsigned seed = 0; seed < 10'000; ++seed) {
        Module module(original);
        Mutation mutation(seed);
        for (unsigned i = 0; i <= seed % 4; ++i) mutation.change(module.program);
        try {
            check_structure(module.program, "p");
        } catch (const UserError&) {
            continue;
        }
        ++sound;
        if (!is_plain(module.program)) continue;
        ++plain;
        const std::string text = print(module);
        if (!is_plain(text)) continue;
        const Parsed again = parse_text(text);
        ASSERT_FALSE(again.diagnostics.has_errors()) << seed << "\n" << again.errors() << text;
        ASSERT_EQ(again.document.module.program.SerializeAsString(), module.program.SerializeAsString())
            << seed << "\n"
            << text;
    }
    EXPECT_GT(sound, 3'000);
    EXPECT_GT(plain, 1'000);
}

TEST(plain, texts_of_what_else_there_is) {
    EXPECT_TRUE(is_plain("let a = \"b\"\n"));
    for (const char* const text : {"\xc3\xa9", "\t", "\x7f"})
        EXPECT_FALSE(is_plain(std::string_view(text))) << text;
}

}  // namespace
}  // namespace kpu::nem
