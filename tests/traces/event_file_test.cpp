#include "traces/event_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "base/diagnostics.hpp"
#include "sample.hpp"
#include "traces/bank_use.hpp"
#include "traces/event_log.hpp"
#include "traces/formats.hpp"
#include "traces/writers.hpp"

namespace kpu::traces {
namespace {

using test::sample_run;
using test::text_of;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string file_of(const RunInfo& info, const Events& events) {
    return text_of([&](Output& output) { write_event_file(info, events, output); });
}

bool equal(const Event& a, const Event& b) {
    return a.time_ps == b.time_ps && a.value == b.value && a.task == b.task && a.op == b.op &&
           a.unit == b.unit && a.kind == b.kind && a.cause == b.cause && a.reserved == b.reserved;
}

/// Gives a changed file the checksum that it should have.
std::string sealed(std::string bytes) {
    bytes.resize(bytes.size() - 4);
    const auto crc = static_cast<uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<unsigned>(bytes.size())));
    for (int i = 0; i < 4; ++i) bytes += static_cast<char>(crc >> (8 * i) & 0xff);
    return bytes;
}

// Records come out in order of time, and in order of arrival within one time.
TEST(EventLog, SortsStably) {
    EventLog log;
    for (uint32_t i = 0; i < 100'000; ++i) {
        Event event;
        event.time_ps = (i * 7919u) % 1000;
        event.value = i;
        log.record(event);
    }
    EXPECT_EQ(log.size(), 100'000u);
    const auto events = log.take_sorted().to_vector();
    ASSERT_EQ(events.size(), 100'000u);
    for (size_t i = 1; i < events.size(); ++i) {
        ASSERT_LE(events[i - 1].time_ps, events[i].time_ps);
        const bool in_order =
            events[i - 1].time_ps < events[i].time_ps || events[i - 1].value < events[i].value;
        ASSERT_TRUE(in_order);
    }
    EXPECT_EQ(log.size(), 0u);
}

// A pulse comes out as the two records it stands for, however long it is.
TEST(EventLog, PulsesAreTwoRecords) {
    EventLog log;
    const Picoseconds lengths[] = {1, 7000, 0xffffffff, uint64_t{1} << 32, uint64_t{1} << 50};
    Picoseconds from = 5;
    for (uint16_t unit = 0; unit < 5; ++unit) {
        log.pulse(unit, Cause::busy_overhead, from, from + lengths[unit]);
        from += lengths[unit] + 3;
    }
    EXPECT_EQ(log.size(), 10u);
    const auto events = log.take_sorted().to_vector();
    ASSERT_EQ(events.size(), 10u);
    from = 5;
    for (uint16_t unit = 0; unit < 5; ++unit) {
        const Event &busy = events[2u * unit], &idle = events[2u * unit + 1];
        EXPECT_EQ(busy.unit, unit);
        EXPECT_EQ(idle.unit, unit);
        EXPECT_EQ(static_cast<Cause>(busy.cause), Cause::busy_overhead);
        EXPECT_EQ(static_cast<Cause>(idle.cause), Cause::idle_no_work);
        EXPECT_EQ(busy.time_ps, from);
        EXPECT_EQ(idle.time_ps, from + lengths[unit]);
        EXPECT_EQ(busy.value, blame_none);
        from += lengths[unit] + 3;
    }
    EXPECT_EQ(log.size(), 0u);
}

/// Adds 60,000 records and 40,000 pulses with many equal times, some far ahead of others.
void fill(EventLog& log) {
    std::mt19937_64 random(7);
    for (uint32_t i = 0; i < 100'000; ++i) {
        const Picoseconds time = (i / 7 + random() % 900) / 3;
        if (random() % 5 < 2) {
            log.pulse(static_cast<uint16_t>(i % 9), Cause::busy_overhead, time, time + random() % 50'000);
        } else {
            Event event = state_record(static_cast<uint16_t>(i % 9), Cause::busy_useful, time);
            event.value = i;
            log.record(event);
        }
    }
}

// Records that go to disk come back as they would from memory, as often as they are read, also through a
// file.
TEST(EventLog, DiskChangesNothing) {
    EventLog in_memory;
    fill(in_memory);
    const size_t size = in_memory.size();
    const Events expected = in_memory.take_sorted();
    ASSERT_NE(expected.data(), nullptr);
    for (const size_t memory : {size_t{1}, size_t{200} << 10, size_t{1} << 20}) {
        EventLog log(memory);
        fill(log);
        EXPECT_EQ(log.size(), size);
        const Events events = log.take_sorted();
        EXPECT_EQ(events.data(), nullptr);
        EXPECT_EQ(log.size(), 0u);
        for (int pass = 0; pass < 2; ++pass) {
            const std::vector<Event> back = events.to_vector();
            ASSERT_EQ(back.size(), size);
            EXPECT_EQ(std::memcmp(back.data(), expected.data(), size * sizeof(Event)), 0);
        }
        EXPECT_EQ(file_of(sample_run().info, events), file_of(sample_run().info, expected));
    }
}

TEST(EventLog, NoFolderForTheDisk) {
    const char* const before = std::getenv("TMPDIR");
    const std::string kept = before != nullptr ? before : "";
    ::setenv("TMPDIR", "/nowhere/at/all", 1);
    EventLog log(1);
    fill(log);  // in the middle of a run: it must go on
    EXPECT_THAT([&] { log.take_sorted(); },
                ThrowsMessage<UserError>(HasSubstr("/nowhere/at/all: No such file")));
    if (before != nullptr) {
        ::setenv("TMPDIR", kept.c_str(), 1);
    } else {
        ::unsetenv("TMPDIR");
    }
}

// A written file is read back: every record, and a description that gives the same text.
TEST(EventFile, RoundTrip) {
    const auto sample = sample_run();
    const test::TempFolder folder;
    const std::string path = folder.file("run.kpuev");
    Output output = Output::to_file(path);
    write_event_file(sample.info, sample.events, output);
    output.finish();
    const Recording back = read_event_file(path);
    EXPECT_EQ(to_json(back.info), to_json(sample.info));
    EXPECT_EQ(back.info.units[2].name, "ddr0");
    EXPECT_EQ(back.info.prices.actions[4].energy_pj, 11);
    ASSERT_EQ(back.events.size(), sample.events.size());
    const std::vector<Event> events = back.events.to_vector();
    for (size_t i = 0; i < events.size(); ++i) EXPECT_TRUE(equal(events[i], sample.events[i])) << i;
}

// The layout is the documented one: magic, version, record size, sizes, then the description.
TEST(EventFile, LayoutIsAsDocumented) {
    const auto sample = sample_run();
    const std::string bytes = file_of(sample.info, sample.events);
    EXPECT_EQ(bytes.substr(0, 8), std::string("KPUEVNT\0", 8));
    EXPECT_EQ(bytes.substr(8, 8), std::string("\3\0\0\0\x20\0\0\0", 8));
    uint64_t description = 0, count = 0;
    std::memcpy(&description, bytes.data() + 16, 8);
    std::memcpy(&count, bytes.data() + 24, 8);
    EXPECT_EQ(count, sample.events.size());
    EXPECT_EQ(bytes.size(), 32 + description + 32 * count + 4);
    EXPECT_EQ(bytes[32], '{');
    EXPECT_EQ(sealed(bytes), bytes);
}

// Every writer gives the same bytes from the file as from the run.
TEST(EventFile, ExportEqualsTheRun) {
    const auto sample = sample_run();
    const Recording back = parse_event_file(file_of(sample.info, sample.events), "x");
    for (const Format* format : formats()) {
        const OptionValues options(format->options, {});
        const bool built = format->refuses == nullptr || format->refuses({}, options).empty();
        if (format->needs_accesses || !built) continue;
        EXPECT_EQ(text_of([&](Output& o) { format->write(sample.info, sample.events, options, o); }),
                  text_of([&](Output& o) { format->write(back.info, back.events, options, o); }))
            << format->name;
    }
}

// A burst may have more bytes than the file has records: only issue and ready name a task there.
TEST(EventFile, ABurstOfManyBytesIsNoTaskNumber) {
    auto sample = sample_run();
    sample.info.accesses = true;
    Event access;
    access.kind = EventKind::access;
    access.unit = 2;
    access.task = 0;
    access.reserved = 1 << 30;
    sample.events.insert(sample.events.begin(), access);
    const Recording back = parse_event_file(file_of(sample.info, sample.events), "x");
    EXPECT_EQ((*back.events.begin()).reserved, 1u << 30);
    for (const EventKind kind : {EventKind::issue, EventKind::ready}) {
        sample.events.front().kind = kind;
        sample.events.front().cause = 0;
        EXPECT_THAT([&] { parse_event_file(file_of(sample.info, sample.events), "x"); },
                    ThrowsMessage<UserError>(HasSubstr("task number out of range")));
    }
}

// The use of a bank names a channel, a bank of it, a unit that asked, and what the bank did.
TEST(EventFile, RefusesUsesOfUnknownBanks) {
    auto sample = sample_run();
    sample.info.accesses = true;
    sample.info.dram_banks = 16;
    Event bank;
    bank.kind = EventKind::bank;
    bank.unit = 2;
    bank.value = 1;
    bank.reserved = 15;
    bank.cause = BankUse{BankUse::Kind::write, BankUse::Row::conflict, true}.code();
    sample.events.insert(sample.events.begin(), bank);
    const Recording back = parse_event_file(file_of(sample.info, sample.events), "x");
    EXPECT_EQ((*back.events.begin()).cause, bank.cause);
    EXPECT_EQ(back.info.dram_banks, 16u);
    const auto refused = [&](auto change, const char* why) {
        sample.events.front() = bank;
        change(sample.events.front());
        EXPECT_THAT([&] { parse_event_file(file_of(sample.info, sample.events), "x"); },
                    ThrowsMessage<UserError>(HasSubstr(why)));
    };
    refused([](Event& e) { e.reserved = 16; }, "unknown bank");
    refused([](Event& e) { e.value = 1000; }, "unknown unit");
    refused([](Event& e) { e.value = -1; }, "unknown unit");
    refused([](Event& e) { e.unit = 1000; }, "unknown unit");
    refused([](Event& e) { e.cause = 3; }, "unknown use of a bank");
}

// A file of 200 GB of nothing, whatever its header promises, is refused before it is read.
TEST(EventFile, RefusesAHugeFileAtOnce) {
    const auto sample = sample_run();
    const test::TempFolder folder;
    const std::string path = folder.file("huge.kpuev");
    std::string bytes = file_of(sample.info, sample.events);
    write_file(path, bytes);
    const uint64_t huge = uint64_t{10} << 40;
    std::filesystem::resize_file(path, huge);
    EXPECT_THAT([&] { read_event_file(path); }, ThrowsMessage<UserError>(HasSubstr("sizes are damaged")));
    uint64_t description = 0;
    std::memcpy(&description, bytes.data() + 16, 8);
    const uint64_t records = (huge - 36 - description) / 32;
    std::memcpy(bytes.data() + 24, &records, 8);
    write_file(path, bytes);
    std::filesystem::resize_file(path, 36 + description + 32 * records);
    EXPECT_THAT([&] { read_event_file(path); },
                ThrowsMessage<UserError>(testing::AllOf(HasSubstr("bytes of disk"), HasSubstr("Fix:"))));
}

// A file with any one byte changed, or cut off anywhere, is refused.
TEST(EventFile, RefusesEveryFlippedByteAndTruncation) {
    const auto sample = sample_run();
    const std::string bytes = file_of(sample.info, sample.events);
    for (size_t i = 0; i < bytes.size(); ++i) {
        std::string changed = bytes;
        changed[i] = static_cast<char>(changed[i] ^ (1 << (i % 8)));
        EXPECT_THROW(parse_event_file(changed, "x"), UserError) << i;
        EXPECT_THROW(parse_event_file(bytes.substr(0, i), "x"), UserError) << i;
    }
    EXPECT_THROW(parse_event_file(bytes + "x", "x"), UserError);
    EXPECT_THAT([] { parse_event_file("hello, this is no event file at all", "f.kpuev"); },
                ThrowsMessage<UserError>(HasSubstr("f.kpuev: not a valid event file")));
}

// A forged file whose checksum is right is refused with a reason, or every writer copes with it: no crash, no
// hang.
TEST(EventFile, ForgedBytesNeverCrash) {
    const auto sample = sample_run();
    const std::string bytes = file_of(sample.info, sample.events);
    size_t accepted = 0;
    for (size_t i = 32; i + 4 < bytes.size(); ++i) {
        for (const char flip : {'\x01', '\x80'}) {
            std::string changed = bytes;
            changed[i] = static_cast<char>(changed[i] ^ flip);
            try {
                const Recording back = parse_event_file(sealed(changed), "x");
                ++accepted;
                for (const auto write : {write_vcd, write_stalls_csv}) {
                    text_of([&](Output& o) { write(back.info, back.events, o); });
                }
            } catch (const UserError&) {
            }
        }
    }
    EXPECT_GT(accepted, 0u);
}

// Records that name what the description lacks are refused, each with its reason.
TEST(EventFile, RefusesRecordsThatPointNowhere) {
    const auto sample = sample_run();
    const auto refused = [&](const Event& event, const std::string& why) {
        auto events = sample.events;
        events.push_back(event);
        events.back().time_ps = 5'000'000;
        EXPECT_THAT([&] { parse_event_file(file_of(sample.info, events), "x"); },
                    ThrowsMessage<UserError>(HasSubstr(why)));
    };
    refused(test::cause_event(0, 4, Cause::busy_useful), "unknown unit");
    refused(test::cause_event(0, 0, static_cast<Cause>(99)), "unknown cause");
    refused(test::cause_event(0, 0, Cause::busy_useful, 1000), "task number");
    refused(test::cause_event(0, 0, Cause::busy_useful, 0, 77), "unknown operation");
    refused(test::issue_event(0, 0, 3), "unknown statement");
    refused(test::counter_event(0, 0, static_cast<CounterId>(9), 1), "unknown counter");
    Event event;
    event.kind = EventKind::energy;
    event.unit = 10;
    refused(event, "unknown action");
    event.unit = 1;
    event.set_duration(1, 4);
    refused(event, "unknown unit");
    event.set_duration((Cycles{1} << 48) - 1, no_unit);
    auto slow = sample;
    slow.info.core_hz = 1000;  // 9,000 years of them
    slow.events = {event};
    EXPECT_THAT([&] { parse_event_file(file_of(slow.info, slow.events), "x"); },
                ThrowsMessage<UserError>(HasSubstr("duration")));
    event.kind = static_cast<EventKind>(50);
    refused(event, "unknown kind");
    auto events = sample.events;
    std::swap(events.front(), events.back());
    EXPECT_THAT([&] { parse_event_file(file_of(sample.info, events), "x"); },
                ThrowsMessage<UserError>(HasSubstr("backwards")));
}

}  // namespace
}  // namespace kpu::traces
