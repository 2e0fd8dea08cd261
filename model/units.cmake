# kpu::model: the hardware in SystemC, composed from a platform.
kpu_rows(units units.txt TYPE kpu::model::UnitModule HEADER model/unit/unit_module.hpp)
kpu_library(model TOGETHER 5
  SOURCES unit/unit.cpp unit/formula_unit.cpp unit/unit_module.cpp
          accounting/accounting.cpp accounting/device_timeline.cpp accounting/energy_booking.cpp accounting/energy_places.cpp accounting/execution.cpp accounting/kernel_profile.cpp
          accounting/task_trace.cpp accounting/waiting.cpp accounting/work_counts.cpp accounting/work_table.cpp
          sequencer/sequencer.cpp sequencer/task_arbiter.cpp sequencer/task_board.cpp
          device/device.cpp device/module_list.cpp device/sim_context.cpp device/statistics.cpp device/unit_table.cpp vector/kernel_cost.cpp vector/tile_cost.cpp vector/kernel_unit.cpp vector/kernel_streams.cpp ${units_source}
  LINK kpu::interconnect kpu::memory kpu::execution kpu::timing kpu::values kpu::traces kpu::platforms)
foreach(unit ${units_names})
  target_sources(kpu_model PRIVATE ${unit}/${unit}_unit.cpp)
  kpu_note_rooms(kpu_model ${unit}/${unit}_unit.cpp)
endforeach()
# Their state has members of types that only these sources know: compiled with others, g++ warns of them.
set_source_files_properties(vector/kernel_unit.cpp vector/kernel_streams.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
