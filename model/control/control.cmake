# kpu::control: loop windows, iteration threads, tokens; what tasks do to memory; the driver without time.
kpu_library(control
  SOURCES control/program_plan.cpp control/controller.cpp control/issue.cpp control/explain.cpp control/describe.cpp
          control/hazards.cpp control/race_history.cpp control/data_path.cpp control/functional.cpp
  LINK kpu::order kpu::isa kpu::values Boost::boost)
