#pragma once

#include <vector>

#include "explain/run_graph.hpp"

namespace kpu::explain {

/// Reason why a segment of the critical path could not begin earlier.
enum class Because : uint8_t {
    start,       ///< the run begins
    dependency,  ///< it needs what `because_task` leaves
    carried,     ///< the same, and `because_task` is of an earlier iteration of a loop around both
    unit_busy,   ///< the unit was executing `because_task`
    dispatch,    ///< the sequencer was dispatching `because_task`
    wait,        ///< the program waits for `because_task` before it issues more
    window,      ///< max_in_flight: the iteration of `because_task` had to end
    table,       ///< the token table was full until `because_task` ended
    limit,       ///< the simulator's own limit of live tasks
    unknown      ///< the records do not say
};
std::string_view name_of(Because because);

/// A stretch of the critical path: one task on one unit, or time in which the path waits.
struct PathSegment {
    enum class Kind : uint8_t {
        executes,  ///< the unit executes the task
        dispatch,  ///< the sequencer dispatches the task, and nothing else
        stands     ///< nothing on the path moves: the run stopped, or the records do not say why
    };
    Kind kind = Kind::executes;
    Cycles from = 0, to = 0;
    uint32_t task = traces::no_task;
    uint16_t unit = traces::no_unit;
    Because because = Because::start;
    uint32_t because_task = traces::no_task;
    CauseCycles causes;  ///< causes of what the unit did in the meantime; sums to to - from
};

/// Another task that used a resource which a stream waited for.
struct Competitor {
    uint32_t task = traces::no_task;
    uint16_t unit = traces::no_unit;
    Cycles cycles = 0;  ///< both were under way
};

/// The chain of tasks that decides when the run ends: segments without gap or overlap from 0 to the end.
class CriticalPath {
  public:
    explicit CriticalPath(const RunGraph& graph);
    const std::vector<PathSegment>& segments() const { return segments_; }
    /// Returns the cycles that a task could end later without the run ending later, if the order of tasks on
    /// each unit stayed as it was. 0 on the path; at least this many elsewhere.
    const std::vector<Cycles>& slack() const { return slack_; }
    bool is_on_path(uint32_t task) const { return on_path_[task]; }

  private:
    void walk();
    PathSegment last_segment() const;
    bool why(PathSegment& segment, PathSegment& next) const;
    bool held_by_unit(uint32_t task, uint16_t unit, PathSegment& segment, PathSegment& next) const;
    bool held_by_launch(uint32_t task, PathSegment& segment, PathSegment& next) const;
    bool held_by_sequencer(uint32_t task, PathSegment& segment, PathSegment& next) const;
    bool released(uint32_t task, PathSegment& segment, PathSegment& next) const;
    PathSegment execution(uint32_t task, Cycles to) const;
    void add(const PathSegment& segment);
    void find_slack();

    const RunGraph& graph_;
    std::vector<PathSegment> segments_;
    std::vector<Cycles> slack_;
    std::vector<bool> on_path_;
};

/// Returns the tasks that used the same resource as `task` while a limiter held it up in [from, to), most
/// first.
std::vector<Competitor> competitors(const RunGraph& graph, uint32_t task, traces::Cause limiter, Cycles from,
                                    Cycles to);
/// Returns the kind of resource that a limiter of a stream is about: ddr, link, l2, l1, or the poster's own
/// unit (device: none).
UnitKind resource_of(traces::Cause limiter, const traces::StreamWork& stream);

}  // namespace kpu::explain
